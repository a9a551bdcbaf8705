"""Hyper-parameters of a tier: those of the runs, or, where nothing was run, what Hydra composes."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.data.published import PAPER
from analysis.data.runs import StudyRuns, flat

FILE = PAPER / "settings.json"  # python -m bepo.settings


@dataclass(frozen=True)
class PlaceSettings:
    """Settings of Gated-BEPO on one environment with one model; ``runs`` is 0 where they are only composed."""

    env: str
    model: str
    values: dict[str, Any]
    runs: int = 0

    def text(self, names: str, default: str = "–") -> str:
        """Return the values of dotted fields joined by `` / ``, as the paper does; ``default`` where one is missing."""
        values = [self.values.get(name) for name in names.split(" / ")]
        return default if None in values else " / ".join(map(_text, values))


def settings_of_tier(studies: Iterable[StudyRuns], tier: str) -> dict[tuple[str, str], PlaceSettings]:
    """Return the settings by (environment, model). The newest run of Gated-BEPO decides."""
    composed = json.loads(FILE.read_text()).get(tier, {}) if FILE.exists() else {}
    places = {
        (env, model): PlaceSettings(env, model, flat(v)) for p, v in composed.items() for env, model in [p.split()]
    }
    for study in studies:
        for run in sorted((r for r in study.runs if r.method == "gated_bepo"), key=lambda r: r.started):
            place = run.env, run.model
            values = run.settings | flat({"backend": run.config.get("backend", {})})
            places[place] = PlaceSettings(*place, values, places[place].runs + 1 if place in places else 1)
    return places


def agree(ours: str, papers: str) -> bool | None:
    """Do the numbers in two texts agree? None where one of them is no number."""
    try:
        a, b = ([float(part) for part in text.split(" / ")] for text in (ours, papers))
    except ValueError:
        return None
    return a == b


def _text(value: object) -> str:
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)

"""The runs of a study, and the rules by which they may be compared and averaged."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from analysis.data.rows import METHOD, RowKey
from analysis.data.runs import Run, flat, grouped

# Settings that belong to a method: PPO takes 128 tasks once where the others take 16 tasks 8 times. A method also
# chooses its loss, the level of its ratio and its mean (GRAFT). Runs with one loss share its other settings.
_OF_A_METHOD = ("credit.", "rollout.grouped", "loss.", "training.critic.")
_OF_ITS_LOSS = ("loss.ratio", "loss.aggregation")


@dataclass
class StudyRuns:
    """The complete runs of one study at one tier.

    ``skipped``: the runs that were left out, and why. ``refused``: why the runs of an (environment, model, row) must
    not be averaged. ``trials``: folders that may hold an Optuna database; if two have a study, the later one counts.
    ``seeds``: the requested training seeds; empty for all.
    """

    name: str
    tier: str
    runs: list[Run] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: dict[tuple[str, str, str], str] = field(default_factory=dict)
    key: RowKey = METHOD
    trials: tuple[Path, ...] = ()
    seeds: Sequence[int] = ()

    def only(self, condition: Callable[[Run], bool]) -> Self:
        """Return the study with the runs that meet a condition."""
        return replace(self, runs=[run for run in self.runs if condition(run)])

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """The runs of each row, by training seed."""
        return grouped(sorted(self.runs, key=lambda r: (r.seed, r.id)), lambda run: str(self.key.row(run)))


class Studies(dict[str, StudyRuns]):
    """Several studies at one tier, by name."""

    @property
    def tier(self) -> str:
        """The tier of all studies."""
        return next(iter(self.values())).tier

    @property
    def runs(self) -> list[Run]:
        """The runs of all studies, each once."""
        return list({run.id: run for study in self.values() for run in study.runs}.values())

    def pooled(self) -> list[Run]:
        """Return the runs that may be compared across studies. The first study has their rows' key.

        Its ``skipped`` gets the others.
        """
        first = next(iter(self.values()))
        together = select(StudyRuns(first.name, self.tier, key=first.key), self.runs)
        first.skipped += [*together.skipped, *together.refused.values()]
        return together.runs


def select(study: StudyRuns, runs: Iterable[Run], allow_mixed: bool = False) -> StudyRuns:
    """Fill ``study`` with those of ``runs`` that may be compared. ``skipped`` and ``refused`` name the others.

    1. Within an environment and model, all runs share every setting, except the settings of their method, those that
       rows vary and those that differ within rows. Runs with the same loss share its settings. The oldest published run
       decides; without published runs the newest run decides.
    2. All runs of a row have the same settings, decided in the same way.
    3. A row with several method versions, test task sets or backends is refused, unless ``allow_mixed``.
    """
    expected: dict[tuple[str, ...], Run] = {}
    of_method, within = (*_OF_A_METHOD, *study.key.varies), frozenset(study.key.within)
    of_its_loss = (*_OF_ITS_LOSS, *study.key.varies)
    rows: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    by_age = sorted(runs, key=lambda r: (r.started, r.id))
    published = [run for run in by_age if run.published]
    settled = {(run.env, run.model) for run in published}
    for run in (*published, *(run for run in reversed(by_age) if not run.published)):
        row = study.key.row(run)
        if row is None:
            continue
        place, loss = (run.env, run.model), str(run["loss.name"])
        other = {name for name in _differences(expected.setdefault(place, run), run) if not name.startswith(of_method)}
        if not other - within:
            fixed = _differences(expected.setdefault((*place, "loss", loss), run), run)
            other = {n for n in fixed if n.startswith("loss.") and not n.startswith(of_its_loss)}
        if not other - within:
            other = _differences(expected.setdefault((*place, row), run), run)
        if other := other - within:
            norm, names = "published" if place in settled else "newer", ", ".join(sorted(other))
            study.skipped.append(f"{run.path}: settings differ from {norm} runs of its study ({names})")
        else:
            rows[*place, row].append(run)
    for place, members in rows.items():
        reason = mixture(members)
        if reason and not allow_mixed:
            study.refused[place] = reason
        else:
            study.runs += members
    study.runs.sort(key=lambda r: r.id)
    return study


def mixture(runs: Iterable[Run]) -> str:
    """Return why these runs must not be averaged, with their IDs; empty if they may."""
    aspects: dict[str, Callable[[Run], str]] = {
        "method versions": lambda r: ", ".join(f"{k} {v}" for k, v in sorted(r.versions.items())) or "not recorded",
        "test task sets": lambda r: r.task_set,
        "backends": lambda r: " ".join([r["backend.name"], *_texts(r.identity["backend"])]),
    }
    reasons = []
    for aspect, value_of in aspects.items():
        groups = grouped(sorted(runs, key=lambda r: r.id), value_of)
        if len(groups) > 1:
            texts = (f"{value}: {' '.join(run.id for run in same)}" for value, same in groups.items())
            reasons.append(f"{aspect} {'; '.join(texts)}")
    return "mixed " + " and ".join(reasons) if reasons else ""


def _texts(backend: dict[str, Any]) -> list[str]:
    """Return the settings of a backend except its name, as far as they are part of a run's identity."""
    return [f"{name}={value}" for name, value in sorted(flat(backend).items()) if name != "name"]


@cache
def _differences(a: Run, b: Run) -> frozenset[str]:
    """Return the names of settings that differ. An absent setting (neutral default) differs from None."""
    x, y = a.settings, b.settings
    return frozenset(name for name in x.keys() | y.keys() if name not in x or name not in y or x[name] != y[name])

"""Table parts: whether gate, iterations, backup, decay and mixing of Gated-BEPO matter."""

from collections.abc import Mapping, Sequence

from analysis.contrast import Contrast
from analysis.data.methods import environment_name
from analysis.data.rows import BASELINE
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import by_place
from analysis.grid.notes import origins, protocol
from analysis.grid.ranking import MODEL
from analysis.grid.table import Table
from analysis.tables.findings import KEYS, exploratory, trained

_QUESTIONS = {
    "Does the gate matter?": ("gate", "n_min", "b_min", "full_visits", "gate_order"),
    "Do iterations of the fixed point matter?": ("iterations",),
    "Does the backup matter?": ("backup",),
    "Does the decay matter?": ("gae_lambda",),
    "Do step weight and outcome mixing matter?": ("step_weight", "mixing", "eta_min"),
}
"""Settings of Gated-BEPO by the question that they answer."""


@artefact("parts", "table", study=KEYS)
def parts(studies: Studies) -> Table:
    """Compare the variants of Gated-BEPO that differ in one part with the default."""
    by_env, used = trained(studies)
    rows = []
    for question, fields in _QUESTIONS.items():
        for env, data in by_env.items():
            if variants := {name: contrast for name, contrast in data.differences.items() if _differs_in(name, fields)}:
                apart = sum(contrast.is_apart for contrast in variants.values())
                answer = f"{apart} of {len(variants)} intervals exclude zero. {by_place(variants, _by_value)}"
                rows.append([question, environment_name(env), answer])
    return Table(
        f"Variants of Gated-BEPO minus the default, by the part that differs (success in training, model {MODEL}).",
        ["Question", "Environment", "Answer"],
        rows,
        [" ".join(protocol(studies.values(), used)), exploratory(), *origins(used)],
        used=used,
        left=3,
        widths={0: 0.21, 2: 0.70},
        short=True,
    )


def _by_value(variants: Mapping[str, Contrast]) -> str:
    """Return the differences of variants from Gated-BEPO."""
    ascending = sorted(variants.items(), key=lambda item: item[1].value)
    return ", ".join(f"{name.removeprefix(BASELINE).strip()} {contrast.text()}" for name, contrast in ascending)


def _differs_in(name: str, fields: Sequence[str]) -> bool:
    base, _, settings = name.partition(" ")
    return base == BASELINE and bool(settings) and all(word.split("=")[0] in fields for word in settings.split(" "))

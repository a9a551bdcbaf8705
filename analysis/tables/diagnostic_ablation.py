"""Table diagnostic-ablation: form of the gate, GAE decay and step weight, each its own study."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.artefact import Table, artefact
from analysis.grid import grid
from analysis.parts import Block, setting_rows
from analysis.runs import Key, Run, Study, settings
from analysis.tables.ablations import SCORE, SUCCESS

_RAMPS = {"binary": (), "count_ramp": ("full_visits",), "count_and_branch": ()}
_GATES = {"binary": "Binary", "count_ramp": "Soft", "count_and_branch": "Soft count+branch"}


def _gate_form(run: Run) -> str:
    """The fields that act: a ramp's length counts only where there is a ramp."""
    return " ".join(f"{name}={run[name]}" for name in ("gate", *_RAMPS.get(run["gate"], ())))


def _setting(at: dict[str, str]) -> list[str]:
    if "gate" in at:
        ramp = f" k={at['full_visits']}" if "full_visits" in at else ""
        return [_GATES.get(at["gate"], at["gate"]) + ramp]
    (value,) = at.values()
    return [value]


@artefact(
    "diagnostic-ablation",
    "table",
    study={"gate_form": Key(_gate_form), "gae_lambda": settings("gae_lambda"), "step_weight": settings("step_weight")},
)
def diagnostic_ablation(studies: Mapping[str, Study]) -> Table:
    caption = "Gate form, GAE decay and step weight on WebShop (%)."
    blocks = (
        Block("gate", "Gate form", model="small", env="webshop", study="gate_form"),
        Block("gae_lambda", "GAE λ", model="small", env="webshop", study="gae_lambda"),
        Block("step_weight", "Step weight w", model="small", env="webshop", study="step_weight"),
    )
    rows = setting_rows(("Setting",), _setting)
    return grid("diagnostic-ablation", studies, caption, (SUCCESS, SCORE), blocks, rows, level="evaluation")

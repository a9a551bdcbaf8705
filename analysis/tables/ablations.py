"""The ablation tables: each varies one factor on one environment."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from analysis.data.rows import METHOD, RowKey, settings
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies, StudyRuns
from analysis.grid.artefact import StudyNames, artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.grid import grid
from analysis.grid.parts import Metric, RowGroup, setting_rows
from analysis.grid.table import Table

SUCCESS = Metric("success", "Success", headline=True, format=".2f")
SCORE = Metric("score", "Score", value="task_score", format=".2f")
WEBSHOP = (RowGroup(env="webshop", model="small"),)
ALFWORLD = (RowGroup(env="alfworld", model="small"),)
ABLATIONS = ("component_ablation", "gate_form", "gate_thresholds", "gate_gae_order", "iteration_budget", "gae_lambda")
ABLATIONS += ("step_weight", "outcome_mixing", "backup_operator")
MAIN = ("main_alfworld", "main_webshop", "main_sokoban_text", "replication")
ALIKE = (*MAIN, *ABLATIONS)
OUTCOME_ONLY = "mixing=outcome_only"
_WORDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def ablation(
    label: str,
    study: StudyNames,
    key: RowKey,
    heads: tuple[str, ...],
    labels: Callable[[dict[str, str]], list[str]],
    blocks: Sequence[RowGroup] = WEBSHOP,
    metrics: Sequence[Metric] = (SUCCESS, SCORE),
) -> None:
    """Register a table of settings whose deviations are over evaluation seeds.

    Runs of the main studies and of other ablations with the settings of a row count in it.
    """
    rows = setting_rows(heads, labels)
    artefact(label, "table", study, key, alike=ALIKE)(
        lambda runs: grid(label, runs, _WORDS["captions"][label], metrics, blocks, rows, level="evaluation")
    )


def _thresholds(at: dict[str, str]) -> list[str]:
    pair = ", ".join(at.values())
    return [_WORDS["thresholds"].get(pair, f"({pair})"), *at.values()]


def _factor(at: dict[str, str]) -> list[str]:
    """Return the name of the first setting's value, with the ramp length of a gate."""
    value = next(iter(at.values()))
    return [_WORDS["values"].get(value, value) + (f" k={at['full_visits']}" if "full_visits" in at else "")]


def _mixing_names(at: dict[str, str]) -> list[str]:
    row = " ".join(f"{name}={value}" for name, value in at.items())
    return list(_WORDS["mixings"].get(row, [row, row, ""]))


def _components(at: dict[str, str]) -> list[str]:
    """Return a mixing's name, and which parts are active by its settings."""
    fixed_point, gate = at["mixing"] != "outcome_only", at["mixing"] in ("dynamic", "group_skew")
    down = gate and float(at.get("eta_min", 0.5)) < 1
    signs = ["yes" if part else "no" for part in (fixed_point, gate, down)]
    return [_mixing_names(at)[0], signs[0], signs[1] if fixed_point else "–", signs[2]]


def _mixing(run: Run) -> str | None:
    """Return the active fields: ``eta_min`` has an effect only with the dynamic rule."""
    if run.method == "grpo":
        return OUTCOME_ONLY
    if run.method != "gated_bepo":
        return None
    return f"mixing={run['mixing']}" + (f" eta_min={run['eta_min']}" if run["mixing"] == "dynamic" else "")


def _change(run: Run) -> float:
    return run.mean(f"credit/delta_advantage_{run['iterations']}")


CHANGE = Metric("delta_advantage", "Max |ΔA|", value=_change, format=".2e", ranked=False)
MIXING, ITERATIONS = RowKey(_mixing), settings("iterations")
_GRPO = RowKey(lambda run: run.method if run.method == "grpo" else None)
# The ramp length has an effect only with a ramp.
GATE_FORM = RowKey(
    lambda run: f"gate={run['gate']}" + f" full_visits={run['full_visits']}" * (run["gate"] == "count_ramp")
)
FACTORS = {"gate_form": GATE_FORM, "gae_lambda": settings("gae_lambda"), "step_weight": settings("step_weight")}
_FACTOR_NAMES = zip(FACTORS, _WORDS["factors"].items())
FACTOR_BLOCKS = [RowGroup(name, heading, "small", "webshop", study) for study, (name, heading) in _FACTOR_NAMES]


def _mixing_ablation(
    label: str, study: str, heads: tuple[str, ...], labels: Callable[[dict[str, str]], list[str]]
) -> None:
    """Register a table of mixing rules. GRPO's runs count as outcome credit alone."""
    rows, keys = setting_rows(heads, labels), {study: MIXING, **dict.fromkeys(MAIN, _GRPO)}

    @artefact(label, "table", keys, alike=ALIKE)
    def _(studies: Studies) -> Table:
        mixing, *others = studies.values()
        twins = _twins(mixing, [run for study in others for run in study.runs])
        runs = replace(mixing, runs=[*mixing.runs, *twins])
        table = grid(label, runs, _WORDS["captions"][label], (SUCCESS, SCORE), WEBSHOP, rows, level="evaluation")
        table.notes += [_WORDS["twins"]] if twins else []
        return table


def _twins(study: StudyRuns, grpo: Sequence[Run]) -> list[Run]:
    """Return GRPO's runs of further seeds, where it and outcome credit alone learned the same on every shared seed."""
    twins = []
    by_place = grouped(study.rows.get(OUTCOME_ONLY, []), lambda run: (run.env, run.model))
    for place, others in grouped(grpo, lambda run: (run.env, run.model)).items():
        learned = {run.seed: run.learned for run in by_place.get(place, [])}
        shared = [run for run in others if run.seed in learned]
        if len(shared) >= FEWEST and all(run.learned == learned[run.seed] for run in shared):
            twins += [run for run in others if run.seed not in learned]
    return twins


ablation("gate-ablation", "gate_thresholds", settings("n_min", "b_min"), ("Gate", "$n_min$", "$b_min$"), _thresholds)
ablation("gate-gae-ablation", "gate_gae_order", settings("gate_order"), ("Recursion",), _factor)
ablation("backup-ablation", "backup_operator", settings("backup"), ("Backup",), _factor, ALFWORLD, (SUCCESS,))
ablation("maxiter-ablation", "iteration_budget", ITERATIONS, ("Iter.",), _factor, metrics=(CHANGE, SUCCESS, SCORE))
_mixing_ablation("fusion-ablation", "component_ablation", ("Setting", "FP", "Gate", "↓Out."), _components)
_mixing_ablation("supp-mixing-ablation", "outcome_mixing", ("Variant", "Advantage"), lambda at: _mixing_names(at)[1:])
ablation("diagnostic-ablation", FACTORS, METHOD, ("Setting",), _factor, FACTOR_BLOCKS)

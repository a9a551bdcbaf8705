"""The ablation tables: one factor each, on one environment, with one training seed."""

from collections.abc import Mapping, Sequence

from analysis.data.runs import METHOD, RowKey, Run, settings
from analysis.grid.artefact import artefact
from analysis.grid.grid import grid
from analysis.grid.parts import Block, Metric, Rows, setting_rows

SUCCESS = Metric("success", "Success", headline=True, format=".2f")
SCORE = Metric("score", "Score", value="task_score", format=".2f")
WEBSHOP = (Block(env="webshop", model="small"),)
ALFWORLD = (Block(env="alfworld", model="small"),)


def ablation(
    label: str,
    study: str | Mapping[str, RowKey],
    key: RowKey,
    caption: str,
    rows: Rows,
    blocks: Sequence[Block] = WEBSHOP,
    metrics: Sequence[Metric] = (SUCCESS, SCORE),
) -> None:
    """Make a grid whose deviations are over evaluation seeds."""
    artefact(label, "table", study, key)(
        lambda runs: grid(label, runs, caption, metrics, blocks, rows, level="evaluation")
    )


_THRESHOLDS = {
    **{("1", "1"): "All states", ("2", "1"): "Repeat only", ("2", "2"): "Default"},
    **{("3", "2"): "Strict visits", ("2", "3"): "Strict branch"},
}
_ORDERS = {"stop": "Stop at unsupported", "mask": "Residual masking", "post": "Post-GAE gate (ours)"}
# Which fields act beside the form of the gate: a ramp's length counts only where there is a ramp.
_RAMPS = {"count_ramp": ("full_visits",)}
_GATES = {"binary": "Binary", "count_ramp": "Soft", "count_and_branch": "Soft count+branch"}
# Setting -> its name in fusion-ablation, its name in supp-mixing-ablation, its rule.
_MIXINGS = {
    "mixing=outcome_only": ("Outcome only", "Outcome only", "A_out"),
    "mixing=ungated": ("+ FP credit", "Ungated addition", "A_out + w A_FP"),
    "mixing=dynamic eta_min=1.0": ("+ Gate", "Full outcome weight", "A_out + w ρ A_FP"),
    "mixing=dynamic eta_min=0.5": ("Gated-BEPO", "Gated-BEPO dynamic mixture", "η(ρ) A_out + w ρ A_FP"),
    "mixing=dynamic eta_min=0.0": ("Drop trusted outcome", "Drop trusted outcome", "(1 - ρ) A_out + w ρ A_FP"),
    "mixing=group_skew": ("Group-skew modulation", "Group-skew modulation", "4p(1-p) η(ρ) A_out + w ρ A_FP"),
}


def _thresholds(at: dict[str, str]) -> list[str]:
    pair = at["n_min"], at["b_min"]
    return [_THRESHOLDS.get(pair, f"({', '.join(pair)})"), *pair]


def _gate_form(run: Run) -> str:
    return " ".join(f"{name}={run[name]}" for name in ("gate", *_RAMPS.get(run["gate"], ())))


def _factor(at: dict[str, str]) -> list[str]:
    """Return a form of the gate with its ramp, or the value of the only setting."""
    ramp = f" k={at['full_visits']}" if "full_visits" in at else ""
    return [_GATES.get(at["gate"], at["gate"]) + ramp] if "gate" in at else list(at.values())


def _mixing(run: Run) -> str | None:
    """Return the fields that act: ``eta_min`` counts only under the dynamic rule."""
    if run.method != "gated_bepo":
        return None
    return f"mixing={run['mixing']}" + (f" eta_min={run['eta_min']}" if run["mixing"] == "dynamic" else "")


def _names_of_mixing(at: dict[str, str]) -> tuple[str, str, str]:
    row = " ".join(f"{name}={value}" for name, value in at.items())
    return _MIXINGS.get(row, (row, row, ""))


def _components(at: dict[str, str]) -> list[str]:
    """Return a mixing's name and which parts act in it, from the settings themselves."""
    fixed_point = at["mixing"] != "outcome_only"
    gate = at["mixing"] in ("dynamic", "group_skew")
    down = gate and float(at.get("eta_min", 0.5)) < 1
    signs = ["yes" if part else "no" for part in (fixed_point, gate, down)]
    return [_names_of_mixing(at)[0], signs[0], signs[1] if fixed_point else "–", signs[2]]


ablation(
    *("gate-ablation", "gate_thresholds", settings("n_min", "b_min")),
    "Gate thresholds on WebShop (%). b_min counts distinct successors.",
    setting_rows(("Gate", "n_min", "b_min"), _thresholds),
)
ablation(
    *("gate-gae-ablation", "gate_gae_order", settings("gate_order")),
    "Where the gate enters the propagation of residuals, on WebShop (%).",
    setting_rows(("Recursion",), lambda at: [_ORDERS.get(at["gate_order"], at["gate_order"])]),
)
ablation(
    *("backup-ablation", "backup_operator", settings("backup")),
    "Bellman backup on ALFWorld (%), one training seed.",
    setting_rows(("Backup",), lambda at: [at["backup"].capitalize()]),
    *(ALFWORLD, (SUCCESS,)),
)
_CHANGE = Metric("delta_advantage", "Max |ΔA|", "", "credit/delta_advantage_{iterations}", format=".2e", ranked=False)
ablation(
    *("maxiter-ablation", "iteration_budget", settings("iterations")),
    "Bellman iterations on WebShop (%). Max |ΔA|: largest change of a step advantage by the last iteration, "
    "averaged over updates. 0 iterations leave the Monte-Carlo values.",
    setting_rows(("Iter.",), lambda at: [at["iterations"]]),
    metrics=(_CHANGE, SUCCESS, SCORE),
)
ablation(
    *("fusion-ablation", "component_ablation", RowKey(_mixing)),
    "Components on WebShop (%): fixed-point credit (FP), gate, less outcome credit at trusted states (↓Out.).",
    setting_rows(("Setting", "FP", "Gate", "↓Out."), _components),
)
ablation(
    *("supp-mixing-ablation", "outcome_mixing", RowKey(_mixing)),
    "Ways of mixing outcome and step credit, on WebShop (%).",
    setting_rows(("Variant", "Advantage"), lambda at: list(_names_of_mixing(at)[1:])),
)
_FACTORS = {
    "gate_form": RowKey(_gate_form),
    "gae_lambda": settings("gae_lambda"),
    "step_weight": settings("step_weight"),
}
ablation(
    *("diagnostic-ablation", _FACTORS, METHOD),
    "Gate form, GAE decay and step weight on WebShop (%).",
    setting_rows(("Setting",), _factor),
    blocks=[
        Block(key, name, model="small", env="webshop", study=study)
        for study, key, name in (
            ("gate_form", "gate", "Gate form"),
            ("gae_lambda", "gae_lambda", "GAE λ"),
            ("step_weight", "step_weight", "Step weight w"),
        )
    ],
)

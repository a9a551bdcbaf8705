"""``python -m analysis results``: write docs/results.md, the results of the published runs.

The page has a table for each environment and model. The sections after it are about blocks, pre-registered
comparisons, headroom, warm starts and decided claims. Each says how to read it (``paper/readings.yaml``). The last part
has the deviations from the plan (``paper/deviations.yaml``).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import yaml

from analysis.data.methods import RECONSTRUCTION, environment_name, is_privileged, marked_name, ordered
from analysis.data.rows import EVERY_METHOD, METHOD
from analysis.data.runs import Run, grouped
from analysis.data.sources import Source
from analysis.data.studies import Studies
from analysis.grid.artefact import artefacts
from analysis.grid.design import design
from analysis.grid.success import final, learning, mean_of
from analysis.output.build import build
from analysis.output.text import to_markdown
from bepo.core.places import PAPER

STUDIES = (*EVERY_METHOD, "qwen3_transfer")
DEVIATIONS, READINGS = PAPER / "deviations.yaml", PAPER / "readings.yaml"
PAGE = Path("docs/results.md")
_HEAD = """# Results at tier {tier}

The results of the published runs. Every number is computed from `paper/runs/{tier}`. This page is generated:
`python -m analysis results`.

The models are tiny and trained on a CPU. They stand in for the paper's models and say nothing about the size of effects
there. The paper tier has never run.
"""
_NOTE = """Success in per cent, mean ± one sample standard deviation over training seeds. In training: averaged over all
updates. Final: the last policy on the test tasks. No advantage: the share of training transitions whose advantage is
exactly 0, in per cent. CPU: seconds of all updates, median. The best method is in bold; no test is implied."""
_ARTEFACTS = {
    "What follows": "findings",
    "Parts of Gated-BEPO": "parts",
    "Primary claims about blocks": "blocks-claims",
    "Methods in blocks": "blocks-methods",
    "Losses in blocks": "blocks-losses",
    "Whole methods": "whole-methods",
    "The lab's prediction": "lab-prediction",
    "The lab on ALFWorld and WebShop": "lab-sampled",
    "Depth of CRBC's backup": "crbc-depth",
    "The deviation within a state": "state-deviation",
    "PPO on the same tasks": "critic-lead",
    "Declared tests in new blocks": "next-claims",
    "Groups of eight on WebShop": "next-groups",
    "Gain and learning in new blocks": "next-order",
    "Pretrained weights (tier desktop)": "desktop-claims",
    "Pre-registered comparisons": "replication",
    "Headroom": "headroom",
    "Warm starts": "warm-starts",
    "Decided claims": "decided-claims",
}


_TIERS = {"desktop-claims": "desktop"}
"""The tiers of tables that have one of their own."""


def results(source: Source, tier: str) -> str:
    """Return the whole page."""
    parts = [_HEAD.format(tier=tier), "## Methods\n", *_methods(source, tier)]
    tables, readings = artefacts("table"), yaml.safe_load(READINGS.read_text(encoding="utf-8"))
    for title, label in _ARTEFACTS.items():
        table = build(tables[label], source, _TIERS.get(label, tier)).table
        assert table is not None
        parts += [f"## {title}\n", *([readings[label]] if label in readings else []), to_markdown(table)]
    return "\n".join([*parts, "## Deviations from the plan\n", *_deviations()])


def _methods(source: Source, tier: str) -> Iterator[str]:
    """Yield a heading and a table for each environment and model."""
    studies = Studies({name: source.study(name, tier, METHOD) for name in STUDIES})
    trained = sorted((run for run in studies.pooled() if not run.is_evaluation), key=lambda run: (run.env, run.model))
    for (env, model, before), runs in grouped(trained, _place).items():
        start = f", {100 * before:.1f} % before training" if before is not None else ""
        yield f"### {environment_name(env)}, model {model}{start}\n\n{design(runs)}\n"
        yield "| method | in training | final | no advantage | CPU | seeds |\n|---|---|---|---|---|---|"
        yield from _rows(runs)
        yield ""
    yield f"{_NOTE} {RECONSTRUCTION}\n"


def _place(run: Run) -> tuple[str, str, float | None]:
    return run.env, run.model, run.success_before


def _rows(runs: Iterable[Run]) -> Iterator[str]:
    by_method = grouped(runs, lambda run: run.method)
    measured = {name: (learning(same), final(same)) for name, same in by_method.items()}
    best = [max(rates[k].mean() for name, rates in measured.items() if not is_privileged(name)) for k in (0, 1)]
    for name in ordered(by_method):
        texts = [mean_of(rates).text for rates in measured[name]]
        shown = [
            f"**{t}**" if r.mean() == top and not is_privileged(name) else t
            for t, r, top in zip(texts, measured[name], best)
        ]
        same = by_method[name]
        zero = 100 * np.mean([run.mean("credit/zero_advantage_transitions") for run in same])
        seconds = np.median([run.metrics.filter(like="seconds/").sum().sum() for run in same])
        label = marked_name(name)
        yield f"| {label} | {shown[0]} | {shown[1]} | {zero:.0f} | {seconds:.0f} | {len(same)} |"


def _deviations() -> Iterator[str]:
    for entry in yaml.safe_load(DEVIATIONS.read_text(encoding="utf-8")):
        yield f"* **{entry['title']}** {' '.join(entry['text'].split())}"
    yield ""

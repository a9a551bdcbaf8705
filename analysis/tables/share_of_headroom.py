"""Table share-of-headroom: how much of the headroom above GRPO each method gains."""

from collections.abc import Mapping

from analysis.contrast import Rates
from analysis.data.methods import environment_name, name_of, ordered
from analysis.data.rows import EVERY_METHOD
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import share
from analysis.grid.notes import origins, protocol
from analysis.grid.success import difference, final, learning, mean_of
from analysis.grid.table import Table
from analysis.tables.headroom import NO_CREDIT, ORACLE, has_headroom, oracles

_NONE = "–"


@artefact("share-of-headroom", "table", study=EVERY_METHOD)
def share_of_headroom(studies: Studies) -> Table:
    """Place every method between GRPO (0 %) and the oracle (100 %)."""
    trained = [run for run in studies.pooled() if not run.is_evaluation and "train/success" in run.metrics]
    rows, headings, methods, used, facts = [], [], [], [], {}
    for (env, model, *_), same in sorted(grouped(trained, _setting).items(), key=str):
        by_method = grouped(same, lambda run: run.method)
        if not {NO_CREDIT, ORACLE} <= by_method.keys():
            continue
        used += same
        rates = {method: learning(runs) for method, runs in by_method.items()}
        ends = {method: final(runs) for method, runs in by_method.items()}
        headroom = has_headroom(by_method[NO_CREDIT], by_method[ORACLE])
        for method in ordered(by_method):
            gained = _share(method, rates) if headroom else _NONE
            behind = _NONE if method == ORACLE else difference(ends[ORACLE], ends[method])
            rows.append([name_of(method), mean_of(rates[method]), gained, mean_of(ends[method]), behind])
            headings.append(f"{environment_name(env)}, model {model}")
            methods.append(name_of(method))
            facts |= {f"learning/{env}/{model}/{method}": mean_of(rates[method]).text}
            facts |= {f"share/{env}/{model}/{method}": gained, f"behind/{env}/{model}/{method}": behind}
            if method != NO_CREDIT:
                facts |= {f"gain/{env}/{model}/{method}": difference(ends[method], ends[NO_CREDIT])}
    return Table(
        "Share of the headroom between GRPO and the oracle that each method gains in training, and how many points it "
        "ends below the oracle.",
        ["Method", "In training", "Share of headroom", "Final", "Below the oracle"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "In training: success (%) averaged over all updates. Final: success (%) on test tasks. ±: one sample "
            "standard deviation over training seeds. Share of headroom (%): GRPO is 0 and the oracle 100, by success "
            "in training; 95 % interval by the delta method with Welch's degrees of freedom; "
            f"{_NONE} where the tier has no headroom. Below the oracle: the oracle's final success minus the method's, "
            "in points, with Welch's interval. All intervals are uncorrected. Left out: environments and models "
            "without runs of the oracle, and runs that start from another policy than the oracle.",
            *oracles(used),
            *origins(used),
        ],
        used=used,
        headings=headings,
        methods=methods,
        facts=facts,
    )


def _setting(run: Run) -> tuple[str, str, str, float | None]:
    return run.env, run.model, run.task_set, run.success_before


def _share(method: str, rates: Mapping[str, Rates]) -> str:
    if method in (NO_CREDIT, ORACLE):
        return "0" if method == NO_CREDIT else "100"
    return share(rates[NO_CREDIT], rates[ORACLE], rates[method]).text("z.0f")

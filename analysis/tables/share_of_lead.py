"""Table share-of-lead: how much of what is to be gained over GRPO does each method gain?"""

from collections.abc import Mapping

from analysis.data.methods import environment_name, name_of, ordered
from analysis.data.runs import EVERY_METHOD, Run, Studies, grouped
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import Rates, difference, final, learning, mean_of, with_interval
from analysis.grid.table import Table
from analysis.tables.room import BASE, CONTROL, has_free_slot

_NONE = "–"


@artefact("share-of-lead", "table", study=EVERY_METHOD)
def share_of_lead(studies: Studies) -> Table:
    """Set every method between GRPO (0 %) and the control that knows how far success is (100 %)."""
    trained = [run for run in studies.pooled() if not run.is_evaluation and "train/success" in run.metrics]
    rows, headings, methods, used, facts = [], [], [], [], {}
    for (env, model, *_), same in sorted(grouped(trained, _place).items(), key=str):
        by_method = grouped(same, lambda run: run.method)
        if not {BASE, CONTROL} <= by_method.keys():
            continue
        used += same
        rates = {method: learning(runs) for method, runs in by_method.items()}
        ends = {method: final(runs) for method, runs in by_method.items()}
        room = has_free_slot(by_method[BASE], by_method[CONTROL])
        for method in ordered(by_method):
            share = _share(method, rates) if room else _NONE
            behind = _NONE if method == CONTROL else difference(ends[CONTROL], ends[method])
            rows.append([name_of(method), mean_of(rates[method]), share, mean_of(ends[method]), behind])
            headings.append(f"{environment_name(env)}, model {model}")
            methods.append(name_of(method))
            facts |= {f"learning/{env}/{model}/{method}": mean_of(rates[method]).text}
            facts |= {f"share/{env}/{model}/{method}": share, f"behind/{env}/{model}/{method}": behind}
            if method != BASE:
                facts |= {f"gain/{env}/{model}/{method}": difference(ends[method], ends[BASE])}
    return Table(
        "How much of the control's lead over GRPO each method has in training, and how far behind the control it ends.",
        ["Method", "In training", "Share of the lead", "Final", "Behind at the end"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "In training: success (%) averaged over all updates; final: success (%) on test tasks. ±: one sample "
            "standard deviation over training seeds. Share of the lead (%): of the control's over GRPO in training, "
            "GRPO 0 and the control 100; its 95 % interval by the delta method with Welch's degrees of freedom; "
            f"{_NONE} where the tier has no room. Behind at the end: the control's final success minus the method's, "
            "in points, with Welch's interval. All intervals are uncorrected. Left out: environments and models "
            "without the control, and runs that start from another policy than it does.",
            *origins(used),
        ],
        headings=headings,
        methods=methods,
        facts=facts,
    )


def _place(run: Run) -> tuple[str, str, str, float | None]:
    return run.env, run.model, run.task_set, run.success_before


def _share(method: str, rates: Mapping[str, Rates]) -> str:
    """Return the share in per cent; its error is that of a ratio of means whose denominator is far from zero."""
    base, control, own = (rates[name] for name in (BASE, CONTROL, method))
    lead = float(control.mean() - base.mean())
    share = float(own.mean() - base.mean()) / lead
    if method in (BASE, CONTROL):
        return f"{100 * share:.0f}"
    slopes = [100 / lead * slope for slope in (1, -share, share - 1)]
    return with_interval(100 * share, slopes, [own, control, base], "z.0f")

"""Table warm-starts: success, and differences over GRPO, from several warm starts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from analysis.contrast import Contrast, Rates
from analysis.data.methods import environment_name, name_of, ordered
from analysis.data.rows import RowKey
from analysis.data.runs import Run, grouped
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import difference, final, learning, mean_of
from analysis.grid.table import Printed, Table
from analysis.tables.headroom import NO_CREDIT

_SEED = "policy.warm_start.seed"
_MEASURES = (learning, final)
BY_START = RowKey(lambda run: f"{run.method} {run[_SEED]}", (_SEED,))


@dataclass(frozen=True)
class _Block:
    """Rows of the table: each method's rates in training and at the end, and the text of a difference over GRPO."""

    heading: str
    rates: dict[str, list[Rates]]
    over_base: Callable[[Rates, Rates], str]

    def rows(self) -> Iterator[list[Printed | str]]:
        """Yield a row for each method."""
        for method in ordered(self.rates):
            pairs = zip(self.rates[method], self.rates[NO_CREDIT])
            differences = ["–", "–"] if method == NO_CREDIT else [self.over_base(rates, base) for rates, base in pairs]
            yield [name_of(method), *map(mean_of, self.rates[method]), *differences]


@artefact("warm-starts", "table", study="warm_start", key=BY_START)
def warm_starts(study: StudyRuns) -> Table:
    """Compare methods with GRPO from each of several warm starts, and over all starts."""
    blocks, used, chance, facts = [], [], [], {}
    by_start = sorted(study.runs, key=lambda run: (run.env, run.model, run[_SEED], run.seed, run.id))
    for (env, model), runs in grouped(by_start, lambda run: (run.env, run.model)).items():
        place = f"{environment_name(env)}, model {model}"
        starts = {start: same for start, same in grouped(runs, lambda run: run[_SEED]).items() if _has_base(same)}
        blocks += [_of_start(place, start, same) for start, same in starts.items()]
        used += [run for same in starts.values() for run in same]
        if len(starts) > 1:
            over, by_chance = _over(place, list(starts.values()))
            blocks.append(over)
            for (name, *texts), method in zip(over.rows(), ordered(over.rates)):
                chance.append(f"{place}, {name}: {by_chance[method]:.1f}.")
                texts = [text.text if isinstance(text, Printed) else text for text in texts]
                told = zip(("learning", "final", "difference", "difference-final"), texts)
                facts |= {f"starts/{env}/{model}/{method}/{what}": text for what, text in told}
                facts |= {f"starts/{env}/{model}/{method}/by-chance": f"{by_chance[method]:.1f}"}
    return Table(
        "Success (%) from several warm starts. Training seeds share a start, so intervals over them do not include "
        "its effect.",
        ["Method", "In training", "Final", "Difference in training", "Difference at the end"],
        [row for block in blocks for row in block.rows()],
        [
            " ".join(protocol([study], used)),
            "A start is a seed of the warm start: other demonstrations in other batches. In training: success averaged "
            "over all updates. Final: success on the test tasks. Difference: over GRPO, in points. Rows of one start: "
            "± one sample standard deviation over training seeds, and Welch's 95 % interval. Rows over starts: mean "
            "and standard deviation of the starts' means, and Student's 95 % interval of the mean difference.",
            *(
                [
                    "Expected standard deviation of the starts' means in training if all starts were equal: "
                    + " ".join(chance)
                ]
                if chance
                else []
            ),
            *origins(used),
        ],
        used=used,
        headings=[block.heading for block in blocks for _ in block.rates],
        methods=[name_of(method) for block in blocks for method in ordered(block.rates)],
        facts=facts,
    )


def _has_base(runs: Sequence[Run]) -> bool:
    return any(run.method == NO_CREDIT for run in runs)


def _of_start(place: str, start: int, runs: Sequence[Run]) -> _Block:
    before = runs[0].success_before
    solves = "" if before is None else f" (solves {100 * before:.1f} %)"
    by_method = grouped(runs, lambda run: run.method)
    rates = {method: [of(same) for of in _MEASURES] for method, same in by_method.items()}
    return _Block(f"{place}, start {start}{solves}", rates, difference)


def _over(place: str, starts: Sequence[Sequence[Run]]) -> tuple[_Block, dict[str, float]]:
    """Return the rows over all starts, and for each method the deviation of its training means by seeds alone."""
    by_method = [grouped(runs, lambda run: run.method) for runs in starts]
    methods = set.intersection(*map(set, by_method))
    means = {m: [np.array([of(each[m]).mean() for each in by_method]) for of in _MEASURES] for m in methods}
    by_chance = {m: _by_chance([learning(each[m]) for each in by_method]) for m in methods}
    return _Block(f"{place}, over {len(starts)} starts", means, _mean_difference), by_chance


def _mean_difference(rates: Rates, base: Rates) -> str:
    """Return the mean of the starts' differences with Student's interval."""
    return Contrast.over(rates - base).text()


def _by_chance(samples: Sequence[Rates]) -> float:
    """Return the deviation of the samples' means if their true means were equal; nan if no sample has two seeds."""
    variances = [rates.var(ddof=1) / len(rates) for rates in samples if len(rates) > 1]
    return sqrt(float(np.mean(variances))) if variances else nan

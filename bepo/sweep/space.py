"""What overrides with sweeps span: the points of a grid, or the search space of an Optuna study."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from bepo.core.errors import UserError


def parse(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides in Hydra's syntax. Raises Hydra's ``OverrideParseException``."""
    return OverridesParser.create().parse_overrides(list(overrides))


def grid(overrides: Sequence[str]) -> list[list[str]]:
    """Return every combination of the swept values, each as a list of overrides, in the order of Hydra's own sweeper.

    The values of the last key vary fastest. A later override of a key replaces an earlier one, also where that is a
    sweep, and keeps its place. Raises ``UserError`` for an interval, whose values cannot be listed.
    """
    values: dict[str, list[str]] = {}
    for override in parse(overrides):
        key = override.get_key_element()
        values[key] = [f"{key}={value}" for value in _listed(override)]
    return [list(point) for point in product(*values.values())]


def _listed(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not override.is_discrete_sweep():
        raise UserError(f"{override.input_line}: a grid cannot list the values of an interval")
    return list(override.sweep_string_iterator())


def search_space(overrides: Sequence[str]) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Return the distribution of every swept setting, and the overrides that every trial has.

    Both are those of Hydra's Optuna sweeper. A setting with a fixed value is not searched, wherever its sweep stands.
    Raises ``UserError`` for a sweep without values.
    """
    space: dict[str, BaseDistribution] = {}
    fixed: dict[str, str] = {}
    deletions: list[str] = []
    for override in parse(overrides):
        key = override.get_key_element()
        if override.is_delete():
            deletions.append(str(override.input_line))
        elif override.is_sweep_override():
            space[key] = distribution(override)
        else:
            fixed[key] = f"{key}={override.get_value_element_as_str()}"
    return {key: value for key, value in space.items() if key not in fixed}, [*fixed.values(), *deletions]


def distribution(override: Override) -> BaseDistribution:
    """Return the Optuna distribution of a sweep: categories, or numbers with a step or on a logarithmic scale.

    Raises ``UserError`` for a range without values.
    """
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        return _interval(sweep)
    if isinstance(sweep, RangeSweep):
        if not sweep.step or next(iter(sweep.range()), None) is None:
            raise UserError(f"{override.input_line}: the range has no values")
        if not (sweep.shuffle or sweep.transformers):
            return _range(sweep)
    values = list(override.sweep_iterator(transformer=Transformer.encode))
    return CategoricalDistribution(cast(list[CategoricalChoiceType], values))


def _interval(sweep: IntervalSweep) -> BaseDistribution:
    assert sweep.start is not None and sweep.end is not None  # the parser sets both
    log = "log" in sweep.tags
    if isinstance(sweep.start, int) and isinstance(sweep.end, int):
        return IntDistribution(sweep.start, sweep.end, log=log)
    return FloatDistribution(sweep.start, sweep.end, log=log)


def _range(sweep: RangeSweep) -> BaseDistribution:
    """Return a distribution with both ends included: Hydra's ranges leave out their end."""
    numbers = sweep.range()
    if isinstance(numbers, range):
        low, high = sorted((numbers[0], numbers[-1]))
        return IntDistribution(low, high, step=abs(numbers.step))
    listed = list(numbers)
    return FloatDistribution(min(listed), max(listed), step=abs(float(sweep.step)))

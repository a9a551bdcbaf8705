"""Sweeps in overrides: the points of a grid, and the search space of an Optuna study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from math import isfinite, prod
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, RangeSweep, Transformer
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from bepo.core.errors import UserError

_MOST_POINTS = 10_000  # limit for the cells of a grid and the listed values of a range


def parse(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides in Hydra's syntax. Raises Hydra's ``OverrideParseException``."""
    return OverridesParser.create().parse_overrides(list(overrides))


def grid(overrides: Sequence[str]) -> list[list[str]]:
    """Return every combination of the swept values, each as a list of overrides, in the order of Hydra's own sweeper.

    The values of the last key vary fastest. A later override of a key replaces an earlier one, in the earlier position.
    Raises ``UserError`` for an interval, whose values cannot be listed.
    """
    return [list(point) for point in product(*map(_cells_of, check_grid(overrides).values()))]


def check_grid(overrides: Sequence[str]) -> dict[str, Override]:
    """Return the last override of each key. Raises ``UserError`` if they give no cell or too many."""
    parsed = {override.get_key_element(): override for override in parse(overrides)}
    numbers = {override.input_line: n_values(override) for override in parsed.values()}
    empty = [line for line, number in numbers.items() if not number]
    if empty:
        raise UserError(f"{empty[0]}: a sweep needs at least one value")
    if prod(numbers.values()) > _MOST_POINTS:
        raise UserError(f"{max(numbers, key=lambda line: numbers[line])}: a sweep of more than {_MOST_POINTS} cells")
    return parsed


def n_values(override: Override) -> int:
    """Return the number of values of an override. For a range with too many values, return one more than allowed.

    Raises ``UserError`` for an interval and for a range without finite ends.
    """
    if not override.is_sweep_override():
        return 1
    if not override.is_discrete_sweep():
        raise UserError(
            f"{override.input_line}: a grid cannot list the values of an interval; choices: choice, range, or "
            "hydra/sweeper=optuna, which searches the interval"
        )
    sweep = override.value()
    if isinstance(sweep, Glob):
        return 1  # only Hydra knows the number of files
    if isinstance(sweep, RangeSweep):
        _check_finite(override, sweep.start, sweep.stop, sweep.step)
        return sum(1 for _ in islice(sweep.range(), _MOST_POINTS + 1)) if sweep.step else 0
    return len(list(override.sweep_string_iterator()))


def _check_finite(override: Override, *numbers: float | Decimal | None) -> None:
    if any(number is None or not isfinite(number) for number in numbers):
        raise UserError(f"{override.input_line}: its ends and its step must be finite numbers")


def with_first_presets(overrides: Sequence[Override]) -> list[str]:
    """Return the overrides without sweeps, but with the first preset of a sweep such as ``credit=grpo,rloo``.

    The presets determine which settings the other overrides may change.
    """
    plain = [str(override.input_line) for override in overrides if not override.is_sweep_override()]
    presets = [o for o in overrides if o.is_choice_sweep() and "." not in o.get_key_element()]
    presets = [preset for preset in presets if not isinstance(preset.value(), Glob)]
    return plain + [f"{preset.get_key_element()}={next(preset.sweep_string_iterator())}" for preset in presets]


def _cells_of(override: Override) -> list[str]:
    """Return one override for each value."""
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if isinstance(override.value(), Glob):
        raise UserError(f"{override.input_line}: bepo.sweep lists no files; choices: {key}=choice(...)")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def search_space(overrides: Sequence[str]) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Return the distribution of every swept setting, and the overrides that all trials share.

    Both are as in Hydra's Optuna sweeper: a setting that also has a fixed value is not searched, in any order. Raises
    ``UserError`` for a sweep without values.
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

    Raises ``UserError`` for a range with no values or too many, and for an interval that Optuna refuses.
    """
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        _check_finite(override, sweep.start, sweep.end)
        try:
            return _interval(sweep)
        except ValueError as error:
            raise UserError(f"{override.input_line}: {error}") from error
    if isinstance(sweep, RangeSweep):
        n = n_values(override)
        if not n:
            raise UserError(f"{override.input_line}: the range has no values")
        as_numbers = not (sweep.shuffle or sweep.transformers)
        if n > _MOST_POINTS and not (as_numbers and isinstance(sweep.range(), range)):
            raise UserError(f"{override.input_line}: more than {_MOST_POINTS} values; choices: interval(LOW, HIGH)")
        if as_numbers:
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
    """Return a distribution that includes both ends. Hydra's ranges exclude their end."""
    numbers = sweep.range()
    if isinstance(numbers, range):
        low, high = sorted((numbers[0], numbers[-1]))
        return IntDistribution(low, high, step=abs(numbers.step))
    listed = list(numbers)
    return FloatDistribution(min(listed), max(listed), step=abs(float(sweep.step)))


def as_sweep(distribution: BaseDistribution) -> str:
    """Return a distribution in the syntax of an override. Both ends of a range are included."""
    if isinstance(distribution, CategoricalDistribution):
        return f"choice({', '.join(map(str, distribution.choices))})"
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    ends = f"{distribution.low}, {distribution.high}"
    if distribution.step is not None and not (distribution.log or distribution.step == 1):
        return f"{ends} in steps of {distribution.step}"
    return f"tag(log, interval({ends}))" if distribution.log else f"interval({ends})"


# --- conditional settings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conditional:
    """A setting that is searched only if other settings have, or do not have, certain values."""

    distribution: BaseDistribution
    where: dict[str, list[Any]]  # by the name of the other setting
    unless: dict[str, list[Any]]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the setting is searched, given the values of the settings in its conditions."""
        return (
            all(values[name] is not _NO_EFFECT for name in [*self.where, *self.unless])
            and all(_is_among(values[name], allowed) for name, allowed in self.where.items())
            and not any(_is_among(values[name], excluded) for name, excluded in self.unless.items())
        )


_NO_EFFECT = object()
"""The value of a conditional setting whose condition does not hold."""


def _is_among(value: Any, choices: Sequence[Any]) -> bool:
    """Return whether a value is among choices. 1.0 equals 1 and the text "null" equals None, but true is not 1."""
    plain = _plain(value)
    return any(
        plain == choice and isinstance(plain, bool) == isinstance(choice, bool) for choice in map(_plain, choices)
    )


def _plain(value: Any) -> Any:
    """Return a value as Hydra would parse it in an override. Fixed settings and choices can be text."""
    if not isinstance(value, str):
        return value
    try:
        return parse([f"x={value}"])[0].value()
    except HydraException:  # a plain text
        return value


def conditional_space(config: DictConfig) -> dict[str, Conditional]:
    """Return the conditional settings of a study (``study.conditional``) by name, in their order.

    Raises ``UserError`` for a search that is not a sweep, and for a condition on a setting that does not exist.
    """
    space = {}
    conditional = config.study.get("conditional") or OmegaConf.create()
    if not OmegaConf.is_dict(conditional):
        raise UserError(f"study.conditional={conditional}: must be settings, each with a search")
    for name, entry in conditional.items():
        if not OmegaConf.is_dict(entry) or not isinstance(entry.get("search"), str):
            raise UserError(f"study.conditional: {name}: {entry} has no search, such as {{search: interval(0, 1)}}")
        (override,) = parse([f"{name}={entry.search}"])
        if not override.is_sweep_override():
            raise UserError(f"study.conditional: {name}: search={entry.search} is not a sweep")
        where, unless = (
            _values_by_name(str(name), part, entry.get(part) or OmegaConf.create()) for part in ("where", "unless")
        )
        for other in [*where, *unless]:
            if OmegaConf.select(config, other, default=_NO_EFFECT) is _NO_EFFECT:
                raise UserError(f"study.conditional: {name} depends on {other}, which is not a setting")
            if other in conditional and other not in space:
                raise UserError(f"study.conditional: {name} depends on {other}, which must come before it")
        space[str(name)] = Conditional(distribution(override), where, unless)
    return space


def _values_by_name(name: str, part: str, entry: Any) -> dict[str, list[Any]]:
    if not OmegaConf.is_dict(entry):
        raise UserError(f"study.conditional: {name}: {part}={entry} must be other settings and their values")
    return {str(o): list(values) if OmegaConf.is_list(values) else [values] for o, values in entry.items()}


def suggest(trial: Trial, space: Mapping[str, Conditional], config: DictConfig, fixed: Mapping[str, Any]) -> None:
    """Let Optuna choose the conditional settings whose conditions hold in a trial. The others keep their defaults.

    A condition reads the values of the trial, then the ``fixed`` ones, then the config. A setting whose condition does
    not hold has no effect; settings that depend on it have no effect either. Fixed or chosen settings do not change.
    """
    effective: dict[str, Any] = {}  # the values of conditional settings so far
    for name, conditional in space.items():
        known = {**fixed, **trial.params}
        others = [*conditional.where, *conditional.unless]
        values = {o: effective[o] if o in space else known.get(o, OmegaConf.select(config, o)) for o in others}
        holds = conditional.holds(values)
        if holds and name not in known:
            _suggest(trial, name, conditional.distribution)
        effective[name] = {**fixed, **trial.params}[name] if holds else _NO_EFFECT


def suggest_conditional(config: DictConfig, trial: Trial) -> None:
    """Call ``suggest`` for Hydra's Optuna sweeper, which stores fixed settings in the attributes of a trial."""
    suggest(trial, conditional_space(config), config, trial.user_attrs)


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def values_of(overrides: Sequence[str]) -> dict[str, str]:
    """Return the values of ``name=value`` overrides by name."""
    return {name: value for name, equals, value in (o.partition("=") for o in overrides) if equals}

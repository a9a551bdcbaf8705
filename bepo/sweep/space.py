"""What overrides with sweeps span: the points of a grid, or the search space of an Optuna study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
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


def with_first_presets(overrides: Sequence[Override]) -> list[str]:
    """Return the overrides without their sweeps; of one over presets, such as ``credit=grpo,rloo``, the first is kept.

    The settings that the other overrides may change depend on the presets.
    """
    plain = [str(override.input_line) for override in overrides if not override.is_sweep_override()]
    presets = [o for o in overrides if o.is_choice_sweep() and "." not in o.get_key_element()]
    return plain + [f"{preset.get_key_element()}={next(preset.sweep_string_iterator())}" for preset in presets]


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

    Raises ``UserError`` for a range without values, and for an interval that Optuna refuses.
    """
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        try:
            return _interval(sweep)
        except ValueError as error:
            raise UserError(f"{override.input_line}: {error}") from error
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


# --- conditional settings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conditional:
    """A setting that is searched only where other settings have, or have not, certain values."""

    distribution: BaseDistribution
    where: dict[str, list[str]]  # by the name of the other setting
    unless: dict[str, list[str]]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the setting is searched. ``values`` has every other setting, None for one of no effect."""
        return (
            all(values[name] is not None for name in [*self.where, *self.unless])
            and all(str(values[name]) in allowed for name, allowed in self.where.items())
            and not any(str(values[name]) in excluded for name, excluded in self.unless.items())
        )


def conditional_space(config: DictConfig) -> dict[str, Conditional]:
    """Return what a study's file says under ``study.conditional``, by name, in its order.

    Raises ``UserError`` for what is no sweep, and for a condition on a setting that does not exist.
    """
    space = {}
    for name, entry in (config.study.get("conditional") or {}).items():
        (override,) = parse([f"{name}={entry.search}"])
        if not override.is_sweep_override():
            raise UserError(f"study.conditional: {name}: search={entry.search} is no sweep")
        where, unless = (_values_by_name(entry.get(part) or {}) for part in ("where", "unless"))
        for other in [*where, *unless]:
            if OmegaConf.select(config, other) is None:
                raise UserError(f"study.conditional: {name} depends on {other}: there is no such setting")
            if other in config.study.conditional and other not in space:
                raise UserError(f"study.conditional: {name} depends on {other}, which must stand before it")
        space[str(name)] = Conditional(distribution(override), where, unless)
    return space


def _values_by_name(entry: Any) -> dict[str, list[str]]:
    lists = {name: values if OmegaConf.is_list(values) else [values] for name, values in entry.items()}
    return {str(name): [str(value) for value in values] for name, values in lists.items()}


def suggest(trial: Trial, space: Mapping[str, Conditional], config: DictConfig, fixed: Mapping[str, Any]) -> None:
    """Let Optuna choose the conditional settings whose conditions hold in a trial; the others keep their defaults.

    A condition looks at what the trial chose, then at what is ``fixed``, then at the config. A setting whose condition
    does not hold has no effect, and so have those that depend on it. What is fixed, or chosen already, is left alone.
    """
    effective: dict[str, Any] = {}  # the values of conditional settings so far, None for those of no effect
    for name, conditional in space.items():
        known = {**fixed, **trial.params}
        others = [*conditional.where, *conditional.unless]
        values = {o: effective[o] if o in space else known.get(o, OmegaConf.select(config, o)) for o in others}
        holds = conditional.holds(values)
        if holds and name not in known:
            _suggest(trial, name, conditional.distribution)
        effective[name] = {**fixed, **trial.params}[name] if holds else None


def suggest_conditional(config: DictConfig, trial: Trial) -> None:
    """Do the same for Hydra's Optuna sweeper, which keeps what is fixed among a trial's attributes."""
    suggest(trial, conditional_space(config), config, trial.user_attrs)


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def values_of(overrides: Sequence[str]) -> dict[str, str]:
    """Return the value of each override that sets one, by the name of the setting."""
    return {name: value for name, equals, value in (o.partition("=") for o in overrides) if equals}

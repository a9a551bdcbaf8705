"""What the words of the lab's command line name: worlds, settings, estimators and controls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from bepo.core.errors import UserError, unknown_choice
from bepo.core.places import CONF
from bepo.core.registry import assignments, check_type
from bepo.core.settings import Settings, setting
from bepo.credit import Estimator, estimators
from bepo.envs import Environment
from bepo.lab.controls import CONTROLS
from bepo.lab.games import GAMES
from bepo.lab.learn import Learning
from bepo.lab.played import GameSettings
from bepo.lab.policies import at_success, noisy_expert, spread_rates
from bepo.lab.probe import Estimate, Probe, of_estimator, probe
from bepo.lab.worlds import FAMILIES, Worlds, WorldSettings
from bepo.rollouts.continuations import COLUMN
from bepo.runs.compose import CONFIG_ERRORS, explain, register_configs, to_config
from bepo.sweep.composition import composed
from bepo.sweep.studies import compose_study

DEFAULT_ENV = "sokoban"
"""The environment whose settings presets take, unless another is named."""
LEARNING_WORLDS = 300
"""Number of worlds of learning curves, unless it is named."""
WORLDS = FAMILIES | GAMES
"""Every family of worlds."""

LIKE: dict[str, dict[str, Any]] = {
    "sokoban": {"group_size": 8, "icc": 0.4},
    "webshop": {"group_size": 2, "tasks": 32, "icc": 0.2},
    "alfworld": {"group_size": 4, "icc": 0.3, "aliasing": 1.0, "aliased_policy": False},
}
"""The dials that published rollouts of each environment have (``paper/lab/dials.csv``, docs/lab.md)."""


@dataclass
class LabSettings(Settings):
    """Which worlds are measured, from which policy."""

    world: str = "sokoban"
    """The family of worlds."""
    worlds: int | None = setting(None, at_least=1, at_most=5000)
    """Number of worlds; null: 16 for fidelity, 300 for learning, 1 for the exact bias."""
    first_world: int = setting(0, at_least=0, neutral=True)
    """Number of the first world in its family. Shrunk-BEPO's settings were searched on the first 200 worlds."""
    success: float = setting(0.3, above=0, below=1)
    """Success rate of the policy at the start."""
    icc: float = setting(0.0, at_least=0, below=1, neutral=True)
    """For fidelity: the share of the variance of success that lies between worlds; 0: all worlds succeed equally
    often."""
    groups: int = setting(200, at_least=1)
    """Groups of each world, for fidelity."""
    equal_to: int | None = setting(None, at_least=2, at_most=32, neutral=True)
    """For fidelity: also report the group size with which an estimator's gradient is as good as GRPO's in groups of
    this size. Measures six group sizes."""

    group = "lab"


def split_words(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names among the words of a command line, and the settings."""
    names = [word for word in words if "=" not in word.split(" ")[0]]
    return names, assignments([word for word in words if "=" in word.split(" ")[0]])


def read_settings(given: dict[str, Any]) -> tuple[LabSettings, WorldSettings, Learning]:
    """Return the settings that a command line names; ``like`` stands for the dials of an environment.

    Raises ``UserError`` for unknown names and wrong values.
    """
    if (like := given.get("like")) is not None:
        if like not in LIKE:
            raise unknown_choice("like", str(like), LIKE)
        given = LIKE[like] | {name: value for name, value in given.items() if name != "like"}
    kinds = {part: get_type_hints(part) for part in (LabSettings, WorldSettings, Learning)}
    known = {part: {item.name for item in fields(part)} for part in kinds}
    for name, value in given.items():
        if not any(name in names for names in known.values()):
            raise unknown_choice("setting", name, sorted({"like"}.union(*known.values())))
        check_type(f"lab.{name}", value, next(kinds[part][name] for part in kinds if name in known[part]))
    scene = LabSettings(**{k: v for k, v in given.items() if k in known[LabSettings]})
    dials = WorldSettings(**{k: v for k, v in given.items() if k in known[WorldSettings]})
    how = Learning(**{k: v for k, v in given.items() if k in known[Learning]})
    if scene.world not in WORLDS:
        raise unknown_choice("world", scene.world, WORLDS)
    return scene, dials, how


_OF_LEARNING = {item.name for item in fields(Learning)} - {"group_size", "seed"}
_NOT_READ = {
    "fidelity": _OF_LEARNING,
    "learn": {"icc", "groups", "equal_to"},
    "bias": {"success", "icc", "groups", "equal_to"} | _OF_LEARNING,
}
"""The settings that a command does not read."""


def refuse_without_effect(what: str, given: Iterable[str]) -> None:
    """Raise ``UserError`` if ``lab what`` does not read one of the settings that a command line names."""
    if ignored := sorted(_NOT_READ[what].intersection(given)):
        read = [name for name, names in _NOT_READ.items() if ignored[0] not in names]
        raise UserError(f"lab {what}: {ignored[0]} has no effect; choices: lab {', lab '.join(read)}")


def read_estimates(names: list[str], alone: bool, env: str = DEFAULT_ENV) -> dict[str, Estimate]:
    """Return the estimates with these names; without names, every one that the lab can apply.

    ``alone`` asks for estimators whose groups do not influence each other. ``env``: as in ``read_credit``.
    """
    register_configs()
    known = (n for n, cls in estimators().items() if not obstacle(cls) and not (alone and cls().mixes_groups))
    return {name: read_estimate(name, alone, env) for name in names or [*known, *CONTROLS]}


def obstacle(credit: Estimator | type[Estimator]) -> str:
    """Return why the lab cannot apply an estimator; empty if it can."""
    if credit.needs_critic:
        return "needs a critic: the lab has none"
    return "needs a policy's continuations; choices: continuations_4 and the like" if COLUMN in credit.needs else ""


def read_estimate(text: str, alone: bool, env: str = DEFAULT_ENV) -> Estimate:
    """Return the estimate that a word names: a control, or an estimator or preset with its settings."""
    if text in CONTROLS:
        return CONTROLS[text]
    credit = read_credit(text, env)
    if reason := obstacle(credit):
        raise UserError(f"credit={credit.name} {reason}")
    if alone and credit.mixes_groups:
        raise UserError(f"credit={credit.name} mixes groups: its exact bias is not that of one group")
    return of_estimator(credit)


def read_credit(text: str, env: str = DEFAULT_ENV) -> Estimator:
    """Return an estimator or preset with its settings; presets that follow the environment take those for ``env``."""
    if text in (known := estimators()):
        return known[text]()  # without Hydra, which needs 0.2 seconds
    name, *settings = text.split() or [text]
    try:
        config = composed(CONF, "train", [f"env={env}", f"credit={name}", *(f"credit.{word}" for word in settings)])
        return to_config(config).credit
    except CONFIG_ERRORS as error:
        raise UserError(f"{text!r}: {explain(error)}") from None


def read_environment(text: str) -> Environment:
    """Return an environment with its settings, such as ``alfworld horizon=30``; the others are those of tier laptop."""
    name, *settings = text.split() or [text]
    try:
        config = composed(CONF, "train", ["tier=laptop", f"env={name}", *(f"env.{word}" for word in settings)])
        return to_config(config).env
    except CONFIG_ERRORS as error:
        raise UserError(f"{text!r}: {explain(error)}") from None


def read_sampling(given: dict[str, Any]) -> GameSettings:
    """Return the settings of ``lab sampled``. Raises ``UserError`` for unknown names and wrong values."""
    kinds = get_type_hints(GameSettings)
    known = [item.name for item in fields(GameSettings)]
    for name, value in given.items():
        if name not in known:
            raise unknown_choice("setting", name, known)
        check_type(f"lab.{name}", value, kinds[name])
    return GameSettings(**given)


def credits_of(studies: Iterable[str]) -> dict[str, Estimator]:
    """Return the distinct credit settings of the cells of studies, by the words that ``credit_words`` returns.

    Evaluations and Optuna studies are left out: the first have no credit, the second no list of cells.
    """
    credits: dict[str, Estimator] = {}
    for name in studies:
        study = compose_study(name)
        if not study.is_tuning:
            trained = (config.credit for _, config in study.configured if not config.is_evaluation)
            credits |= {credit_words(credit): credit for credit in trained}
    return credits


def credit_words(credit: Estimator) -> str:
    """Return an estimator as the command line takes it: its name, and every setting that is not the default."""
    default = type(credit)()
    changed = {item.name: vars(credit)[item.name] for item in fields(credit) if item.name != "name"}
    changed = {name: value for name, value in changed.items() if value != vars(default)[name]}
    return " ".join([credit.name, *(f"{name}={_plain(value)}" for name, value in changed.items())])


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def applicable(credits: Mapping[str, Estimator]) -> tuple[dict[str, Estimator], Sequence[str]]:
    """Return the estimators that the lab can apply, and the names of the others."""
    usable = {n: credit for n, credit in credits.items() if not obstacle(credit)}
    return usable, [name for name in credits if name not in usable]


def make_worlds(scene: LabSettings, dials: WorldSettings, default: int) -> Worlds:
    """Return the worlds of a scene; ``default`` is their number if the scene names none."""
    which = range(scene.first_world, scene.first_world + (scene.worlds or default))
    return Worlds(WORLDS[scene.world](which, dials.horizon), dials)


def probe_of(scene: LabSettings, dials: WorldSettings, how: Learning) -> Probe:
    """Return the rollouts that ``lab fidelity`` measures with these settings; 16 worlds by default."""
    worlds = make_worlds(scene, dials, 16)
    logits = noisy_expert(worlds, seed=how.seed)
    policy = at_success(worlds, logits, spread_rates(worlds, logits, scene.success, scene.icc))
    return probe(worlds, policy, how.group_size, scene.groups, how.seed)

"""GEM's environments: games and questions in words, answered in words."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from inspect import signature
from typing import Any, ClassVar, Literal

import numpy as np

from bepo.core.batch import Terminal
from bepo.core.errors import Missing, UserError, unknown_choice
from bepo.core.seeds import derive_seed
from bepo.core.settings import setting
from bepo.envs import (
    Observation,
    PromptText,
    Split,
    Step,
    Task,
    register,
)
from bepo.envs._foreign import NoExpert, OpenEnvironments, TextEnvironment, close, in_words, named, tasks_of_seeds
from bepo.envs._values import begun, stepped, text_of
from bepo.envs._words import seen_words
from bepo.store.files import digest

_DRAWS = 8  # of a row; with few rows several draws may be behind the last
_PROBES = 200  # random actions from which a vocabulary is made


@register
@dataclass
class GEM(TextEnvironment):
    """An environment of the gem-llm package. Any text is an action; it has neither an expert nor a list of actions.

    A task is a seed of ``reset``. An episode succeeds if it ends with a total reward of 1, GEM's reward for a solved
    task. The task score is the total reward, clipped to [0, 1]. GEM draws from the global generators of Python and
    NumPy; here each episode has separate generators. Source: Liu et al., 2025, GEM: A Gym for Agentic LLMs.
    """

    name: Literal["gem"] = "gem"
    id: str = "game:GuessTheNumber-v0-easy"
    """The environment's ID in ``gem.make``."""
    kwargs: dict[str, Any] = setting(factory=dict)
    """Further arguments of ``gem.make``. Environments that run the model's code (``code:...``) need ``sandbox_type``:
    ``bwrap`` runs it in bubblewrap's sandbox, ``none`` runs it with all rights of the user."""
    states: Literal["history", "suffix"] = "history"
    """Two states are equal if these texts are: the whole episode so far, or only GEM's suffix, a game's board."""
    horizon: int = setting(30, at_least=1, at_most=10_000)
    """Number of steps after which an episode is truncated. GEM's own limit, ``max_turns``, ends it as a failure."""

    label: ClassVar[str] = "GEM"
    shown_settings: ClassVar[tuple[str, ...]] = ("id", "horizon")
    method_version: ClassVar[int] = 3

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt; the vocabulary comes from some random episodes."""
        moves = self._moves()
        words = seen_words(self, lambda rng, _: rng.choice(moves))
        return PromptText("You are an expert agent playing a game in words.", "Answer as the task asks.", words)

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the seeds of a split."""
        yield from tasks_of_seeds(f"{self.id} {json.dumps(dict(self.kwargs), sort_keys=True)}", split)

    def start(self, tasks: Sequence[Task]) -> GEMEpisodes:
        """Start one episode for each seed. Raises ``UserError`` if the environment cannot be made."""
        return GEMEpisodes(self, [task.data["seed"] for task in tasks])

    def close_episodes(self, episodes: Any) -> None:
        """Close the environments of all episodes."""
        episodes.close()

    def parse_action(self, text: str) -> str | None:
        """Return the text in the form that GEM reads; None for an empty text.

        The form is ``\\boxed{...}``, or ``<answer>...</answer>`` for questions without ``extract_boxed``. A text that
        has it stays as it is.
        """
        said, (before, after) = text.strip(), self._form
        return None if not said else said if before in said else f"{before}{said}{after}"

    @cached_property
    def _form(self) -> tuple[str, str]:
        spec = known_specs().get(self.id)
        if spec is not None and "qa_env" in str(spec.entry_point):
            given = {**spec.kwargs, **self.kwargs}
            if not given.get("extract_boxed"):
                return "<answer>", "</answer>"
        return "\\boxed{", "}"

    def missing(self) -> Missing | None:
        """Return ``Missing`` if gem-llm is not installed, else None."""
        return _missing()

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: the version of GEM."""
        from importlib.metadata import version

        return {"gem-llm": version("gem-llm")}

    def _moves(self) -> list[str]:
        """Return some random actions of GEM, or one placeholder if GEM cannot draw random actions."""
        env = make(self.id, self.kwargs)
        state = _randomness(random.Random(0).getstate(), np.random.RandomState(0).get_state())
        try:
            with named(self.id, "reset"), state:
                _reset(env, 0)
                try:
                    return sorted({self.parse_action(env.sample_random_action()) or "" for _ in range(_PROBES)})
                except NotImplementedError:
                    return ["\\boxed{0}"]
        finally:
            close(env)


class GEMEpisodes(NoExpert):
    """Running episodes, each in a separate environment."""

    def __init__(self, env: GEM, seeds: Sequence[int]) -> None:
        """Make one of GEM's environments for each seed, and reset it."""
        self._states, self._id = env.states, env.id
        self._open = OpenEnvironments()
        self._randomness: list[tuple[Any, Any]] = []
        self._totals = [0.0] * len(seeds)
        self._histories: list[str] = []
        self.instructions, self.observations = [], []
        try:
            self._envs = [self._open.add(i, make(env.id, env.kwargs)) for i in range(len(seeds))]
            with named(env.id, "reset"):
                for i, seed in enumerate(seeds):
                    self._reset(i, seed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all environments."""
        self._open.close_all()

    def _reset(self, i: int, seed: int) -> None:
        with _randomness(random.getstate(), np.random.get_state()) as after:
            instruction, info = begun(self._id, _reset(self._envs[i], seed))
        instruction = text_of(self._id, "reset", instruction)
        self._randomness.append((after[0], after[1]))
        self._histories.append(instruction)
        self.instructions.append(instruction.strip())
        self.observations.append(self._observation(i, "", info))

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some episodes; None changes nothing but counts as a step."""
        return {i: self._step(i, action) for i, action in actions.items()}

    def _step(self, i: int, action: str | None) -> Step:
        if action is None:
            return Step(self.observations[i], 0.0, Terminal.NONE, self._score(i))
        with named(self._id, "step"), _randomness(*self._randomness[i]) as after:
            text, reward, ended, cut, info = stepped(self._id, self._envs[i].step(action))
            text = text_of(self._id, "step", text)
        self._randomness[i] = after[0], after[1]
        self._totals[i] += reward
        self._histories[i] += f"\n{action}\n{text}"
        self.observations[i] = self._observation(i, text, info)
        terminal = Terminal.NONE
        if ended or cut:
            terminal = Terminal.SUCCESS if self._score(i) == 1 else Terminal.FAILURE
            self._open.close(i)
        return Step(self.observations[i], reward, terminal, self._score(i))

    def _score(self, i: int) -> float:
        total = round(self._totals[i], 6)  # parts such as 1/3 add up to 1
        return min(max(total, 0.0), 1.0)

    def _observation(self, i: int, text: str, info: Mapping[str, Any]) -> Observation:
        suffix = str(info.get("suffix", "")).strip()
        shown = "\n".join(part for part in (text.strip(), suffix) if part) or "The task begins."
        state = suffix if self._states == "suffix" and suffix else self._histories[i]
        return Observation(shown, key=digest(state, 16), admissible=())


def _reset(env: Any, seed: int) -> Any:
    """Return what the environment's ``reset`` returns. GEM draws the row of its data from one too many."""
    for again in range(1, _DRAWS):
        try:
            return env.reset(seed=seed)
        except IndexError:
            seed = derive_seed(seed, again) & 0xFFFFFFFF
    return env.reset(seed=seed)


def make(env_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Return an environment of GEM.

    Raises ``UserError`` for an unknown ID, wrong settings or missing data, and if an environment would run the model's
    code but ``sandbox_type`` is not set.
    """
    known = known_specs()
    import gem

    if env_id not in known:
        raise unknown_choice("env.id", env_id, known)
    if "code_env" in str(known[env_id].entry_point) and "sandbox_type" not in kwargs:
        raise UserError(
            f"env.id={env_id} runs code that the model writes on this machine: set +env.kwargs.sandbox_type; choices: "
            "bwrap (in bubblewrap's sandbox), none (with all your rights)"
        )
    try:
        with _randomness(random.getstate(), np.random.get_state()):
            env = gem.make(env_id, **kwargs)
    except (Exception, SystemExit) as error:  # any type: the code of an environment from another package
        raise UserError(f"env.id={env_id}, env.kwargs={dict(kwargs)}: {in_words(error)}") from None
    try:
        _refuse_ignored(env, kwargs)
    except UserError:
        close(env)
        raise
    return env


def known_specs() -> Mapping[str, Any]:
    """Return GEM's specifications of environments by ID. Raises ``Missing`` if gem-llm is not installed."""
    if missing := _missing():
        raise missing
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import gem  # noqa: F401 (registers its environments)
    from gem.envs.registration import ENV_REGISTRY

    root.handlers[:], root.level = handlers, level  # undo the root logger that the import sets up
    return ENV_REGISTRY


def _refuse_ignored(env: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise ``UserError`` for a setting that an environment would accept but ignore (GEM's ``**_``)."""
    taken = signature(type(env).__init__).parameters
    if "_" in taken:
        for name in kwargs.keys() - taken.keys():
            raise unknown_choice(f"env.kwargs of {env.env_id}", name, taken.keys() - {"self", "_"})


def _missing() -> Missing | None:
    if find_spec("gem") is None:
        return Missing("env=gem needs the gem-llm package", "pip install gem-llm==0.0.4")
    return None


@contextmanager
def _randomness(python: Any, numpy: Any) -> Iterator[list[Any]]:
    """Set the states of Python's and NumPy's global generators, and restore them at the end.

    Yields a list that holds the two states at the end of the ``with`` block.
    """
    before, after = (random.getstate(), np.random.get_state()), []
    random.setstate(python)
    np.random.set_state(numpy)
    try:
        yield after
    finally:
        after += [random.getstate(), np.random.get_state()]
        random.setstate(before[0])
        np.random.set_state(before[1])

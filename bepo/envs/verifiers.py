"""Multi-turn environments of the verifiers package: a conversation that ends with a reward."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from packaging.specifiers import SpecifierSet

from bepo.core.batch import Terminal
from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import Observation, PromptText, Split, Step, Task, content_id, register, split_by_id
from bepo.envs._foreign import SHORT_ACTIONS, NoExpert, TextEnvironment, in_words, named
from bepo.envs._values import reward_of
from bepo.envs._words import seen_words
from bepo.store.files import digest

_VERSIONS = ">=0.1.14,<0.4"  # 0.4 has another interface: no load_environment, no rollouts with a client
_SECONDS = 10.0  # that the rollouts of a batch may take to end
_INSTALL = f"pip install 'verifiers{_VERSIONS}'"


@register
@dataclass
class Verifiers(TextEnvironment):
    """An environment of the verifiers package. Any text is an action; it has neither an expert nor a list of actions.

    verifiers plays the episode and asks for each response; bepo gives it the agent's. A task is a row of its dataset.
    The rubric scores the whole episode at its end. The episode succeeds if the score is at least ``success_reward``.
    Source: Brown, 2025, Verifiers: Environments for LLM Reinforcement Learning.
    """

    name: Literal["verifiers"] = "verifiers"
    id: str = ""
    """The environment's ID in ``verifiers.load_environment``, the name of an installed module."""
    kwargs: dict[str, Any] = setting(factory=dict)
    """Further arguments of ``verifiers.load_environment``."""
    success_reward: float = setting(1.0, above=0)
    """Score from which an episode counts as solved. The task score is the score divided by it."""
    horizon: int = setting(30, at_least=1, at_most=10_000)
    """Number of responses after which an episode is truncated. The environment's own limit, ``max_turns``, ends and
    scores it."""

    label: ClassVar[str] = "Verifiers"
    shown_settings: ClassVar[tuple[str, ...]] = ("id", "horizon")
    method_version: ClassVar[int] = 2

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt; the vocabulary comes from episodes with random short answers."""
        words = seen_words(self, lambda rng, _: rng.choice(SHORT_ACTIONS))
        return PromptText("You are a helpful assistant.", "Answer as the task asks.", words)

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the rows of a split.

        With a dataset for evaluation, half of its rows are validation tasks and half are test tasks. Without one, the
        rows are split by their content.
        """
        rows, held_out = self._rows
        for row_id, row in (rows if split == "train" or not held_out else held_out).items():
            if held_out:
                belongs = split == "train" or (int(row_id[:8], 16) % 2 == 0) == (split == "test")
            else:
                belongs = split_by_id(row_id) == split
            if belongs:
                yield Task(row_id, row)

    def start(self, tasks: Sequence[Task]) -> VerifiersEpisodes:
        """Start one episode for each row."""
        return VerifiersEpisodes(self, self._made, [task.data for task in tasks])

    def close_episodes(self, episodes: Any) -> None:
        """Cancel the rollouts that still wait for a response."""
        episodes.close()

    def missing(self) -> Missing | None:
        """Return ``Missing`` if verifiers is not installed, or a version with another interface; else None."""
        if find_spec("verifiers") is None:
            return Missing("env=verifiers needs the verifiers package", _INSTALL)
        if (installed := version("verifiers")) not in SpecifierSet(_VERSIONS):
            return Missing(f"verifiers {installed} is installed; env=verifiers supports {_VERSIONS}", _INSTALL)
        return None

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: the version of verifiers."""
        return {"verifiers": version("verifiers")}

    @property
    def _made(self) -> Any:
        if missing := self.missing():
            raise missing
        return _load(self.id, json.dumps(dict(self.kwargs), sort_keys=True))

    @cached_property
    def _rows(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """The rows for training and the rows for evaluation, by ID; the latter are empty without their own dataset."""
        with named(self.id, "dataset"):
            train, evaluation = (list(read()) for read in (self._made.get_dataset, self._made.get_eval_dataset))
        rows, others = ({_row_id(self.id, row): dict(row) for row in part} for part in (train, evaluation))
        return rows, {row_id: row for row_id, row in others.items() if row_id not in rows}


@cache
def _load(env_id: str, kwargs: str) -> Any:
    logging.getLogger("verifiers").setLevel(logging.ERROR)
    try:
        return import_module("verifiers").load_environment(env_id, **json.loads(kwargs))
    except (Exception, SystemExit) as error:  # any type: the code of an environment from another package
        raise UserError(f"env.id={env_id}, env.kwargs={kwargs}: {in_words(error)}") from None


def _row_id(env_id: str, row: Mapping[str, Any]) -> str:
    content = {name: value for name, value in row.items() if name != "example_id"}
    return content_id(f"{env_id} {json.dumps(content, sort_keys=True, default=str)}")


class VerifiersEpisodes(NoExpert):
    """Running episodes, each a rollout of verifiers that waits for the agent's responses."""

    def __init__(self, env: Verifiers, made: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Start one rollout for each row, in the event loop of a thread."""
        self._env, self._made = env, made
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), daemon=True)
        self._thread.start()
        self._talks: list[_Talk] = []
        self._seen = [0] * len(rows)  # messages of each conversation so far
        self._histories = [""] * len(rows)
        self.instructions, self.observations = [], []
        try:
            with named(env.id, "rollout"):
                for row in rows:
                    self._talks.append(self._call(_begin(made, dict(row))))
                for i, talk in enumerate(self._talks):
                    prompt = self._call(talk.next_prompt())
                    *before, last = [_text(message) for message in prompt or [{"content": ""}]]
                    self.instructions.append("\n".join(before).strip())
                    self._seen[i] = len(prompt or [])
                    self.observations.append(self._observed(i, last))
        except BaseException:
            self.close()
            raise

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Answer in some episodes; None changes nothing but counts as a step."""
        with named(self._env.id, "rollout"):
            for i, action in actions.items():
                if action is not None:
                    self._call(self._talks[i].answer(action))
            return {i: self._step(i, action) for i, action in actions.items()}

    def close(self) -> None:
        """Cancel the rollouts that still wait for a response, and end the thread."""
        self._end()
        self._thread.join(_SECONDS)

    def __del__(self) -> None:
        self._end()  # without waiting: this may be the thread itself

    def _end(self) -> None:
        if not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop was closed in between
                asyncio.run_coroutine_threadsafe(_end(self._talks, self._loop), self._loop)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_without_exit(work), self._loop).result()

    def _step(self, i: int, action: str | None) -> Step:
        if action is None:
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0)
        prompt = self._call(self._talks[i].next_prompt())
        self._histories[i] += f"\n{action}"
        if prompt is not None:
            new = prompt[self._seen[i] + 1 :]  # after the agent's response
            self._seen[i] = len(prompt)
            self.observations[i] = self._observed(i, "\n".join(map(_text, new)))
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0)
        reward = reward_of(self._env.id, self._call(self._talks[i].score(self._made)))
        if last := self._talks[i].last_words():
            self.observations[i] = self._observed(i, "\n".join(map(_text, last)))
        score = min(max(round(reward / self._env.success_reward, 6), 0.0), 1.0)
        return Step(self.observations[i], reward, Terminal.SUCCESS if score == 1 else Terminal.FAILURE, score)

    def _observed(self, i: int, text: str) -> Observation:
        shown = text.strip() or "The task begins."
        self._histories[i] += f"\n{shown}"
        return Observation(shown, key=digest(self.instructions[i] + self._histories[i], 16), admissible=())


class _Talk:
    """A rollout of verifiers whose model is the agent. All methods run in the event loop."""

    def __init__(self) -> None:
        self.prompts: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: asyncio.Queue[str] = asyncio.Queue()
        self.rollout: asyncio.Task[Any]  # set when the rollout begins

    async def next_prompt(self) -> Any:
        """Return the messages that the agent answers next; None if the rollout has ended. Raises its error."""
        asked = asyncio.ensure_future(self.prompts.get())
        await asyncio.wait({asked, self.rollout}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        if error := self.rollout.result().get("error"):
            raise error
        return None

    async def answer(self, text: str) -> None:
        """Give the agent's response."""
        await self.answers.put(text)

    async def score(self, made: Any) -> Any:
        """Return the score of the ended rollout; 0 without one."""
        state = self.rollout.result()
        await made.rubric.score_rollout(state)
        return 0.0 if state["reward"] is None else state["reward"]

    def last_words(self) -> Any:
        """Return the environment's messages after the last response, if there are any."""
        last = self.rollout.result().get("final_env_response")
        return [last] if isinstance(last, str) else last


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped, and free its file handles."""
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _begin(made: Any, row: dict[str, Any]) -> _Talk:
    talk = _Talk()
    rollout = made.rollout({"example_id": 0, **row}, _client(talk), "agent")
    talk.rollout = asyncio.ensure_future(_without_exit(rollout))
    return talk


async def _without_exit(work: Any) -> Any:
    """Return the result of ``work``. ``SystemExit`` would end the event loop, and everyone would wait for it."""
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(repr(error)) from error


async def _end(talks: Sequence[_Talk], loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the rollouts that still wait for a response, then stop their loop."""
    for talk in talks:
        talk.rollout.cancel()
    await asyncio.gather(*(talk.rollout for talk in talks), return_exceptions=True)
    loop.stop()


def _client(talk: _Talk) -> Any:
    """Return a client of verifiers that asks the agent."""
    client, types = import_module("verifiers.clients").Client, import_module("verifiers.types")

    async def get_response(self: Any, prompt: Any, model: str, *arguments: Any, **options: Any) -> Any:
        await talk.prompts.put(list(prompt))
        text = await talk.answers.get()
        message = types.ResponseMessage(role="assistant", content=text, finish_reason="stop", is_truncated=False)
        return types.Response(id="0", created=0, model=model, message=message)

    async def unused(self: Any, *arguments: Any, **options: Any) -> Any:
        return None

    methods = {name: unused for name in client.__abstractmethods__}
    return type("Agent", (client,), {**methods, "get_response": get_response})(None)


def _text(message: Any) -> str:
    """Return the text of a message, which is a dictionary or an object of verifiers, or a text."""
    if isinstance(message, str):
        return message
    content = message["content"] if isinstance(message, Mapping) else message.content
    if isinstance(content, list):
        parts = (part if isinstance(part, Mapping) else part.model_dump() for part in content)
        return "\n".join(str(part["text"]) for part in parts if part.get("text"))
    return str(content or "")

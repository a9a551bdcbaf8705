"""Episodes of agents around a served model. All episodes of a pass step together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bepo.core.batch import Terminal
from bepo.core.phases import report_within
from bepo.core.seeds import derive_seed
from bepo.envs import Environment, Episodes, Task, started
from bepo.envs._checks import observed, started_checked, step_checked
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Overlong
from bepo.rollouts.prompting import Prompting
from bepo.rollouts.prompting.agents import DirectTrial, ReActTrial, Trial, grammar_of, reflection_prompt
from bepo.rollouts.prompting.chat import Answer, Chat, Failure, Request
from bepo.rollouts.prompting.exemplars import Exemplars
from bepo.rollouts.task_sets import TaskSet


@dataclass
class Episode:
    """One task in one pass, with one or more trials. The last trial counts."""

    task: Task
    number: int  # of the task in its set
    trial: int = 0  # counted from 1; 0 before the first trial
    agent: Trial | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)  # of all trials, in the format of transcripts
    calls: int = 0  # of the running trial
    taken: int = 0  # environment steps of the running trial
    total: float = 0.0  # return of the running trial
    task_score: float = 0.0
    over: bool = False  # whether the running trial is over
    terminal: Terminal = (
        Terminal.TRUNCATION
    )  # how the running trial ended: it ran out of steps unless it says otherwise
    broken: bool = False
    missing: str = ""  # why the endpoint gave no answer; empty: it did
    overlong: bool = False  # whether a prompt exceeded the model's context; such a task is failed and not tried again
    memories: list[str] = field(default_factory=list)
    last_said: str | None = None  # in the running trial

    @property
    def solved(self) -> bool:
        """Whether the last trial solved the task."""
        return self.terminal == Terminal.SUCCESS

    @property
    def goes_on(self) -> bool:
        """Whether another trial can follow."""
        return not (self.solved or self.missing or self.overlong)

    def end(self, answer: Failure | Overlong) -> None:
        """End the episode without a response, as missing or (prompt too long) as failed."""
        self.over = True
        if isinstance(answer, Failure):
            self.missing = answer.reason
        else:
            self.overlong = True


class PromptedPass:
    """Plays a pass over a task set with a served model.

    ``template`` is a request with the sampling parameters for actions.
    """

    def __init__(self, env: Environment, agent: Agent, prompting: Prompting, chat: Chat, template: Request) -> None:
        self._env, self._agent, self._prompting, self._chat = env, agent, prompting, chat
        self._template = template
        self._exemplars = None
        if prompting.method != "direct":
            self._exemplars = Exemplars(env, prompting, grammar_of(env, prompting))

    @property
    def trials(self) -> int:
        """The maximum number of trials of a task."""
        return self._prompting.trials if self._prompting.method == "reflexion" else 1

    @property
    def calls(self) -> int:
        """The maximum number of responses in a trial."""
        return self._prompting.calls or self._env.horizon

    @property
    def requests(self) -> int:
        """The maximum number of requests for a task: responses, and a reflection between two trials."""
        return self.trials * self.calls + self.trials - 1

    def play(self, tasks: TaskSet, seed: int) -> list[Episode]:
        """Play one episode of each task, with all trials of the method."""
        episodes = [Episode(task, number) for number, task in enumerate(tasks.tasks)]
        place = f"{tasks.split}/{seed}"
        for trial in range(1, self.trials + 1):
            left = [episode for episode in episodes if episode.goes_on]
            if left:
                self._trial(left, trial, place, seed)
            if trial < self.trials:
                self._reflect([episode for episode in left if episode.goes_on], place)
        return episodes

    def first_prompts(self, tasks: Sequence[Task]) -> list[str]:
        """Return the first prompt of each task."""
        with started(self._env, tasks) as running:
            return [
                self._begin(task, running.instructions[i], ()).prompt(running.observations[i])
                for i, task in enumerate(tasks)
            ]

    def _begin(self, task: Task, instruction: str, memories: Sequence[str]) -> Trial:
        if self._exemplars is None:
            return DirectTrial(self._env, self._agent, instruction)
        grammar, examples = grammar_of(self._env, self._prompting), self._exemplars.of_kind(task.kind)
        return ReActTrial(self._env, self._prompting, grammar, instruction, examples, memories)

    def _trial(self, episodes: Sequence[Episode], trial: int, place: str, seed: int) -> None:
        """Play one trial of each episode."""
        with started_checked(self._env, [episode.task for episode in episodes]) as running:
            self._play(running, episodes, trial, place, seed)

    def _play(self, running: Episodes, episodes: Sequence[Episode], trial: int, place: str, seed: int) -> None:
        for i, episode in enumerate(episodes):
            recent = episode.memories[-self._prompting.memories :] if self._prompting.memories else []
            episode.agent = self._begin(episode.task, running.instructions[i], recent)
            episode.trial, episode.calls, episode.taken, episode.total = trial, 0, 0, 0.0
            episode.over, episode.task_score, episode.last_said, episode.broken = False, 0.0, None, False
            episode.terminal = Terminal.TRUNCATION
        observations = [observed(self._env, observation) for observation in running.observations]
        while active := [i for i, episode in enumerate(episodes) if not episode.over]:
            over = len(episodes) - len(active)
            report_within(f"{f'trial {trial}, ' if self.trials > 1 else ''}{over} of {len(episodes)} episodes over")
            requests = [self._request(episodes[i], observations[i], place, seed) for i in active]
            actions: dict[int, str | None] = {}
            for i, request, answer in zip(active, requests, self._chat.ask(requests)):
                episode = episodes[i]
                if not isinstance(answer, Answer):
                    episode.end(answer)
                    continue
                agent = episode.agent
                assert agent is not None  # set when the trial began
                move = agent.read(observations[i], answer.text)
                episode.calls += 1
                step = {"trial": trial, "prompt": request.prompt, "response": answer.text, "action": move.action}
                episode.steps.append(step | {"observation": "OK.", "reward": 0.0, "valid": move.valid})
                repeated, episode.last_said = move.said == episode.last_said, move.said
                if self._prompting.repeats_fail and repeated:
                    episode.over, episode.terminal = True, Terminal.FAILURE
                elif move.thought:
                    observations[i] = replace(observations[i], text="OK.")
                else:
                    actions[i] = move.action
            for i, step in (step_checked(self._env, running, actions) if actions else {}).items():
                observations[i] = step.observation
                episode = episodes[i]
                episode.taken, episode.total = episode.taken + 1, episode.total + step.reward
                episode.task_score, episode.broken = step.task_score, step.broken
                episode.steps[-1] |= {"observation": step.observation.key, "reward": step.reward}
                episode.terminal = step.terminal or Terminal.TRUNCATION
                episode.over |= step.terminal != Terminal.NONE or step.broken or episode.taken >= self._env.horizon
            for i in active:
                episodes[i].over |= episodes[i].calls >= self.calls

    def _request(self, episode: Episode, observation: Any, place: str, seed: int) -> Request:
        assert episode.agent is not None  # set when the trial began
        call = f"{place}/{episode.task.id}/{episode.trial}/{episode.calls}"
        drawn = derive_seed(seed, episode.number, episode.trial, episode.calls)
        prompt, image = episode.agent.prompt(observation), observation.image
        return replace(self._template, place=call, prompt=prompt, image=image, seed=drawn)

    def _reflect(self, episodes: Sequence[Episode], place: str) -> None:
        """Ask for a reflection on each failed trial."""
        if not episodes or self._exemplars is None:
            return
        examples = self._exemplars.reflections()
        requests = [
            Request(
                f"{place}/{episode.task.id}/{episode.trial}/reflection",
                reflection_prompt(self._prompting, examples, episode.agent),
                self._prompting.reflection_tokens,
                temperature=0.0,
            )
            for episode in episodes
            if isinstance(episode.agent, ReActTrial)
        ]
        for episode, request, answer in zip(episodes, requests, self._chat.ask(requests)):
            if not isinstance(answer, Answer):
                episode.end(answer)
                continue
            episode.memories.append(answer.text.strip())
            row = {"trial": episode.trial, "prompt": request.prompt, "response": answer.text, "action": None}
            episode.steps.append(row | {"observation": "", "reward": 0.0, "valid": True})


def episode_row(episode: Episode, split: str, seed: int, trials: int) -> dict[str, Any]:
    """Return the row of an episode that is not missing, in the format of ``bepo.rollouts.evaluation.episode_rows``.

    Further columns are ``calls`` (responses of all trials) and ``overlong`` (whether a prompt exceeded the model's
    context). A method with several trials has ``solved_at``: the number of the trial that solved the task, or None.
    Steps, return and score belong to the last trial.
    """
    answers = [step for step in episode.steps if step["observation"] != ""]
    row = {
        "split": split,
        "evaluation_seed": seed,
        "task": episode.task.id,
        "kind": episode.task.kind,
        "success": episode.solved,
        "task_score": float(episode.task_score),
        "return": float(episode.total),
        "steps": episode.taken,
        "valid": sum(step["valid"] for step in answers) / max(len(answers), 1),
        "broken": episode.broken,
        "calls": len(answers),
        "overlong": episode.overlong,
    }
    return row | ({"solved_at": episode.trial if episode.solved else None} if trials > 1 else {})


def transcripts_of(
    episodes: Sequence[Episode], row_of: Callable[[Episode], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the row of each episode that is not missing, with its ``end`` and its ``steps`` in words."""
    for episode in episodes:
        if not episode.missing:
            yield row_of(episode) | {"end": episode.terminal.name.lower(), "steps": episode.steps}

"""Agents around a served model: prompts, parsing, and the sequence of trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import pytest

from bepo.core.errors import UserError
from bepo.envs import environments
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Overlong
from bepo.rollouts.prompting import Prompting
from bepo.rollouts.prompting.agents import grammar_of
from bepo.rollouts.prompting.chat import Answer, Failure, Request
from bepo.rollouts.prompting.episodes import PromptedPass, episode_row, transcripts_of
from bepo.rollouts.prompting.exemplars import Exemplars
from bepo.rollouts.prompting.transcript import GRAMMARS
from bepo.rollouts.task_sets import task_set

TEMPLATE = Request("", "", max_tokens=100, temperature=0.0, stop=("\n",))
ORIGINAL = {"thoughts": "own_step", "admissible": False}


@dataclass
class Scripted:
    """Answers each episode's calls from a list, by the task; a reflection is its own words."""

    answers: dict[str, list[str | Overlong | None]]
    asked: list[Request] = field(default_factory=list)

    def ask(self, requests):
        self.asked += requests
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        _, _, task, _, call = request.place.split("/")
        if call == "reflection":
            return Answer(f"I went wrong {len([r for r in self.asked if r.place.endswith('reflection')])}.")
        words = self.answers[task].pop(0)
        if isinstance(words, Overlong):
            return words
        return Failure("it is 500") if words is None else Answer(words)


@pytest.fixture(scope="module")
def alfworld():
    return environments.make("alfworld", max_receptacles=8, horizon=12)


@pytest.fixture(scope="module")
def webshop():
    return environments.make("webshop", products=60)


@pytest.fixture(scope="module")
def tasks(alfworld):
    return task_set(alfworld, "test", 2)


def solution(env, task):
    """The expert's actions."""
    episodes, actions = env.start([task]), []
    while (action := episodes.expert(0)) is not None:
        actions.append(action)
        if episodes.step({0: action})[0].terminal != 0:
            return actions
    raise AssertionError("the expert knows no way")


def played(env, prompting, answers, tasks, agent=None):
    chat = Scripted(answers)
    made = PromptedPass(env, agent or Agent(), prompting, chat, TEMPLATE)
    return made.play(tasks, 0), chat


def rows(episodes, trials=1):
    return [episode_row(episode, "test", 0, trials) for episode in episodes if not episode.missing]


def test_a_thought_takes_a_call_and_no_step_of_the_environment(alfworld, tasks):
    react = Prompting(method="react", **ORIGINAL)
    first, second = tasks.tasks
    answers = {first.id: [" think: I look around.", *(f" {a}" for a in solution(alfworld, first))]}
    answers[second.id] = ["think: hm"] * 4 + ["look"] * 8
    episodes, chat = played(alfworld, react, answers, tasks)
    won, lost = rows(episodes)
    steps = len(solution(alfworld, first))
    assert won["success"] and (won["steps"], won["calls"]) == (steps, steps + 1) and won["valid"] == 1
    assert not lost["success"] and (lost["steps"], lost["calls"]) == (8, 12)  # 12 calls, of which 4 are thoughts
    after = next(r.prompt for r in chat.asked if r.place.split("/")[2:] == [first.id, "1", "1"])
    assert after.endswith("> think: I look around.\nOK.\n>") and "Admissible" not in after
    assert all(r.temperature == 0 and r.max_tokens == 100 and r.stop == ("\n",) for r in chat.asked)


def test_thought_and_action_in_one_response(alfworld, tasks):
    react = Prompting(method="react")
    answers = {t.id: [f" so\nAction: {a}\nObservation: x" for a in solution(alfworld, t)] for t in tasks.tasks}
    episodes, chat = played(alfworld, react, answers, tasks)
    assert all(row["success"] and row["steps"] == row["calls"] for row in rows(episodes))
    later = chat.asked[-1].prompt
    assert later.endswith("\nThought:") and "Thought: so\nAction: " in later and "Admissible actions: [" in later
    assert "Observation: x" not in later


def test_the_direct_agent_is_that_of_training(alfworld, tasks):
    answers = {t.id: [f"<think>x</think><action>{a}</action>" for a in solution(alfworld, t)] for t in tasks.tasks}
    episodes, chat = played(alfworld, Prompting(), answers, tasks)
    assert all(row["success"] and row["valid"] == 1 for row in rows(episodes))
    running = alfworld.start(tasks.tasks[:1])
    expected = Agent().prompt(alfworld.prompt, running.instructions[0], running.observations[0], [])
    assert chat.asked[0].prompt == expected


def test_an_episode_without_an_answer_is_missing(alfworld, tasks):
    first, second = tasks.tasks
    answers = {first.id: ["look", None], second.id: solution(alfworld, second)}
    episodes, _ = played(alfworld, Prompting(method="react", **ORIGINAL), answers, tasks)
    assert [episode.missing for episode in episodes] == ["it is 500", ""]
    assert [row["task"] for row in rows(episodes)] == [second.id]
    assert [t["task"] for t in transcripts_of(episodes, lambda e: {"task": e.task.id})] == [second.id]


def test_reflexion_tries_again_with_its_last_memories(alfworld, tasks):
    """The first task is solved in the third trial, the second never; a repeated action ends a trial."""
    first, second = tasks.tasks
    fails = ["look", "look"]
    answers = {first.id: fails * 2 + solution(alfworld, first), second.id: fails * 4}
    settings = Prompting(method="reflexion", trials=4, memories=2, repeats_fail=True, **ORIGINAL)
    episodes, chat = played(alfworld, settings, answers, tasks)
    won, lost = rows(episodes, trials=4)
    assert (won["success"], won["solved_at"]) == (True, 3) and (lost["success"], lost["solved_at"]) == (False, None)
    assert not any(answers.values())  # a task that is solved is not tried again
    reflections = [r for r in chat.asked if r.place.endswith("reflection")]
    assert [r.place.split("/")[3] for r in reflections] == ["1", "1", "2", "2", "3"]
    assert all((r.max_tokens, r.temperature) == (256, 0.0) and "STATUS: FAIL" in r.prompt for r in reflections)
    last = next(r.prompt for r in chat.asked if r.place == f"test/0/{second.id}/4/0")
    assert "I went wrong 5" in last and "I went wrong 4" in last and "I went wrong 2" not in last
    assert "memory" not in next(r.prompt for r in chat.asked if r.place == f"test/0/{second.id}/1/0")


def test_an_episode_whose_prompt_is_too_long_has_failed_and_no_trial_follows(alfworld, tasks):
    """It happens in the second trial, after a step; the first trial failed before."""
    first, second = tasks.tasks
    answers = {first.id: ["look", "look", "look", Overlong("65 tokens")], second.id: solution(alfworld, second)}
    settings = Prompting(method="reflexion", trials=4, repeats_fail=True, **ORIGINAL)
    episodes, chat = played(alfworld, settings, answers, tasks)
    cut, won = rows(episodes, trials=4)
    assert (cut["success"], cut["overlong"], cut["solved_at"]) == (False, True, None)
    assert (cut["steps"], cut["calls"]) == (1, 3) and (won["success"], won["overlong"]) == (True, False)
    assert not any(r.place.split("/")[2:4] == [first.id, "3"] for r in chat.asked)


def test_repeating_is_no_failure_unless_asked(alfworld, tasks):
    answers = {task.id: ["look"] * 12 for task in tasks.tasks}
    episodes, _ = played(alfworld, Prompting(method="react", **ORIGINAL), answers, tasks)
    assert [row["steps"] for row in rows(episodes)] == [12, 12]


SAID = {  # as in Reflexion's own code, where a thought is an action, and an action need not be valid
    ("look", "look"): 2,
    ("fly away", "fly away"): 2,
    ("think: hm", "think: hm"): 2,
    ("look", "think: hm", "look", "inventory"): 4,
}


@pytest.mark.parametrize("said", SAID)
def test_what_counts_as_repeated(said, alfworld, tasks):
    settings = Prompting(method="reflexion", trials=1, repeats_fail=True, calls=4, **ORIGINAL)
    answers = {task.id: list(said) for task in tasks.tasks}
    episodes, _ = played(alfworld, settings, answers, tasks)
    assert [row["calls"] for row in rows(episodes)] == [SAID[said]] * 2


def test_a_task_takes_at_most_so_many_requests(alfworld, tasks):
    settings = Prompting(method="reflexion", trials=3, calls=2, **ORIGINAL)
    made = PromptedPass(alfworld, Agent(), settings, Scripted({}), TEMPLATE)
    _, chat = played(alfworld, settings, {task.id: ["look"] * 6 for task in tasks.tasks}, tasks)
    assert made.requests == 3 * 2 + 2 == len(chat.asked) / 2


@pytest.mark.parametrize("calls", [1, 5])
def test_a_trial_ends_after_its_calls(alfworld, tasks, calls):
    answers = {task.id: ["look"] * calls for task in tasks.tasks}
    episodes, _ = played(alfworld, Prompting(method="react", calls=calls, **ORIGINAL), answers, tasks)
    assert [row["calls"] for row in rows(episodes)] == [calls, calls]


READ = {
    ("in_response", "alfworld", "I go.\nAction: go to bed 1\nObservation: a bed"): ("I go.", "go to bed 1"),
    ("in_response", "webshop", "Thought: so\nAction: click[next >]"): ("so", "click[next >]"),
    ("in_response", "alfworld", "go to bed 1"): ("go to bed 1", ""),
    ("own_step", "alfworld", "> go to bed 1 > take it"): ("", "go to bed 1"),
    ("own_step", "alfworld", " think: so\nOK."): ("so", ""),
    ("own_step", "webshop", " think[so]"): ("so", ""),
    ("own_step", "webshop", "Action: search[a > b]\nObservation: x"): ("", "search[a > b]"),
}


@pytest.mark.parametrize("case", READ)
def test_reading_stops_where_the_model_goes_on_for_others(case):
    thoughts, env, response = case
    assert GRAMMARS[thoughts][env].read(response) == READ[case]


@pytest.mark.parametrize("thoughts", ["own_step", "in_response"])
@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_exemplars_are_solved_training_tasks_in_the_words_of_the_environment(name, thoughts, request):
    env = request.getfixturevalue(name)
    settings = Prompting(method="react", thoughts=thoughts, exemplars=2)
    grammar = grammar_of(env, settings)
    exemplars = Exemplars(env, settings, grammar)
    task = next(env.tasks("test"))
    found = exemplars.of_kind(task.kind)
    assert len(set(found)) == 2 and found == Exemplars(env, settings, grammar).of_kind(task.kind)
    test_instructions = {env.start([t]).instructions[0] for t in task_set(env, "test", 8).tasks}
    for text in found:
        mark = ">" if (name, thoughts) == ("alfworld", "own_step") else "Action:"
        lines = [line.removeprefix(mark).strip() for line in text.split("\n") if line.startswith(mark)]
        actions = [line for line in lines if not line.startswith("think")]
        assert actions and all(env.parse_action(action) == action for action in actions)
        if name == "webshop":
            assert actions[-1] == "click[buy now]" and not any(words in text for words in test_instructions)
        elif name == "alfworld":
            alike = (t for t in islice(env.tasks("train"), 200) if t.kind == task.kind)
            assert any(solution(env, t) == actions for t in alike)
    assert len(exemplars.reflections()) == 2


def test_a_long_episode_keeps_its_end(webshop):
    tasks = task_set(webshop, "test", 1)
    settings = Prompting(method="react", characters=2000, exemplars=0, **ORIGINAL)
    answers = {tasks.tasks[0].id: [f"search[{word * 30}]" for word in ("one ", "two ", "six ")] * 4}
    episodes, chat = played(webshop, Prompting(**{**vars(settings), "calls": 12}), answers, tasks)
    assert rows(episodes)[0]["calls"] == 12
    assert max(len(r.prompt) for r in chat.asked) == 2000
    assert all(r.prompt.startswith("Webshop") and r.prompt.endswith("Action:") for r in chat.asked)


def test_an_environment_without_a_grammar_is_refused():
    with pytest.raises(UserError, match=r"'sokoban'; choices: alfworld, webshop"):
        grammar_of(environments.make("sokoban"), Prompting(method="react"))

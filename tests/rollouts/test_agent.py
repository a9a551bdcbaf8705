import pytest

from bepo.core.errors import UserError
from bepo.envs import IMAGE, Observation, environments
from bepo.envs.sokoban import DIRECTIONS, Sokoban
from bepo.rollouts.agent import Agent

ENV = Sokoban()
NOW = Observation("BOARD", "BOARD", DIRECTIONS)
PAST = [(f"board{i}", f"act{i}") for i in range(5)]


def test_first_prompt_has_role_rules_observation_actions_and_format():
    prompt = Agent().prompt(ENV.prompt, "", NOW, [])
    for part in (ENV.prompt.role, ENV.prompt.rules, "BOARD", "'up', 'down', 'left', 'right'", "<think>", "<action>"):
        assert part in prompt
    assert "taken" not in prompt and "Your task" not in prompt


def test_later_prompts_show_task_count_and_the_last_two_steps():
    prompt = Agent().prompt(ENV.prompt, "find the mug", NOW, PAST)
    assert "Your task: find the mug" in prompt and "taken 5 steps" in prompt and "at step 6" in prompt
    assert "[Observation 4: 'board3', Action 4: 'act3']\n[Observation 5: 'board4', Action 5: 'act4']" in prompt
    assert "board2" not in prompt


def test_history_options():
    assert "act4" not in Agent(history_length=0).prompt(ENV.prompt, "", NOW, PAST)
    bare = Agent(history_observations=False).prompt(ENV.prompt, "", NOW, PAST)
    assert "act4" in bare and "board4" not in bare
    assert Agent(style="compact").prompt(ENV.prompt, "", NOW, PAST[:1]) == "board0 then act0\nnow BOARD\nstep 1"


@pytest.mark.parametrize("style", ["full", "brief", "compact"])
def test_a_prompt_has_the_current_picture_alone(style):
    now, past = Observation(IMAGE, "key", DIRECTIONS), [(IMAGE, "up"), (f"a {IMAGE} b", "down")]
    prompt = Agent(style=style).prompt(ENV.prompt, "", now, past)
    assert prompt.count(IMAGE) == 1 and "up" in prompt.partition(IMAGE)[0] and "a  b" in prompt
    assert prompt.partition("down")[2].count(IMAGE) == 1  # after the history


def test_settings_of_another_style_are_refused():
    told = (
        "agent.list_actions=false: has no effect with agent.style=full; choices: agent.style=brief, agent.list_actions"
    )
    with pytest.raises(UserError) as raised:
        Agent(list_actions=False)
    assert str(raised.value) == f"{told}=true"


def test_a_long_prompt_leaves_its_history_out():
    whole = Agent().prompt(ENV.prompt, "", NOW, PAST)
    assert Agent(history_limit=len(whole)).prompt(ENV.prompt, "", NOW, PAST) == whole
    short = Agent(history_limit=len(whole) - 1).prompt(ENV.prompt, "", NOW, PAST)
    assert "act4" not in short and "at step 6" in short


@pytest.mark.parametrize(
    "response, action, valid",
    [
        ("<think>x</think><action>Up</action>", "up", True),
        ("<think>x</think> <action> left </action> <action>up</action>", "left", True),
        ("<action>up</action>", "up", False),  # no thought
        ("<think>x</think> up", None, False),  # no tags: Sokoban takes no tail
        ("<think>推</think><action>up</action>", "up", False),  # Chinese
        ("<think>x</think><action>jump</action>", None, False),  # no such action
    ],
)
def test_full_style_validity(response, action, valid):
    found, _, ok = Agent().parse(ENV, response)
    assert (found, ok) == (action, valid)


def test_validity_options():
    assert Agent(require_think=False).parse(ENV, "<action>up</action>")[2]
    assert Agent(reject_cjk=False).parse(ENV, "<think>推</think><action>up</action>")[2]


def test_an_untagged_tail_is_tried_where_the_environment_says_so():
    class Tailed(Sokoban):
        untagged_tail = 4

    assert Agent().parse(Tailed(), "up up up, then left")[:2] == ("left", "left")
    assert Agent().parse(Tailed(), "İİİİİ then left")[:2] == ("left", "left")  # lowered, each İ is two characters


def test_the_environment_decides_whether_case_counts():
    class Cased(Sokoban):
        reads_case, untagged_tail = True, 4

        def parse_action(self, text):
            return text

    answer = "<think>x</think><ACTION> print(True)\nİ </Action>"
    assert Agent().parse(Cased(), answer) == ("print(True)\nİ", "print(True)\nİ", True)
    assert Agent().parse(Cased(), "I say LeFT")[:2] == ("LeFT", "LeFT")
    assert Agent().parse(ENV, "<think>x</think><action>LEFT</action>") == ("left", "left", True)


@pytest.mark.parametrize("name", ["gem", "openenv", "verifiers"])
def test_free_text_keeps_its_case(name):
    assert "print(True)" in str(Agent().parse(environments()[name](), "<action>print(True)</action>").action)


def test_no_tail_is_tried_where_letters_become_longer_in_lower_case():
    assert Agent().parse(ENV, "İİ up")[:2] == (None, "")


def test_compact_style():
    agent = Agent(style="compact")
    assert agent.parse(ENV, "up") == ("up", "up", True)
    assert agent.parse(ENV, "now now") == (None, "now now", False)


def test_a_brief_prompt_ends_with_what_changes():
    prompt = Agent(style="brief").prompt(ENV.prompt, "find the mug", NOW, PAST)
    assert prompt == (
        f"{ENV.prompt.rules}\nTask: find the mug\nBefore: board3\nAction: act3\nBefore: board4\nAction: act4\n"
        "Actions: up, down, left, right.\nAnswer with one action.\nNow:\nBOARD"
    )
    bare = Agent(style="brief", history_length=0, list_actions=False).prompt(ENV.prompt, "", NOW, PAST)
    assert bare == f"{ENV.prompt.rules}\nAnswer with one action.\nNow:\nBOARD"


@pytest.mark.parametrize(
    "reasoning, response, action",
    [
        (False, " Up\n", "up"),
        (False, "nothing", None),
        (True, "The box is above. Action: up", "up"),
        (True, "Action: up? No. Action: left", "left"),
        (True, "I go up.", None),  # no mark
    ],
)
def test_brief_responses(reasoning, response, action):
    agent = Agent(style="brief", reasoning=reasoning)
    found, _, valid = agent.parse(ENV, response)
    assert (found, valid) == (action, action is not None)
    assert ("reason" in agent.prompt(ENV.prompt, "", NOW, [])) == reasoning

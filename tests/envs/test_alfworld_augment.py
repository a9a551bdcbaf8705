"""GraphGPO's augmented observations."""

from bepo.envs.alfworld import ALFWorld
from bepo.envs.alfworld.augment import Memory
from bepo.envs.alfworld.engine import NOTHING_HAPPENS
from bepo.rollouts.task_sets import task_set


def augmented(*steps):
    """Return an observation after some steps, each a (command, feedback)."""
    memory = Memory()
    for command, feedback in steps:
        memory.update(command, feedback)
    return memory.text("obs")


def test_the_memory_follows_commands_that_worked():
    assert augmented() == "obs Location: middle of a room. Items in hand (status): nothing."
    at_fridge = [("go to fridge 1", "You arrive"), ("take egg 1 from fridge 1", "You pick up")]
    assert augmented(*at_fridge) == "obs Location: fridge 1. Items in hand (status): egg 1(unprocessed)."
    assert augmented(
        *at_fridge, ("go to sofa 1", NOTHING_HAPPENS), ("heat egg 1 with microwave 1", NOTHING_HAPPENS)
    ) == augmented(*at_fridge)
    cold = [*at_fridge, ("cool egg 1 with fridge 1", "You cool"), ("cool egg 1 with fridge 1", "You cool")]
    assert augmented(*cold) == "obs Location: fridge 1. Items in hand (status): egg 1(cooled)."
    for put in ("move egg 1 to sofa 1", "put egg 1 in/on sofa 1"):
        assert augmented(*cold, ("go to sofa 1", "You arrive"), (put, "You move")) == (
            "obs Location: sofa 1. Items in hand (status): nothing. "
            "[History moving list by you: egg 1(cooled) from fridge 1 move to sofa 1]"
        )


def test_key_and_prompt_switch_apart():
    (task,) = task_set(ALFWorld(max_receptacles=8), "train", 1).tasks
    steps = {}
    for key in ("raw", "augmented"):
        for prompt in ("raw", "augmented"):
            episodes = ALFWorld(max_receptacles=8, graph_key=key, prompt_state=prompt).start([task])
            place = next(c for c in episodes.observations[0].admissible if c.startswith("go to"))
            steps[key, prompt] = episodes.step({0: place})[0].observation
    raw = steps["raw", "raw"]
    assert raw.text == raw.key == steps["raw", "augmented"].key == steps["augmented", "raw"].text
    memory = f"{raw.text} Location: {place.removeprefix('go to ')}. Items in hand (status): nothing."
    assert steps["raw", "augmented"].text == steps["augmented", "augmented"].text == memory
    for prompt in ("raw", "augmented"):
        assert steps["augmented", prompt].key == f"{memory} {','.join(sorted(raw.admissible))}"


def test_augmented_keys_distinguish_what_raw_ones_do_not():
    """With raw keys, "Nothing happens." is the same state at all places."""
    keys = {}
    for key in ("raw", "augmented"):
        env = ALFWorld(max_receptacles=8, graph_key=key)
        (task,) = task_set(env, "train", 1).tasks
        states = set()
        for place in env.start([task]).observations[0].admissible:
            if place.startswith("go to"):
                episodes = env.start([task])
                episodes.step({0: place})
                states.add(episodes.step({0: "sing"})[0].observation.key)
        keys[key] = len(states)
    assert keys["raw"] == 1 and keys["augmented"] == 8

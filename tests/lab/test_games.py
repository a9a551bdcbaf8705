"""Games of ALFWorld and WebShop: worlds against the environments, sampled truth against the exact one."""

from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest

from bepo.credit import Credit, make
from bepo.envs.alfworld import ALFWorld
from bepo.envs.webshop import WebShop
from bepo.lab import games
from bepo.lab.__main__ import main
from bepo.lab.fidelity import fidelity
from bepo.lab.gain import KL
from bepo.lab.games import Household, Shopping, enumerated, households, shops
from bepo.lab.played import GameSettings, _choose, _policy, _Truth
from bepo.lab.policies import at_success, noisy_expert
from bepo.lab.probe import of_estimator, probe
from bepo.lab.sampled import Sampled, measure, rise, sample
from bepo.lab.worlds import SUCCESS, Worlds, WorldSettings

SHOP = WebShop(products=10, suggestions=3)
HOUSE = ALFWorld(max_receptacles=8, task_types=["look_at_obj_in_light"])


def first(env):
    return next(env.tasks("train"))


@pytest.mark.parametrize(
    "env, start, horizon", [(SHOP, Shopping, 5), (HOUSE, Household, 4)], ids=["webshop", "alfworld"]
)
def test_an_enumerated_world_goes_where_the_environment_goes(env, start, horizon):
    world, rng = enumerated("game", start(env, first(env)), horizon), Random(0)
    ends = set()
    for _ in range(150):
        episodes, here = env.start([first(env)]), world.start
        for _ in range(horizon):
            listed = [a for a in episodes.observations[0].admissible if a != "help"]
            assert world.listed[here].sum() == len(listed) and list(world.coarse[here][1]) == listed
            ahead = np.nan_to_num(world.distance[np.maximum(world.next[here], 0)], nan=99.0)
            shortest = int(np.where(world.next[here] == SUCCESS, 0.0, ahead).argmin())
            choice = shortest if rng.random() < 0.9 and shortest < len(listed) else rng.randrange(len(listed))
            step = episodes.step({0: listed[choice]})[0]
            here = int(world.next[here, choice])
            assert (here == SUCCESS) == bool(step.terminal == 1) and (here < 0) == bool(step.terminal)
            ends.add(here)
            if here < 0:
                break
    assert SUCCESS in ends


@pytest.mark.parametrize("family, horizon", [(shops, 6), (households, 5)])
def test_policies_choose_listed_actions_only(family, horizon):
    """In several games, which list different numbers of actions."""
    worlds = Worlds(family(range(2), horizon), WorldSettings(horizon=horizon, aliasing=1.0, aliased_policy=False))
    policy = at_success(worlds, noisy_expert(worlds), 0.3)
    assert not policy[~worlds.listed].any()
    probed = probe(worlds, policy, group_size=4, groups=10)
    batch, state = probed.rollouts.batch, probed.rollouts.state
    assert worlds.listed[probed.world, state, probed.rollouts.action].all()
    assert batch.n_states < len(np.unique(batch.group * np.int64(worlds.n_states) + state)) * 2
    found = fidelity(np.asarray(of_estimator(make("gated_bepo"))(probed)), probed)
    assert np.isfinite(np.stack(list(found.values()))).all()


def test_a_game_that_is_too_large_names_its_size_and_the_limit(monkeypatch, capsys):
    monkeypatch.setattr(games, "MOST_GAMES", 100)
    assert main(["fidelity", "grpo", "world=webshop", "worlds=1"]) == 2
    error = capsys.readouterr().err
    assert "more than 100 states (the limit) within" in error and "of 15 steps" in error and error.count("\n") == 1


def test_households_are_enumerated():
    (world,) = households(range(1), 4)
    assert world.distance[world.start] == 3 or np.isnan(world.distance[world.start]) or world.distance[world.start] == 4
    assert len(set(world.coarse)) < len(world.next)  # different states look alike


# --- sampled truth -------------------------------------------------------------------------------------------------


def exact(game, skill, left, known):
    """The probability of success, by trying every action."""
    if left == 0:
        return 0.0
    if (key := (game.key, left)) not in known:
        listed, expert, total = game.listed, game.expert, 0.0
        for action in {*listed, expert} - {None}:
            chance = (1 - skill) * listed.count(action) / len(listed) + skill * (action == expert)
            if expert is None:
                chance = listed.count(action) / len(listed)
            twin = game.copy()
            won = twin.step(action) if chance else False
            total += chance * (exact(twin, skill, left - 1, known) if won is None else float(won))
        known[key] = total
    return known[key]


@pytest.mark.parametrize("env, start", [(SHOP, Shopping), (HOUSE, Household)], ids=["webshop", "alfworld"])
def test_continuations_estimate_the_exact_value(env, start):
    game, horizon = start(env, first(env)), 5
    before = game.key
    value = exact(game, 0.9, horizon, {})
    found = _Truth(0.9, horizon, 400, Random(0))(game, 0)
    assert 0.2 < value < 0.95 and found.shape == (2,)
    np.testing.assert_allclose(found, value, atol=4 * np.sqrt(value * (1 - value) / 400))
    assert game.key == before  # continuations play on copies


def test_the_error_of_known_estimates():
    sampled = sample(SHOP, GameSettings(games=1, groups=2, group_size=4, continuations=2))
    rng, n = np.random.default_rng(0), len(sampled.update.batch)
    true = rng.normal(size=n)
    game = np.arange(n) % 2
    first, second = (true + rng.normal(0, 0.01, n) for _ in range(2))
    update = replace(sampled.update, game=game, first=first, second=second)

    def error(estimate):
        return measure(lambda _: Credit(estimate), Sampled(update, sampled.held_out))["error"]

    np.testing.assert_allclose(error(3 * true), 0, atol=0.01)
    for g in (0, 1):
        other, own = np.where(game == g, np.abs(true), 0.0), true[game == g]
        expected = 1 - (np.abs(own) @ own) ** 2 / (own @ own) ** 2
        assert error(other)[g] == pytest.approx(expected, abs=0.02)


def test_sampled_rollouts_say_what_agents_see():
    how = GameSettings(games=2, groups=1, group_size=3, continuations=4, success=0.5)
    house = replace(HOUSE, horizon=12)
    seen, hidden = (sample(house, GameSettings(**vars(how) | {"keys": keys})).update for keys in ("seen", "hidden"))
    np.testing.assert_array_equal(seen.batch.reward, hidden.batch.reward)
    assert seen.batch.n_groups == 2 and set(seen.game) == {0, 1} and np.isfinite(seen.first).all()
    assert any("you see" in key for key in seen.batch.state_key)
    again = sample(house, how)
    np.testing.assert_array_equal(again.update.second, seen.second)
    assert len(again.held_out.batch) and (again.held_out.batch.reward > 0).any()


@pytest.fixture(scope="module", params=["webshop", "alfworld"])
def sampled(request):
    env = {"webshop": SHOP, "alfworld": replace(HOUSE, horizon=12)}[request.param]
    return sample(env, GameSettings(games=3, groups=4, group_size=4, continuations=4))


def test_the_policy_of_each_transition_is_listed(sampled):
    for played in (sampled.update, sampled.held_out):
        listed, n = played.listed, len(played.batch)
        np.testing.assert_allclose(listed.sum(listed.probability), np.ones(n), atol=1e-12)
        chosen = listed.sum(listed.move == listed.chosen[listed.row])
        np.testing.assert_array_equal(chosen, np.ones(n))  # each listed action once, and the chosen one among them


class Choice:
    """A state in which some actions are listed, and an expert's is known or not."""

    def __init__(self, listed, expert):
        self.listed, self.expert = listed, expert


@pytest.mark.parametrize("expert", ["a", "z", None])  # listed twice, not listed, not known
def test_the_policy_is_how_often_each_action_is_chosen(expert):
    game, rng, n = Choice(("a", "b", "a"), expert), Random(0), 20_000
    chosen = Counter(_choose(game, 0.4, rng) for _ in range(n))
    policy = _policy(game, 0.4)
    assert sum(policy.values()) == pytest.approx(1) and chosen.keys() == policy.keys()
    for action, p in policy.items():
        assert chosen[action] / n == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / n))


def slow_rise(estimate, sampled, game):
    """The definition, key by key: moves are (observation, action)."""
    update, held_out = sampled.update, sampled.held_out
    logit = {}
    for row, move, p in zip(update.listed.row, update.listed.move, update.listed.probability):
        logit[move] = logit.get(move, 0.0) + estimate[row] * ((move == update.listed.chosen[row]) - p)
    slope, kl, n = 0.0, 0.0, 0
    for i in np.flatnonzero(held_out.game == game):
        policy = {
            m: p for r, m, p in zip(held_out.listed.row, held_out.listed.move, held_out.listed.probability) if r == i
        }
        mean = sum(p * logit.get(m, 0.0) for m, p in policy.items())
        kl += sum(p * (logit.get(m, 0.0) - mean) ** 2 for m, p in policy.items()) / 2
        slope += (logit.get(held_out.listed.chosen[i], 0.0) - mean) * held_out.advantage[i]
        n += 1
    episodes = len(np.unique(held_out.batch.trajectory[held_out.game == game]))
    return slope / episodes * np.sqrt(KL / (kl / n)) if kl else 0.0


def test_the_rise_of_an_update_is_that_of_a_plain_computation(sampled):
    for estimate in (sampled.update.advantage, make("grpo").credit_of(sampled.update.batch).advantage):
        expected = [slow_rise(estimate, sampled, game) for game in range(3)]
        np.testing.assert_allclose(rise(estimate, sampled), expected, rtol=1e-9, atol=1e-12)
    assert rise(sampled.update.advantage, sampled).mean() > 0


def test_the_gain_of_known_estimates(sampled):
    def gain(estimate):
        return measure(lambda _: Credit(estimate), sampled)["gain"]

    true = sampled.update.advantage
    assert gain(true).mean() == pytest.approx(1)
    np.testing.assert_allclose(gain(7 * true), gain(true))  # the KL sets the length of the step
    np.testing.assert_allclose(gain(-true), -gain(true))
    np.testing.assert_array_equal(gain(0 * true), 0)
    hopeless = replace(sampled.update, first=0 * true, second=0 * true)
    found = measure(lambda _: Credit(true), replace(sampled, update=hopeless))
    assert np.isnan(found["gain"]).all() and np.isnan(found["error"]).all()


def test_the_command(capsys):
    small = ["games=2", "groups=1", "group_size=2", "continuations=2"]
    assert main(["sampled", "webshop products=10", "grpo", "gated_bepo gae_lambda=0", *small]) == 0
    printed = capsys.readouterr().out
    assert "webshop: 2 games, horizon 15" in printed and "gated_bepo gae_lambda=0" in printed
    assert "sign_error" in printed


def test_presets_take_the_settings_of_the_environment(capsys):
    """g2po_official divides by a deviation on ALFWorld and Sokoban, not on WebShop."""
    small = ["games=2", "groups=1", "group_size=4", "continuations=2"]
    assert main(["sampled", "webshop products=10", "g2po_official", "g2po std=none", "g2po", *small]) == 0
    preset, none, divided = (line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()[-3:])
    assert preset.split() == none.split() != divided.split()


class Won:
    """A game that any action wins."""

    key, seen, listed, expert = 0, "", ("win",), "win"

    def copy(self):
        return self

    def step(self, action):
        return True


def test_a_rate_that_any_actions_exceed_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("bepo.lab.sampled.games_of", lambda env, n: [Won()])
    assert main(["sampled", "webshop", "grpo", "games=1"]) == 2
    assert "success=0.3: any listed actions succeed in 1.00 of the episodes" in capsys.readouterr().err


def test_games_are_those_of_the_environment():
    tasks = list(islice(SHOP.tasks("train"), 2))
    assert [Shopping(SHOP, task).seen for task in tasks] == [o.key for o in SHOP.start(tasks).observations]


def test_the_hidden_state_of_a_shop_does_not_depend_on_the_order_of_choices():
    """As text it is a key of ``keys=hidden``, the same in every process."""
    game = Shopping(SHOP, first(SHOP))
    game._session.options = {"size": "xl", "color": "red"}
    other = game.copy()
    other._session.options = {"color": "red", "size": "xl"}
    assert str(game.key) == str(other.key) and "('color', 'red'), ('size', 'xl')" in str(game.key)

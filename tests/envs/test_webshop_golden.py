"""WebShop equals recordings of the original text environment and of Lucene (tests/data/webshop)."""

import gzip
import json
from functools import cache
from random import Random

import pytest

from bepo.envs.webshop import text
from bepo.envs.webshop.catalogue import Catalogue
from bepo.envs.webshop.goals import SyntheticGoals, draw_prices, human_goals, permutation
from bepo.envs.webshop.nouns import rule_nouns
from bepo.envs.webshop.pages import Session, Shop
from bepo.envs.webshop.search import Index
from tests.conftest import DATA


@cache
def recorded(name: str):
    return json.loads(gzip.decompress((DATA / "webshop" / f"{name}.json.gz").read_bytes()))


@cache
def catalogue() -> Catalogue:
    entries, attributes, human = map(recorded, ("items_shuffle_150", "items_ins_v2_150", "items_human_ins"))
    return Catalogue(entries, attributes, human.items(), "recorded")


def world(kind: str):
    """Return the recording, its shop, prices and goals; prices and goals are drawn here, from the recording's seed."""
    recording, rng = recorded(f"webshop_{kind}"), Random(0)
    shop = Shop(catalogue(), recording["nouns"].__getitem__)
    prices = draw_prices(catalogue(), rng)
    make = human_goals if kind == "human" else SyntheticGoals
    return recording, shop, prices, make(catalogue(), prices, rng)


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_prices_goals_and_their_order(kind):
    recording, _, prices, goals = world(kind)
    assert prices == [recording["prices"][asin] for asin in catalogue().number]
    order = permutation(len(goals), 233)
    for episode in recording["episodes"]:
        ours, theirs = goals[order[episode["goal_index"]]], episode["goal"]
        options = theirs["goal_options"]
        assert ours.options == tuple(options.items() if isinstance(options, dict) else options)
        assert (ours.asin, ours.instruction) == (theirs["asin"], theirs["instruction_text"])
        assert (list(ours.attributes), ours.price_upper) == (theirs["attributes"], theirs["price_upper"])


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_every_recorded_step(kind):
    """Observations, buttons, rewards and ends of all 60 episodes are equal."""
    recording, shop, prices, goals = world(kind)
    order, steps = permutation(len(goals), 233), 0
    for episode in recording["episodes"]:
        session = Session(shop, goals[order[episode["goal_index"]]], prices)
        assert state_of(session) == episode["first"]
        for step in episode["steps"]:
            score = session.act(step["action"])
            assert ((score or 0.0), score is not None) == (step["reward"], step["done"]), step["action"]
            if not step["done"]:
                assert state_of(session) == {k: step[k] for k in ("observation", "available")}, step["action"]
            steps += 1
    assert steps == sum(len(e["steps"]) for e in recording["episodes"]) > 600


def state_of(session: Session) -> dict:
    """Return observation and buttons in the form of the recordings."""
    buttons = {"has_search_bar": session.page == "search", "clickables": list(session.clickables)}
    return {"observation": text.observation(session, "text"), "available": buttons}


@pytest.mark.parametrize("kind", ["human", "synthetic"])
def test_every_recorded_search(kind):
    recording, shop, _, _ = world(kind)
    for search in recording["search"]:
        assert [product.asin for product in shop.search(search["query"])] == search["top50"], search["query"]


def test_lucenes_fifty_best_in_lucenes_order():
    recording = recorded("lucene_bm25")
    names, index = list(recording["documents"]), Index.build(recording["documents"].items())
    for query in recording["queries"]:
        assert [names[i] for i in index.search(query["query"])] == query["hits"], query["query"]


def test_every_recorded_step_of_the_rich_mode():
    """24 episodes with marked clicks and the Attributes button; the recording has the nouns of the rule tagger too."""
    _, _, prices, goals = world("synthetic")
    shop = Shop(catalogue(), rule_nouns, show_attributes=True)
    order = permutation(len(goals), 233)
    for episode in recorded("webshop_rich")["episodes"]:
        session = Session(shop, goals[order[episode["goal_index"]]], prices)
        assert text.observation(session, "text_rich") == episode["first"]
        for step in episode["steps"]:
            score = session.act(step["action"])
            assert ((score or 0.0), score is not None) == (step["reward"], step["done"]), step["action"]
            if not step["done"]:
                assert text.observation(session, "text_rich") == step["observation"], step["action"]
                assert list(session.clickables) == step["clickables"]

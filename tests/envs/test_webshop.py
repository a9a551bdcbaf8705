"""WebShop: reward and search, tasks, the original files, playing (recordings: test_webshop_golden.py)."""

import json
import sys
from dataclasses import asdict
from itertools import islice

import pytest

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.core.settings import identity, outside_identity
from bepo.envs.webshop import WebShop, cache, json_files, nouns, original
from bepo.envs.webshop.analyzer import analyze, stem
from bepo.envs.webshop.generate import generate, write
from bepo.envs.webshop.nouns import rule_nouns
from bepo.envs.webshop.reward import normalize_color, option_hits
from bepo.envs.webshop.views import shared_words, suggested_queries
from bepo.store.files import Corrupt
from tests.command import SHORT_START, rows, run

SMALL = {"products": 150}
COMPACT = SMALL | {"rendering": "compact", "suggestions": 3}


def first(env: WebShop, split: str = "train", n: int = 8):
    return list(islice(env.tasks(split), n))


# --- reward and search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option, expected",
    [
        ("black forest", "black"),
        ("violet lavender", "lavender"),  # first in the list of colours, not in the option
        ("123alabaster", "alabaster"),
        ("webshop", "webshop"),
        (("color", "navy"), "navy"),  # a whole part of the pair
        (("color", "navy blue"), ("color", "navy blue")),
    ],
)
def test_colours(option, expected):
    assert normalize_color(option) == expected


def test_options_match_leniently():
    assert option_hits(["large"], [("size", "x-large")]) == 1
    assert option_hits(["powder snow"], ["cool powder snow"]) == 1
    assert option_hits(["small"], ["large"]) == 0
    assert option_hits(["wired"], [("style", "wired")]) == 0  # "wired" contains "red": the original cannot match it


@pytest.mark.parametrize(
    "goal, bought, low, high",
    [  # the original's own test cases, with spaCy's shares .333, .3, .15 and below .05
        (
            "Mens D.O.N. Issue 2 Gca Basketball Sneakers Shoes Casual - Off White",
            "PEAK High Top Mens Basketball Shoes Lou Williams Streetball Master Breathable Non Slip Outdoor Sneakers",
            0.2,
            1,
        ),
        (
            "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar",
            "BRST AC Power Cord Outlet Socket Cable Plug Lead for Panasonic SC-HT830V DVD/VCR Combo Theater System",
            0.1,
            0.2,
        ),
        (
            "Rusticware 921ORB Kitchen and Bath Cabinet Knob",
            "Minkissy 2pcs Stainless Steel Eyebrow Tweezers Blackhead Acne Remover Portable Makeup Tweezers (Silver)",
            0,
            0,
        ),
    ],
)
def test_rule_nouns_fall_between_the_same_thresholds_as_spacys(goal, bought, low, high):
    target = rule_nouns(goal)
    assert low <= len(set(target) & set(rule_nouns(bought))) / len(target) <= high


def test_the_tagger_depends_on_what_is_installed(monkeypatch):
    monkeypatch.setattr(nouns, "find_spec", lambda name: None)
    assert WebShop(**SMALL).noun_tagger == "rules"
    with pytest.raises(UserError, match="en_core_web_sm"):
        WebShop(noun_tagger="spacy")
    monkeypatch.setattr(nouns, "find_spec", lambda name: object())
    assert WebShop(**SMALL).noun_tagger == "spacy" and WebShop(noun_tagger="rules").noun_tagger == "rules"


@pytest.fixture
def spacy_model(tmp_path, monkeypatch):
    """Install a small real spaCy pipeline under the name of the model, which is not in the package index."""
    spacy = pytest.importorskip("spacy")
    model = spacy.blank("en")
    ruler = model.add_pipe("attribute_ruler")
    for tag, words in {"NOUN": ["shirt", "cotton"], "PROPN": ["acme"], "ADJ": ["blue"]}.items():
        ruler.add([[{"LOWER": {"IN": words}}]], {"POS": tag})
    package = tmp_path / nouns.MODEL
    model.to_disk(package)
    (package / "__init__.py").write_text(
        "from pathlib import Path\n\nfrom spacy.util import load_model_from_path\n\n\n"
        "def load(**settings):\n    return load_model_from_path(Path(__file__).parent, **settings)\n",
        encoding="utf-8",
    )
    (tmp_path / f"{nouns.MODEL}-3.8.0.dist-info").mkdir()
    (tmp_path / f"{nouns.MODEL}-3.8.0.dist-info" / "METADATA").write_text(
        f"Name: {nouns.MODEL}\nVersion: 3.8.0\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    nouns.noun_filter.cache_clear()
    yield
    sys.modules.pop(nouns.MODEL, None)
    nouns.noun_filter.cache_clear()


def test_a_spacy_model_is_loaded_and_used(spacy_model):
    assert nouns.choose_tagger("auto") == nouns.choose_tagger("spacy") == "spacy"
    assert nouns.noun_filter("spacy")("Acme Blue Cotton Shirt") == ("acme", "cotton", "shirt")
    assert WebShop(**SMALL).metadata()["noun_tagger"] == "spacy"


@pytest.mark.parametrize(
    "text, terms",
    [
        ("The Women's SHOES, size x-large", ["women", "shoe", "size", "x", "larg"]),
        ("possibly 3.5oz 1,000 u.s.a apologies", ["possibl", "3.5oz", "1,000", "u.s.a", "apolog"]),
        ("crème brûlée naïve", ["crème", "brûlée", "naïv"]),
        ("杯子 and ½ cup", ["杯", "子", "cup"]),
        ("relational conditional hopping falling controlling", ["relat", "condit", "hop", "fall", "control"]),
    ],
)
def test_analyzer(text, terms):
    assert analyze(text) == terms


def test_search_commands_are_words_unless_allowed():
    plain, allowed = WebShop(**SMALL), WebShop(**SMALL, keyword_commands=True)
    category = plain._shop.catalogue.product(0).category
    for env, listed in ((plain, False), (allowed, True)):
        (task,) = first(env, n=1)
        episodes = env.start([task])
        for query in ("<r>", f"<c> {category}"):
            key = episodes.step({0: f"search[{query}]"})[0].observation.key
            assert ("Total results: 0" not in key) == listed
        assert env.start([task]).step({0: "search[<r>]"})[0] == env.start([task]).step({0: "search[<r>]"})[0]


# --- tasks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goals", ["synthetic", "human"])
def test_one_permutation_splits_all_goals(goals):
    env = WebShop(**SMALL, goals=goals)
    ids = {split: [t.id for t in env.tasks(split)] for split in ("train", "validation", "test")}
    everything = [i for split_ids in ids.values() for i in split_ids]
    assert len(set(everything)) == len(everything) and all(ids.values())
    assert len(ids["test"]) <= 500 and len(everything) >= 0.9 * env.metadata()["goals"]


@pytest.mark.slow
def test_the_splits_of_verl_agent_overlap():
    """Most validation goals, without their price bounds, are in the training range of some worker."""

    def content(task):
        goal = task.data["goal"]
        return goal["asin"], json.dumps(goal["options"])

    theirs = WebShop(**SMALL, verl_agent_split=True)
    train, test = ({content(t) for t in theirs.tasks(split)} for split in ("train", "test"))
    assert len(train & test) > 0.9 * len(test)
    ours = WebShop(**SMALL)
    train, test = ({content(t) for t in ours.tasks(split)} for split in ("train", "test"))
    assert not train & test


def test_generated_products_are_the_same_everywhere():
    """Task sets and results of a default run depend on them."""
    assert WebShop(**SMALL).metadata() == {
        "data": "generated (150 products, seed 0)",
        "catalogue": "ed5629654bccd757",
        "products": 150,
        "goals": 767,
        "left_out": {},
        "noun_tagger": "rules",
    }


def test_a_task_of_another_catalogue_is_refused():
    with pytest.raises(UserError, match="another catalogue"):
        WebShop(products=151).start(first(WebShop(**SMALL)))


# --- the original files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1 << 22, 700])
def test_original_files_hold_the_same_catalogue(tmp_path, monkeypatch, chunk):
    """The files are written, and read back entry by entry through a window of any size."""
    monkeypatch.setattr(json_files, "_CHUNK", chunk)
    write(tmp_path, **SMALL)
    read, generated = WebShop(data="original", path=str(tmp_path)), WebShop(**SMALL)
    assert read.metadata() | {"data": ""} == generated.metadata() | {"data": ""}
    assert first(read, "test") == first(generated, "test")
    step = read.start(first(read, n=1)).step({0: "search[red shoes]"})[0]
    assert step == generated.start(first(generated, n=1)).step({0: "search[red shoes]"})[0]


def test_the_files_and_not_their_folder_are_part_of_the_id(tmp_path, monkeypatch):
    for name, seed in (("one", 0), ("moved", 0), ("other", 1)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, **SMALL, seed=seed)
    one, moved, other = (WebShop(data="original", path=str(tmp_path / name)) for name in ("one", "moved", "other"))
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path / "one"))
    assert identity(one) == identity(moved) == identity(WebShop(data="original")) != identity(other)
    assert identity(one)["path"] == "" and outside_identity(moved)["path"] == str(tmp_path / "moved")


def test_corrupt_entries_are_left_out_and_counted(tmp_path, monkeypatch):
    entries, attributes, human = generate(30, 0)
    broken = [
        {**entries[0], "asin": "B0NOTITLE0", "name": None},
        {k: v for k, v in entries[1].items() if k != "category"} | {"asin": "B0NOCATEGO"},
        {**entries[2], "asin": "B0BADPRICE", "pricing": "$one$two"},
        "not a product",
        {**entries[3], "asin": "B0TOOLONGASIN"},
        {**entries[4], "asin": "nan"},
        entries[5],
    ]
    for name, content in zip(original.FILES["full"], (entries + broken, attributes, human)):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path / "cache"))
    env = WebShop(data="original", catalogue="full")
    assert env.metadata()["products"] == 30
    assert env.metadata()["left_out"] == {"corrupt": 4, "no asin": 2, "repeated": 1}
    with pytest.raises(UserError, match=env.data_digest):
        WebShop(data="original", catalogue="full", data_digest="0123")
    original.catalogue.cache_clear()
    cached = WebShop(data="original", catalogue="full")
    assert cached.metadata() == env.metadata() and first(cached) == first(env)
    assert [cached._catalogue.product(n) for n in range(30)] == [env._catalogue.product(n) for n in range(30)]
    (file,) = (tmp_path / "cache").rglob("*.npz")
    other = file.rename(file.with_name("of_other_files.npz"))
    with pytest.raises(Corrupt, match="made from other files"):
        cache.read(other, *(tmp_path / name for name in original.FILES["full"][:2]))


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda f: f.unlink(), "items_shuffle_1000.json: no such file"),
        (lambda f: f.write_bytes(f.read_bytes()[:-5000]), "broken after 25 entries, at byte"),
        (lambda f: f.write_text("<html>quota exceeded</html>", encoding="utf-8"), "broken after 0 entries, at byte 0"),
        (lambda f: f.write_bytes(b""), "broken after 0 entries"),
    ],
)
def test_missing_and_broken_files_are_one_line(tmp_path, damage, message):
    write(tmp_path, products=30)
    damage(tmp_path / "items_shuffle_1000.json")
    with pytest.raises(UserError, match=message) as raised:
        WebShop(data="original", path=str(tmp_path)).metadata()
    assert len(str(raised.value).splitlines()) == 1


def test_a_folder_of_the_original_files_must_be_named(monkeypatch):
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    with pytest.raises(UserError, match="WEBSHOP_DATA"):
        WebShop(data="original").metadata()


# --- playing -------------------------------------------------------------------------------------------------


def test_reward_is_for_perfect_purchases_only():
    env = WebShop(**SMALL)
    (task,) = first(env, n=1)
    episodes = env.start([task, task])
    goal = task.data["goal"]
    for i in range(2):
        title = env._shop.product(goal["asin"]).title
        episodes.step({i: f"search[{title}]"})
        episodes.step({i: f"click[{goal['asin'].lower()}]"})
    careless = episodes.step({0: "click[buy now]"})[0]
    assert careless.terminal == Terminal.FAILURE and careless.reward == 0 and 0 < careless.task_score < 1
    for _, value in goal["options"]:
        step = episodes.step({1: f"click[{value}]"})[1]
        assert step.reward == step.task_score == 0
    bought = episodes.step({1: "click[buy now]"})[1]
    assert bought.terminal == Terminal.SUCCESS and bought.reward == 10 and bought.task_score == 1


def test_the_prompt_has_quoted_parts_and_the_key_no_instruction():
    env = WebShop(**SMALL)
    episodes = env.start(first(env, n=2))
    assert episodes.observations[0].text == "'Search'"
    assert episodes.observations[0].admissible == ("search[<your query>]",)
    steps = episodes.step({0: "search[sofa]", 1: "search[sofa]"})
    assert steps[0].observation.text.startswith("'Back to Search' [SEP] 'Page 1 (Total results: ")
    assert steps[0].observation.key == steps[1].observation.key  # other instructions, same page
    unchanged = episodes.step({0: None})[0].observation
    assert unchanged == steps[0].observation


@pytest.mark.parametrize("mode, aliased", [("text", True), ("text_rich", False)])
def test_only_the_rich_mode_marks_a_chosen_option(mode, aliased):
    env = WebShop(**SMALL, observation_mode=mode)
    episodes = env.start(first(env, n=1))
    keys = []
    for _ in range(3):
        keys.append(episodes.step({0: episodes.expert(0)})[0].observation.key)
    assert (keys[1] == keys[2]) == aliased


@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_the_compact_view_marks_clicks_in_the_rich_mode_only(mode):
    env = WebShop(**COMPACT, observation_mode=mode)
    episodes, pages = env.start(first(env, n=1)), []
    while not pages or "item" not in pages[-1]:
        pages.append(episodes.step({0: episodes.expert(0)})[0].observation.text)
    pages.append(episodes.step({0: episodes.expert(0)})[0].observation.text)
    assert ("done" in pages[-1], pages[-2] == pages[-1]) == ((True, False) if mode == "text_rich" else (False, True))
    back = episodes.step({0: "click < prev"})[0].observation.text
    assert ("done" in back) == (mode == "text_rich")


def test_an_opened_result_is_a_number_and_done():
    env = WebShop(**COMPACT, observation_mode="text_rich")
    episodes = env.start(first(env, n=1))
    before = episodes.step({0: episodes.observations[0].admissible[0]})[0].observation.text.split("; ")
    episodes.step({0: "click 2"})
    after = episodes.step({0: "click < prev"})[0].observation.text.split("; ")
    assert after[1] == "2 done" != before[1] and after[:1] + after[2:] == before[:1] + before[2:]


def test_the_compact_view_shows_the_instructions_words_wherever_a_product_has_them():
    """The page of a perfect product has every requested attribute, and the product type as in the instruction."""
    env = WebShop(**COMPACT)
    tasks = first(env, n=40)
    episodes = env.start(tasks)
    for i, task in enumerate(tasks):
        while "item" not in episodes.observations[i].text:
            episodes.step({i: episodes.expert(i)})
        shown = set(episodes.observations[i].text.split(";")[0].split())
        asked = {word for attribute in task.data["goal"]["attributes"] for word in attribute.split()}
        assert set(map(stem, asked)) <= set(map(stem, shown))
    assert shared_words("A Wrap Dress in linens", {"dress": "dresses", "linen": "linen"}) == ["dresses", "linen"]


def test_a_catalogue_with_fewer_colours_and_more_options():
    """Every product has the extra options, each goal asks for them, and the expert still solves every goal."""
    env = WebShop(**COMPACT, colors=3, extra_options=2)
    tasks = first(env, n=30)
    for task in tasks:
        asked = dict(task.data["goal"]["options"])
        assert {"pattern", "finish"} < asked.keys() and asked.get("color", "blue") in ("beige", "black", "blue")
    episodes = env.start(tasks)
    for i in range(len(tasks)):
        steps = [episodes.step({i: episodes.expert(i)})[i] for _ in range(int(episodes.expert_steps(i)))]
        assert steps[-1].terminal == Terminal.SUCCESS and len(steps) >= 6


def test_any_text_is_an_action_of_pages_and_only_actions_are_of_the_compact_view():
    assert WebShop(**SMALL).parse_action(" Hello ") == "hello"
    compact = WebShop(**COMPACT)
    assert compact.parse_action("hello") is None and compact.parse_action("click") is None
    assert compact.parse_action("click [ x - large ]") == "click x - large" == compact.parse_action("click x - large")


def test_the_compact_view_leads_to_the_same_pages():
    """The same expert has equal keys, rewards and ends in both views."""
    plain, compact = WebShop(**SMALL, suggestions=3), WebShop(**COMPACT)
    tasks = first(plain, n=20)
    a, b = plain.start(tasks), compact.start(tasks)
    for i in range(len(tasks)):
        for _ in range(plain.horizon):
            one, two = a.step({i: a.expert(i)})[i], b.step({i: compact.parse_action(b.expert(i))})[i]
            assert one.observation.key == two.observation.key
            assert (one.reward, one.terminal, one.task_score) == (two.reward, two.terminal, two.task_score)
            if one.terminal != Terminal.NONE:
                break
        assert one.terminal == Terminal.SUCCESS


def test_suggested_searches_are_the_instructions_own_words():
    instruction = "Find me leak proof, easy carry travel bottles with color: red, and price lower than 30.00 dollars"
    assert suggested_queries(instruction, 2) == ("leak proof easy carry travel", "carry travel bottles color red")
    assert suggested_queries("find me", 3) == ("find me",)


def test_settings_do_not_grow_by_playing():
    """Cached data is not in the fields that identify a run."""
    env = WebShop(**SMALL)
    before = asdict(env)
    env.start(first(env, n=1))
    assert asdict(env) == before


@pytest.mark.slow
def test_a_whole_smoke_run(tmp_path):
    code, _, err = run("env=webshop", f"results={tmp_path}", "tracking.mode=disabled", "updates=2", *SHORT_START)
    assert code == 0, err
    metrics = rows(tmp_path, "metrics")
    assert len(metrics) == 2 and max(r["train/first_ratio_error"] for r in metrics) < 1e-5
    assert all(r["train/valid_actions"] == 1 for r in metrics)  # restricted to admissible actions
    assert any(0 < r["task_score"] < 1 and not r["success"] for r in rows(tmp_path, "episodes"))
    (file,) = tmp_path.glob("runs/*/run.json")
    facts = json.loads(file.read_text(encoding="utf-8"))
    assert facts["environment"] == WebShop(**SMALL).metadata()

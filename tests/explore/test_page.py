"""The viewer's page in a real browser: nothing breaks out, nothing is loaded, everything is reached by Tab."""

import pytest

from bepo.explore.index import page
from bepo.explore.overview import overview
from bepo.store.find import read_any
from tests.explore.runs_with_episodes import HOSTILE, write

pytest.importorskip("websockets")  # of the extra [dev]
from tests.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]
READY = "document.body && document.body?.dataset.ready && document.querySelector('.graph')"
CONTROLS = "a[href], button, select, input, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    runs = [read_any(write(folder, credit, seed, HOSTILE).path) for credit, seed in (("gated_bepo", 0), ("grpo", 1))]
    path = folder / "page.html"
    path.write_text(page(runs, (0, 1)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


def test_observations_are_shown_as_they_are_and_nothing_is_loaded(browser, address):
    browser.open(address, READY)
    browser.evaluate("[...document.querySelectorAll('details')].forEach(d => { d.open = true; })")
    shown = browser.evaluate("document.querySelector('#episodes .observation').textContent")
    assert shown == HOSTILE
    assert browser.evaluate("window.hit === undefined && document.querySelectorAll('img').length === 0")
    assert browser.problems == []
    assert {request for request in browser.requests if not request.startswith("about:")} == {address}


def test_every_control_is_reached_by_tab(browser, address):
    browser.open(address, READY)
    visible = f"[...document.querySelectorAll(`{CONTROLS}`)].filter(e => e.getClientRects().length)"
    wanted = browser.evaluate(f"{visible}.map((e, i) => {{ e.dataset.control = i; return i; }})")
    reached = set()
    for _ in range(len(wanted) + 2):
        browser.press("Tab", 9)
        reached.add(browser.evaluate("document.activeElement.dataset.control ?? null"))
    assert {str(i) for i in wanted} <= reached and len(wanted) > 20


def test_filters_keys_and_addresses_choose_an_episode(browser, address):
    browser.open(address, READY)
    assert browser.evaluate("document.querySelectorAll('.item').length") == 18  # 2 x (3 test + 6 of an update)
    browser.evaluate(
        "{ const s = [...document.querySelectorAll('#episodes label')].find(l => l.textContent.startsWith('Outcome'))"
        ".querySelector('select'); s.value = 'success'; s.dispatchEvent(new Event('change')); }"
    )
    assert browser.evaluate("document.querySelector('[role=status]').textContent") == "7 of 18 episodes"
    browser.evaluate("document.querySelector('.list').focus()")
    browser.press("ArrowDown", 40)
    browser.wait("document.querySelector('.item[aria-selected=true]')")
    run = browser.evaluate("document.querySelector('#runs code').textContent")
    browser.open(f"{address}#run={run}&from=update+1&episode=2&step=2", READY)
    facts = browser.evaluate("document.querySelector('.browser .card').textContent")
    assert "update 1" in facts and "outcome success" in facts
    assert "step 2 of 2" in browser.evaluate("document.querySelector('.browser').textContent")


def test_the_table_of_runs_is_sorted_and_searched_and_links_to_episodes(browser, tmp_path):
    folders = [write(tmp_path, credit, seed, HOSTILE) for credit, seed in (("gated_bepo", 0), ("gated_bepo", 1))]
    runs = [read_any(folder.path) for folder in folders]
    views = tmp_path / "views"
    views.mkdir()
    (views / f"{runs[1].id[:6]}.html").write_text(page(runs[1:]), encoding="utf-8")
    (views / "runs.html").write_text(overview(runs, tmp_path), encoding="utf-8")
    browser.problems.clear()
    browser.open((views / "runs.html").as_uri(), "document.body && document.body?.dataset.ready")
    names = "[...document.querySelectorAll('#runs tbody tr')].map(row => row.cells[0].textContent)"
    browser.evaluate("document.querySelector('[data-column=name]').click()")
    assert browser.evaluate(names) == ["Gated-BEPO seed 0", "Gated-BEPO seed 1"]
    browser.evaluate("document.querySelector('[data-column=name]').click()")
    assert browser.evaluate(names) == ["Gated-BEPO seed 1", "Gated-BEPO seed 0"]
    browser.evaluate(
        f"{{ const i = document.querySelector('[type=search]'); i.value = '{runs[0].id} explored';"
        "i.dispatchEvent(new Event('input')); }"
    )
    assert browser.evaluate(names) == ["Gated-BEPO seed 0"]
    browser.evaluate(
        "{ const i = document.querySelector('[type=search]'); i.value = ''; i.dispatchEvent(new Event('input')); }"
    )
    link = browser.evaluate("document.querySelector('#tasks a.cell').href")
    browser.open(link, READY)
    assert "test episodes" in browser.evaluate("document.querySelector('.browser .card').textContent")
    assert browser.problems == []


def test_a_study_says_its_question_and_shows_the_band_of_the_method_that_is_pointed_at(browser, tmp_path):
    methods, question = (
        ("gated_bepo", "grpo", "gigpo", "hgpo", "graphgpo"),
        {"name": "mine", "question": "Does it help?"},
    )
    runs = [read_any(write(tmp_path, credit, seed, study=question).path) for credit in methods for seed in (0, 1)]
    rows = "[...document.querySelectorAll('#diagnosis tbody tr')].map(row => row.cells[0].textContent)"
    shown = "document.querySelectorAll('#curves path[fill-opacity][visibility=visible]').length"
    name = "document.querySelector('#curves span[tabindex]').dispatchEvent(new Event('{}'))"
    for n, bands in ((len(runs), 0), (len(runs) - 2, 4)):
        (tmp_path / "study.html").write_text(page(runs[:n], study="mine"), encoding="utf-8")
        browser.open((tmp_path / "study.html").as_uri(), READY)
        assert browser.evaluate("document.querySelector('h1').textContent") == "mine: Does it help?"
        assert browser.evaluate(shown) == bands
        assert len(browser.evaluate(rows)) == len(methods) - (n < len(runs))
        for event, number in (("pointerenter", 1), ("pointerleave", bands), ("focus", 1), ("blur", bands)):
            browser.evaluate(name.format(event))
            assert browser.evaluate(shown) == number, event


def test_a_phone_needs_no_sideways_scrolling(address):
    with Browser(400, 800) as phone:
        phone.open(address, READY)
        assert phone.evaluate("document.documentElement.scrollWidth") == 400


def test_alarms_are_unfolded_and_a_run_has_its_diagnosis(browser, tmp_path):
    run = read_any(write(tmp_path).path)
    run.metadata["alarms"] = ["all groups are tied"]
    path = tmp_path / "page.html"
    path.write_text(page([run]), encoding="utf-8")
    browser.problems.clear()
    browser.open(path.as_uri(), READY)
    assert browser.evaluate("document.querySelector('#runs .alarms').innerText") == "Alarm: all groups are tied."
    assert browser.evaluate("document.querySelector('.alarms').closest('details') === null")
    names = browser.evaluate("[...document.querySelectorAll('#diagnosis figcaption')].map(e => e.textContent)")
    assert names[0] == "advantage" and "outcome" in names and browser.problems == []
    assert "Values against realised returns" in browser.evaluate("document.querySelector('#diagnosis').innerText")

"""The report in a real browser: the paper's numbers, filters, numbers where the pointer is, a pinned column."""

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import yaml

from analysis.data.sources import Source
from analysis.data.titles import FILE, number_of, pages, title_of
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table
from analysis.output import page
from analysis.output.build import Built, LeftOut, build, write
from analysis.output.ledger import ledger, newest
from analysis.output.page import environments_in
from tests.stored_runs import write_run

pytestmark = pytest.mark.slow
LABELS = ("declared-claims", "main-results", "lab-gate", "supp-mixing-ablation", "alfworld-success-curves", "lab-bias")
LABELS += ("checks",)
METHODS = ("gated_bepo", "hgpo", "grpo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of two methods on ALFWorld and one on WebShop."""
    path = tmp_path_factory.mktemp("report")
    for seed, method in ((s, m) for s in (0, 1) for m in METHODS):
        env = "webshop" if method == "grpo" else "alfworld"
        at = {"env.name": env, "credit.name": method, "seed": seed}
        write_run(path / "r", f"main_{env}", at, [[1, 0], [1, 1]], tier="laptop", metrics={"train/success": 0.25})
    built = [build(artefacts()[label], Source(path / "r"), "laptop") for label in LABELS]
    write(built, path, LeftOut())
    rows = newest(ledger(path / "r"), number=None)
    (path / "report.html").write_text(page.render(built, ["laptop"], "r", own=rows, out=path), encoding="utf-8")
    return path


def test_what_the_paper_shows_is_numbered_in_its_order():
    assert number_of("main-results") == "Table 2" and number_of("alfworld-aliasing-curves") == "Figure 4"
    assert title_of("claims") == "The paper's claims" and title_of("mine") == "mine" and not number_of("claims")
    file = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    named = [label for part in ("tables", "figures", "added") for label in file[part]]
    assert len(named) == len(set(named)) and set(named) == set(artefacts())
    kinds = {label: item.kind for label, item in artefacts().items()}
    assert {kinds[label] for label in file["tables"]} == {"table"} and {kinds[x] for x in file["figures"]} == {"figure"}


def test_every_artefact_is_on_one_page():
    shown = [page.FIRST, *(label for one in pages() for label in one.shows)]
    assert len(shown) == len(set(shown)) and set(shown) == set(artefacts())
    assert not {one.name for one in pages()} & {"overview", "runs", "more"}  # the page has these of its own


@pytest.mark.parametrize("columns, side_by_side", [(2, 1), (6, 0)])
def test_an_artefact_of_ones_own_has_a_page_and_a_narrow_table_its_blocks_side_by_side(columns, side_by_side):
    rows = [[str(10 * row + column) for column in range(columns)] for row in range(9)]
    table = Table("A table of mine.", [f"c{n}" for n in range(columns)], rows, headings=["a"] * 5 + ["b"] * 4)
    shown = page.render([Built("mine", "laptop", table)], ["laptop"], "r")
    assert shown.index('id="more"') < shown.index('id="mine.laptop"') and '<a href="#more">More</a>' in shown
    assert shown.count('class="scroll beside"') == side_by_side
    assert len(re.findall('<table class="[^"]* sortable"', shown)) == 1 + side_by_side


def test_the_order_is_that_of_the_source():
    source = FILE.parents[2] / "shared" / "paper"
    texts = [path.read_text(encoding="utf-8") for path in source.glob("*.txt")] if source.exists() else []
    if not texts:
        pytest.skip("the paper's source is not here")
    file = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for part, prefix in (("tables", "tab"), ("figures", "fig")):
        assert list(file[part]) == re.findall(rf"\\label\{{{prefix}:([^}}]*)\}}", texts[0])


def test_environments_are_found_by_either_name():
    assert environments_in("text | grpo | 1.5B | alfworld/All", "WebShop success") == ["ALFWorld", "WebShop"]
    assert environments_in("entropy") == []


def test_a_picture_says_its_numbers_and_its_tier(folder):
    svg = (folder / "figures" / "alfworld-success-curves.laptop.svg").read_text(encoding="utf-8")
    assert "<title>HGPO, update 2: 25 ± 0 (n = 2)</title>" in svg and "tier laptop" in svg
    assert svg.count('data-line="HGPO"') >= 3  # line, band and marks


def test_mathematics_is_set_as_such(folder):
    tex = (folder / "tables" / "supp-mixing-ablation.laptop.tex").read_text(encoding="utf-8")
    assert "$\\eta (\\rho ) A^{\\mathrm{out}} + w \\rho  A^{\\mathrm{FP}}$" in tex
    assert "A<sup>out</sup>" in (folder / "report.html").read_text(encoding="utf-8")
    assert "η(ρ) A^out + w ρ A^FP" in (folder / "tables" / "supp-mixing-ablation.laptop.md").read_text(encoding="utf-8")


WINDOWS = {"desk": (1200, False), "phone": (400, True)}  # width in pixels, dark
at_the_desk = pytest.mark.parametrize("browser", ["desk"], indirect=True)  # what does not depend on width and colours


@pytest.fixture(scope="module", params=WINDOWS)
def browser(request, folder):
    pytest.importorskip("websockets")  # of the extra [dev]
    from tests.browser import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    width, dark = WINDOWS[request.param]
    with Browser(width, 900, dark=dark) as opened:
        opened.open((folder / "report.html").as_uri())
        yield opened


def choose(browser, name, value):
    browser.evaluate(f"(() => {{ const e = document.getElementById('{name}'); e.value = '{value}';"
                     "e.dispatchEvent(new Event('change')); })()")  # fmt: skip


@at_the_desk
def test_the_filters_leave_what_was_asked_for(browser):
    shown = "[...document.querySelectorAll('article[data-tier]')].filter(a => !a.hidden).map(a => a.id.split('.')[0])"
    try:
        choose(browser, "env", "WebShop")
        assert set(browser.evaluate(shown)) == {"main-results", "supp-mixing-ablation", "checks"}
        choose(browser, "env", "")
        choose(browser, "method", "HGPO")
        assert browser.evaluate(shown) == ["main-results", "alfworld-success-curves"]
        rows = "[...document.querySelectorAll('#main-results\\\\.laptop tbody tr[data-method]')].filter(r => !r.hidden)"
        assert set(browser.evaluate(f"{rows}.map(r => r.dataset.method)")) == {"HGPO"}
        faded = "document.querySelectorAll('#alfworld-success-curves\\\\.laptop .faded')"
        assert browser.evaluate(f"[...new Set([...{faded}].map(e => e.dataset.line))]") == ["Gated-BEPO"]
    finally:
        choose(browser, "env", "")
        choose(browser, "method", "")


def shown_page(browser):
    return browser.evaluate("[...document.querySelectorAll('.page')].filter(p => !p.hidden).map(p => p.id)")


@at_the_desk
def test_one_page_is_shown_and_a_link_opens_the_page_of_its_target(browser):
    assert shown_page(browser) == ["overview"]
    try:
        browser.evaluate("location.hash = '#lab-bias.laptop'")
        browser.wait("!document.getElementById('lab').hidden")
        assert shown_page(browser) == ["lab"]
        assert browser.evaluate("document.querySelector('.pages a[aria-current]').hash") == "#lab"
        inside = "[...document.querySelectorAll('#lab > article')].map(a => a.id)"
        assert browser.evaluate(inside) == ["lab-bias.laptop", "lab-gate.laptop"]  # in the order of the page
    finally:
        browser.evaluate("location.hash = ''")
        browser.wait("!document.getElementById('overview').hidden")


@at_the_desk
def test_a_link_to_another_tier_than_the_chosen_one_shows_all_tiers(browser):
    table, chosen = (
        "document.getElementById('main-results.laptop')",
        "document.querySelector('input[name=tier]:checked')",
    )
    try:
        browser.evaluate(f"{table}.dataset.tier = 'desktop'")
        choose(browser, "env", "")
        assert browser.evaluate(f"{table}.hidden") and browser.evaluate(f"{chosen}.value") == "laptop"
        browser.evaluate("location.hash = '#main-results.laptop'")
        browser.wait(f"!{table}.hidden")
        assert browser.evaluate(f"{chosen}.value") == "all" and shown_page(browser) == ["methods"]
    finally:
        browser.evaluate(f"{table}.dataset.tier = 'laptop'")
        browser.evaluate("document.querySelector('input[name=tier][value=laptop]').click()")
        browser.evaluate("location.hash = ''")
        browser.wait("!document.getElementById('overview').hidden")


def test_the_first_page_says_whose_the_runs_are_and_leads_on(browser):
    first = browser.evaluate("document.getElementById('overview').innerText")
    assert "Published: 0 runs. Yours: 6" in first and "What this is" in first and "The question" in first
    links = browser.evaluate("[...document.querySelectorAll('#overview .links a')].map(a => a.href)")
    assert links and all(Path(unquote(urlparse(link).path)).exists() for link in links)
    boxes = "[...document.querySelectorAll('#overview .scroll, #overview .picture')]"
    wider = browser.evaluate(f"{boxes}.filter(box => box.scrollWidth > box.clientWidth + 1).length")
    assert wider == 0, "no part of it scrolls sideways, on a phone neither"


@at_the_desk
def test_a_click_on_a_heading_sorts_a_long_table(browser):
    column = "[...document.querySelectorAll('#runs tbody tr')].map(row => row.cells[{}].textContent)"
    head = "document.querySelectorAll('#runs thead th')[{}]"
    for place in (5, 6):  # training seed, success
        browser.evaluate(f"{head.format(place)}.click()")
        found = [float(text) for text in browser.evaluate(column.format(place))]
        assert found == sorted(found, reverse=True)
        browser.evaluate(f"{head.format(place)}.click()")
        assert [float(text) for text in browser.evaluate(column.format(place))] == sorted(found)


@at_the_desk
def test_the_pointer_shows_a_number(browser):
    browser.evaluate("document.querySelector('circle[data-line=HGPO]').dispatchEvent("
                     "new PointerEvent('pointerover', {bubbles: true, clientX: 300, clientY: 300}))")  # fmt: skip
    assert re.fullmatch(
        r"HGPO, update \d: 25 ± 0 \(n = 2\)", browser.evaluate("document.getElementById('tip').innerText")
    )


@at_the_desk
def test_a_run_is_a_link_to_its_row_and_a_filter_hides_the_row(browser):
    links = "[...document.querySelectorAll('#main-results\\\\.laptop p.runs a')].map(a => a.getAttribute('href'))"
    found = browser.evaluate(links)
    assert len(found) == 6 and all(
        browser.evaluate(f"Boolean(document.querySelector('tr[id=\"{a[1:]}\"]'))") for a in found
    )
    shown = "[...document.querySelectorAll('#runs tbody tr')].filter(r => !r.hidden).map(r => r.cells[2].textContent)"
    try:
        choose(browser, "env", "WebShop")
        assert browser.evaluate(shown) == ["WebShop"] * 2
    finally:
        choose(browser, "env", "")


@at_the_desk
def test_every_reused_part_of_a_picture_is_on_the_page(browser):
    lost = """[...document.querySelectorAll('.picture use, .picture [clip-path]')]
      .map(e => e.getAttribute('href') || e.getAttribute('clip-path').slice(4, -1))
      .filter(name => !document.querySelector(name))"""
    assert browser.evaluate("document.querySelectorAll('.picture use').length") and browser.evaluate(lost) == []


def test_nothing_is_loaded_and_the_names_stay_in_sight(browser):
    assert not browser.problems and all(r.startswith(("file:", "data:", "about:")) for r in browser.requests)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    browser.evaluate("location.hash = '#main-results.laptop'")
    browser.wait("!document.getElementById('methods').hidden")
    scrolled = browser.evaluate("""(() => {
      const box = document.querySelector('#main-results\\\\.laptop .scroll');
      box.scrollLeft = 200;
      const name = box.querySelector('td.name').getBoundingClientRect();
      return [name.left - box.getBoundingClientRect().left, box.scrollLeft];
    })()""")
    assert scrolled[0] >= -1 and (scrolled[0] < 2 or scrolled[1] == 0)


def test_figures_have_a_dark_form(browser):
    """Light and dark change places, so black axes are light on a dark page."""
    dark = browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    style = browser.evaluate("getComputedStyle(document.querySelector('.picture svg')).filter")
    assert ("invert(1)" in style) == dark

"""The paper's sources name only what exists; whether TeX takes them is for ``make paper``."""

import re
from pathlib import Path

import pytest

from analysis.data.reported import REPORTED
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table
from analysis.output.latex import PAGE, to_latex, to_macros
from bepo.store.published import PUBLISHED
from tests.tables import artefact_of

PAPER = Path(__file__).parents[2] / "paper"
SOURCES = {
    path.name: path.read_text(encoding="utf-8") for path in PAPER.glob("*.tex") if not path.name.startswith("macros.")
}
TEXT = re.sub(r"(?<!\\)%.*", "", "\n".join(SOURCES.values()))
NEED_RUNS = tuple(
    """
    share-of-headroom warm-starts findings parts lab-prediction lab-sampled crbc-depth blocks-losses
    state-deviation critic-lead
    """.split()
)
"""Tables whose facts need runs."""
DEFINED_BY = {"reported": "definereported", "reproduced": "definereproduced", "fact": "definefact"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Every table at tier paper, without runs."""
    return {label: artefact_of(tmp_path_factory.getbasetemp() / "none", label, "paper") for label in artefacts("table")}


def arguments(macro: str, text: str = TEXT) -> set[str]:
    return set(re.findall(rf"\\{macro}\{{([^}}#]*)\}}", text))


def test_it_holds_every_table_of_the_original_and_names_no_unknown_one():
    published = {path.stem for path in REPORTED.glob("*.csv")} - {"text", "reported-elsewhere"}
    named = arguments("generatedtable")
    assert published <= named <= published | set(artefacts())


@pytest.mark.slow
@pytest.mark.long
def test_every_number_that_the_text_names_is_defined(empty, tmp_path):
    of_runs = [artefacts()[label] for label in NEED_RUNS]
    published = Source(tmp_path, PUBLISHED)
    macros = to_macros([*empty.values(), *(item.build(item.load(published, "laptop")) for item in of_runs)])
    for used, defined in DEFINED_BY.items():
        names = {name.replace("/sokoban small/", "//") for name in arguments(used)}  # a block that only runs make
        assert names and names <= set(re.findall(rf"^\\{defined}\{{([^}}]*)\}}", macros, re.MULTILINE)), used


@pytest.mark.slow
def test_no_table_of_a_text_in_two_columns_is_a_longtable(empty):
    assert "twocolumn" in SOURCES["main.tex"]
    for label in arguments("generatedtable", SOURCES["main.tex"]):
        assert "{longtable}" not in to_latex(empty[label], label), label


def test_a_table_longer_than_a_page_goes_on_with_its_headings():
    values, headings = [[f"r{i}", str(i)] for i in range(PAGE)], ["first"] * 10 + ["second"] * (PAGE - 10)
    text = to_latex(Table("Long.", ["Row", "Number"], values, headings=headings), "long")
    assert text.count("\\begin{longtable}") == 1 and text.count("\\textit{second}") == 1
    rest = Table("Short.", ["Row", "Number"], values[8:], headings=headings[8:])
    assert "{longtable}" not in (text := to_latex(rest, "short")) and "\\textit{second}" in text


@pytest.mark.parametrize("name", ["main.tex", "supplement.tex"])
def test_references_and_citations_resolve(name):
    entries = re.findall(r"^@\w+\{([^,]+),", (PAPER / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) == len(set(entries))
    cited = {key for keys in re.findall(r"\\cite[pt]?\{([^}]*)\}", SOURCES[name]) for key in keys.split(",")}
    assert cited and cited <= set(entries)
    labels = arguments("label") | {f"tab:{t}" for t in arguments("generatedtable", SOURCES[name])}
    labels |= {f"fig:{f}" for f in arguments("generatedfigure", SOURCES[name])}
    assert set(re.findall(r"\\(?:eq)?ref\{([^}]*)\}", SOURCES[name])) <= labels


def test_every_entry_is_cited():
    entries = set(re.findall(r"^@\w+\{([^,]+),", (PAPER / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))
    assert entries == {key for keys in re.findall(r"\\cite[pt]?\{([^}]*)\}", TEXT) for key in keys.split(",")}


@pytest.mark.slow
def test_tables_without_runs_say_so(empty):
    with_entries = {label: table for label, table in empty.items() if table.entries}
    assert len(with_entries) > 10
    for label, table in with_entries.items():
        assert any("No complete run at tier paper." in note for note in table.notes), label
        assert not any(entry.reproduced for entry in table.entries), label


@pytest.mark.slow
def test_keys_of_numbers_are_names_that_tex_reads(empty):
    names = re.findall(r"^\\define\w+\{([^}]*)\}", to_macros(list(empty.values())), re.MULTILINE)
    assert names and not [name for name in names if re.search(r"[%#\\~]", name)]

"""The paper's sources name only what exists; whether TeX takes them is for ``make paper``."""

import re
from pathlib import Path

import pytest

from analysis.data.reported import REPORTED
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.latex import to_macros
from bepo.store.published import PUBLISHED

PAPER = Path(__file__).parents[2] / "paper"
SOURCES = {
    path.name: path.read_text(encoding="utf-8") for path in PAPER.glob("*.tex") if not path.name.startswith("macros.")
}
TEXT = re.sub(r"(?<!\\)%.*", "", "\n".join(SOURCES.values()))
DEFINED_BY = {"reported": "definereported", "reproduced": "definereproduced", "fact": "definefact"}


def arguments(macro: str, text: str = TEXT) -> set[str]:
    return set(re.findall(rf"\\{macro}\{{([^}}#]*)\}}", text))


def test_it_holds_every_table_of_the_original_and_names_no_unknown_one():
    published = {path.stem for path in REPORTED.glob("*.csv")} - {"text", "reported-elsewhere"}
    named = arguments("generatedtable")
    assert published <= named <= published | set(artefacts())


@pytest.mark.slow
def test_every_number_that_the_text_names_is_defined(tmp_path):
    tables = [item.build(item.load(Source(tmp_path), "paper")) for item in artefacts().values() if item.kind == "table"]
    of_runs = [artefacts()[label] for label in ("share-of-headroom", "warm-starts")]  # their facts need runs
    published = Source(tmp_path, PUBLISHED)
    macros = to_macros([*tables, *(item.build(item.load(published, "laptop")) for item in of_runs)])
    for used, defined in DEFINED_BY.items():
        names = {name.replace("/sokoban small/", "//") for name in arguments(used)}  # a block that only runs make
        assert names and names <= set(re.findall(rf"^\\{defined}\{{([^}}]*)\}}", macros, re.MULTILINE)), used


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
def test_keys_of_numbers_are_names_that_tex_reads(tmp_path):
    tables = [item.build(item.load(Source(tmp_path), "paper")) for item in artefacts().values() if item.kind == "table"]
    names = re.findall(r"^\\define\w+\{([^}]*)\}", to_macros(tables), re.MULTILINE)
    assert names and not [name for name in names if re.search(r"[%#\\~]", name)]

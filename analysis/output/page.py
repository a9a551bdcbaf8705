"""The report: one HTML file with every artefact and its provenance, in pages by question. It opens from disk."""

import csv
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from analysis.claims.verdicts import NOT_JUDGED, VERDICTS, Evaluated, tally
from analysis.data.methods import environment_name, known_environments, known_methods, name_of, ordered
from analysis.data.runs import Run, grouped
from analysis.data.titles import Page, number_of, pages, title_of
from analysis.grid.maths import plain, to_html
from analysis.grid.table import Printed, Table
from analysis.output.build import Built
from analysis.output.text import statistics
from bepo.core.places import PAPER

_FOLDER = FileSystemLoader(Path(__file__).parent)
_TABLES = {"text": "in-text"}  # the table that shows reported/text.csv
FIRST = "declared-claims"
"""What the first page shows."""
PRETRAINED = "desktop-claims"
"""What the first page sums up in a sentence."""
_REST = Page("more", "More", "What does not belong to one of these questions?", ())
_DOCS = {"README": "README.md", "tutorial": "docs/tutorial.md", "findings": "docs/findings.md"}
_DOCS |= {"declared claims": "docs/claims.md", "all docs": "docs/index.md"}
_LONG, _TALL = 8, 30  # rows: longer tables can be sorted, scroll inside of a box
_NARROW = 5  # columns: the parts of such a table stand side by side
_COLUMNS = ("entry", "reproduced", "std", "over", "seeds", "low", "high", "rival", "difference", "improvement")


def render(
    built: Sequence[Built],
    tiers: Sequence[str],
    source: str,
    claims: Mapping[str, Sequence[Evaluated]] | None = None,
    own: pd.DataFrame | None = None,
    complete: Sequence[Run] = (),
    out: Path | None = None,
    chosen: str = "",
) -> str:
    """Return the page.

    ``source``: where the runs come from. ``claims``: the evaluated claims of each tier. ``own``: rows of the ledger of
    the results folder, the newest first; ``complete``: its complete runs. ``out``: the folder of the page; links to
    README and docs start there. ``chosen``: the tier that is shown first; by default the last one.
    """
    html = Environment(loader=_FOLDER, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    html.filters |= {"maths": to_html, "plain": plain, "parts": _parts}
    html.globals |= {"title": title_of, "number": number_of, "environment": environment_name, "method_name": name_of}
    html.globals |= {"shown": _shown, "numbers": _numbers, "sortable": _sortable}
    html.globals |= {"tall": lambda table: len(table.rows) > _TALL, "of_yours": _of_yours}
    fixed = {item.label: item for item in built if not item.studies}  # equal at all tiers
    items = [item for item in built if item.studies or item is fixed[item.label]]
    about = {(item.label, item.tier): subject(item) for item in items}
    answers = [_answer(tier, evaluated, items) for tier, evaluated in (claims or {}).items()]
    named = {name for topic in about.values() for name in topic.methods}
    styles = _frequent_styles([item.svg for item in items])
    pictures = count()
    html.filters["shared"] = lambda svg: _in_page(svg, styles, next(pictures))
    behind = {run.id: run for item in items if item.studies for run in item.runs}
    every = {run.id: run for run in complete} | behind
    known = [name for name in map(name_of, ordered(known_methods())) if name in named]
    return html.get_template("page.html").render(
        tiers=list(tiers),
        chosen=chosen or (tiers[-1] if tiers else "all"),
        source=source,
        answers=answers,
        about=about,
        environments=sorted({name for topic in about.values() for name in topic.environments}),
        first=[item for item in items if item.label == FIRST],
        pretrained=[item for item in items if item.label == PRETRAINED and item.runs],
        pages=_pages(items),
        own=[] if own is None else own.to_dict("records"),
        links=_links(out),
        unpictured={NOT_JUDGED} if set(tiers) - {NOT_JUDGED} else set(),
        styles=styles,
        runs=sorted(every.values(), key=lambda run: (run.published, run.env, run.model, run.method, run.seed, run.id)),
        methods=[*known, *sorted(named - set(known))],
    )


def _pages(items: Sequence[Built]) -> list[tuple[Page, list[Built]]]:
    """Return the pages with what each shows; what no page names is on the last one."""
    shown = [page.shows for page in pages()]
    rest = [item for item in items if item.label != FIRST and not any(item.label in labels for labels in shown)]
    placed = [
        (page, sorted((item for item in items if item.label in page.shows), key=lambda i: page.shows.index(i.label)))
        for page in pages()
    ]
    return [*placed, *([(_REST, rest)] if rest else [])]


def _links(out: Path | None) -> dict[str, str]:
    """Return addresses of README and docs, relative to the page; a wheel has none of them."""
    files = {name: PAPER.parent / file for name, file in _DOCS.items()} if out else {}
    return {name: Path(os.path.relpath(file, out)).as_posix() for name, file in files.items() if file.exists()}


def _frequent_styles(svgs: Sequence[str]) -> dict[str, str]:
    """Return a class for each inline style that pictures repeat. It is shorter, and pages have many pictures."""
    counts = Counter(style for svg in svgs for style in re.findall(r'style="([^"]*)"', svg))
    return {style: f"s{n}" for n, (style, count) in enumerate(counts.most_common()) if count > 10}


def _in_page(svg: str, styles: Mapping[str, str], number: int) -> str:
    """Return a picture with the page's classes, and with IDs of its number on the page instead of its name."""
    svg = re.sub(r'(id="|#)[\w.-]+-(\d+[")])', rf"\1p{number}-\2", svg)
    return re.sub(r'style="([^"]*)"', lambda match: _class_of(match, styles), svg)


def _class_of(attribute: re.Match[str], styles: Mapping[str, str]) -> str:
    name = styles.get(attribute[1])
    return f'class="{name}"' if name else attribute[0]


def _parts(table: Table) -> list[list[tuple[int, str, Any]]]:
    """Return the lines of a table with their places: as one list, or of a narrow table one list for each heading."""
    parts: list[list[tuple[int, str, Any]]] = []
    apart = len(table.columns) <= _NARROW
    for place, (heading, row) in enumerate(table.lines):
        if not parts or (apart and heading):
            parts.append([])
        parts[-1].append((place, heading, row))
    return parts


def _sortable(table: Table) -> bool:
    """Return whether a table is long and each of its rows has a name."""
    return len(table.rows) > _LONG and all(row[table.named].text for row in table.rows)


def _of_yours(runs: Sequence[Run]) -> int:
    return sum(not run.published for run in runs)


def _shown(value: Printed) -> str:
    """Return a value as HTML."""
    return to_html(value.value) + value.mark if isinstance(value.value, str) else value.text


def _answer(tier: str, evaluated: Sequence[Evaluated], items: Sequence[Built]) -> dict[str, Any]:
    """Return the summary of a tier at the top of the page: its runs, and its claims by verdict."""
    items = [item for item in items if item.tier == tier]
    runs = {run.id: run for item in items for run in item.runs}.values()
    shown = {item.label for item in items}
    settings = grouped(runs, lambda run: str(run.settings))
    what = {
        "runs": len(runs),
        "environments": ", ".join(sorted({environment_name(run.env) for run in runs})),
        "methods": ", ".join(name_of(method) for method in ordered({run.preset for run in runs})),
        "seeds": max((len({run.seed for run in same}) for same in settings.values()), default=0),
    }
    facts = {name: text for item in items if item.table for name, text in item.table.facts.items()}
    verdicts = [text.split(" ")[0] for name, text in facts.items() if re.fullmatch(r"blocks/.*/verdict", name)]
    by_word = {word: [_line(e, shown) for e in evaluated if e.runs.word == word] for word in VERDICTS}
    return {
        "tier": tier,
        "what": what,
        "claims": by_word,
        "counts": tally(evaluated),
        "facts": facts,
        "declared": Counter(verdicts),
    }


def _line(e: Evaluated, shown: set[str]) -> dict[str, Any]:
    """Return a claim as a row: its text, the printed value, the reproduced value, and the tables behind it."""
    keys = [e.claim.entries[name] for name in e.claim.names]
    labels = {key[0] for key in keys}
    return {
        "id": e.claim.id,
        "text": e.claim.claim,
        "extension": e.claim.extension,
        "reported": e.reported,
        "said": e.said or "–",
        "p": f"{e.runs.tested.p:.2g}" if e.runs.tested else "–",
        "size": ", ".join(dict.fromkeys(size.word for size in e.runs.sizes)),
        "labels": sorted({_TABLES.get(label, label) for label in labels} & shown),
        "environments": environments_in(*(" ".join(key) for key in keys)) or environments_in(*map(title_of, labels)),
        "methods": sorted({name_of(row) for _, row, _, _ in keys if row in known_methods()}),
    }


def _numbers(table: Table) -> list[list[str]]:
    """Return a row of heads, and the statistics of the entries that have runs."""
    lines = csv.DictReader(statistics(table.entries).splitlines())
    return [list(_COLUMNS), *([_short(line[name]) for name in _COLUMNS] for line in lines if line["runs"])]


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


class Subject(NamedTuple):
    """The environments and the methods of an artefact."""

    environments: list[str]
    methods: list[str]


def subject(item: Built) -> Subject:
    """Return the environments and methods of an artefact, from its texts and from its runs."""
    texts, methods = [item.product.caption], {name_of(run.preset) for run in item.runs}
    if table := item.table:
        texts += [*table.names, *table.headings, *(value.text for row in table.rows for value in row[: table.left])]
        methods |= {method for method in table.methods if method}
    run = {environment_name(run.env) for run in item.runs}
    return Subject(sorted(run.union(environments_in(*texts))), sorted(methods))


def environments_in(*texts: str) -> list[str]:
    """Return the environments that texts name, by printed name or by setting."""
    words = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
    names = {env: environment_name(env) for env in known_environments()}
    return sorted({name for env, name in names.items() if words & {env.lower(), name.lower()}})

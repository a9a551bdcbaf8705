"""The subject of an artefact, for the filters of the page: environments and methods by printed names."""

import re
from typing import NamedTuple

from analysis.data.methods import environment_name, known_environments, name_of
from analysis.output.build import Built


class Subject(NamedTuple):
    """The environments and the methods of an artefact."""

    environments: list[str]
    methods: list[str]


def subject(item: Built) -> Subject:
    """Return the environments and methods of an artefact, from its texts and from its runs."""
    texts, methods = [item.product.caption], {name_of(run.method) for run in item.runs}
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

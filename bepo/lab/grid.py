"""The learning grid: every credit setting of studies, learned in the lab and kept in one table that can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bepo.core.errors import UserError
from bepo.core.settings import identity
from bepo.credit import Estimator
from bepo.lab.learn import Curve
from bepo.lab.words import obstacle
from bepo.runs.config import METHOD_VERSION
from bepo.store.files import Corrupt, digest, read_bytes, write_output
from bepo.store.locks import locked
from bepo.sweep.studies import compose_study

LAB_VERSION = 1
"""Version of the lab's own code. Raise it when the same settings give other learning curves."""
MEASURED = ("training", "final", "before")
"""Success in training, averaged over all updates; exact success on the test worlds after and before it. The table also
has the column ``curve``: success in training by update, separated by blanks."""
_COLUMNS = ("digest", "estimator", "method_version", "seed", *MEASURED)


def credits_of(studies: Iterable[str]) -> dict[str, Estimator]:
    """Return the distinct credit settings of the cells of studies, by the words that ``credit_words`` returns.

    Evaluations and Optuna studies are left out: the first have no credit, the second no list of cells.
    """
    found: dict[str, Estimator] = {}
    for name in studies:
        study = compose_study(name)
        if not study.is_tuning:
            trained = (config.credit for _, config in study.configured if not config.is_evaluation)
            found |= {credit_words(credit): credit for credit in trained}
    return found


def credit_words(credit: Estimator) -> str:
    """Return an estimator as the command line takes it: its name, and every setting that is not the default."""
    default = type(credit)()
    changed = {item.name: vars(credit)[item.name] for item in fields(credit) if item.name != "name"}
    changed = {name: value for name, value in changed.items() if value != vars(default)[name]}
    return " ".join([credit.name, *(f"{name}={_plain(value)}" for name, value in changed.items())])


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class Grid:
    """The table of a grid: a CSV file with a row for each estimator and seed. ``digest`` says what made a row."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Read what is there. ``settings`` are those of the lab. Raises ``UserError`` for a file of another kind."""
        self.path, self.settings = path, {f"lab.{name}": value for name, value in settings.items()}
        self.rows: pd.DataFrame = _read(path)

    def digest_of(self, credit: Estimator) -> str:
        """Return the digest of lab settings, estimator settings and method versions as 16 hex digits."""
        versions = {"lab": LAB_VERSION, "run": METHOD_VERSION, "credit": credit.method_version}
        content = {"lab": self.settings, "credit": identity(credit), "versions": versions}
        return digest(json.dumps(content, sort_keys=True), 16)

    def missing(self, credits: Mapping[str, Estimator]) -> dict[str, Estimator]:
        """Return the estimators without rows."""
        known = set(self.rows["digest"])
        return {name: credit for name, credit in credits.items() if self.digest_of(credit) not in known}

    def add(self, name: str, credit: Estimator, curve: Curve) -> None:
        """Add the rows of an estimator and write the file, all rows or none. Rows of other processes are kept."""
        curves = [" ".join(f"{x:.4g}" for x in of_seed) for of_seed in curve.training.T]
        measured = {"training": curve.training.mean(0), "final": curve.final, "before": curve.before, "curve": curves}
        made_by = {"digest": self.digest_of(credit), "estimator": name, "method_version": credit.method_version}
        new = pd.DataFrame({**made_by, "seed": range(len(curve.final)), **measured, **self.settings})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".lock")):
            others = _read(self.path)
            others = others.loc[others["digest"] != made_by["digest"]]
            self.rows = pd.concat([others, new], ignore_index=True) if len(others) else new
            write_output(self.path, self.rows.to_csv(index=False))

    def of(self, credits: Mapping[str, Estimator]) -> pd.DataFrame:
        """Return estimator, seed and what was measured of these estimators, the fastest learner first."""
        digests = [self.digest_of(credit) for credit in credits.values()]
        rows = self.rows.loc[self.rows["digest"].isin(digests), ["estimator", "seed", *MEASURED]]
        speed = rows.groupby("estimator")["training"].transform("mean")
        return rows.iloc[np.argsort(-speed.to_numpy(float), kind="stable")]


def applicable(credits: Mapping[str, Estimator]) -> tuple[dict[str, Estimator], Sequence[str]]:
    """Return the estimators that the lab can apply, and the names of the others."""
    usable = {n: credit for n, credit in credits.items() if not obstacle(credit)}
    return usable, [name for name in credits if name not in usable]


def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        return pd.DataFrame(columns=list(_COLUMNS))
    try:
        text = read_bytes(path, "table of the grid").decode()
        rows = pd.read_csv(StringIO(text), float_precision="round_trip", dtype={"digest": str}, keep_default_na=False)
    except Corrupt:
        raise
    except ValueError as error:  # the decoder's and the parser's errors
        raise UserError(f"{path}: not a table of the grid ({error})") from None
    if missing := [column for column in _COLUMNS if column not in rows]:
        raise UserError(f"{path}: not a table of the grid, it has no column {missing[0]}; choose another --out")
    return rows

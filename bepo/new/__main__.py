"""``python -m bepo.new KIND NAME``: write a small package with an estimator, environment, loss, study or table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bepo import __version__
from bepo.core.errors import Parser, UserError, exit_code, path_of, unknown_choice
from bepo.credit import estimators
from bepo.envs import environments
from bepo.losses import losses
from bepo.sweep.studies import study_names

_TEMPLATES = Path(__file__).parent / "templates"
_PLACES = {
    "estimator": "{name}/estimator.py",
    "environment": "{name}/environment.py",
    "loss": "{name}/loss.py",
    "study": "{name}/experiments/{name}.yaml",
    "table": "{name}/tables.py",
}
"""The file of each kind of plug-in in its package."""
_TAKEN: dict[str, Callable[[], Collection[str]]] = {
    "estimator": estimators,
    "environment": environments,
    "loss": losses,
    "study": study_names,
}


@dataclass(frozen=True)
class Package:
    """A package to write."""

    kind: str
    name: str
    folder: Path
    template: str = ""
    """Template of the plug-in; empty: that of its kind."""

    def check(self) -> None:
        """Raise ``UserError`` for an unknown kind, a name that Python or bepo cannot use, and an existing folder."""
        if self.kind not in _PLACES:
            raise unknown_choice("kind of plug-in", self.kind, _PLACES)
        if not self.name.isidentifier() or not self.name.islower() or iskeyword(self.name):
            raise UserError(f"{self.name}: must be the name of a Python module in lower case, such as my_{self.kind}")
        if self.folder.exists():
            raise UserError(f"{self.folder}: exists already; choose another name")
        if self.name in _TAKEN.get(self.kind, tuple)() or find_spec(self.name):
            raise UserError(f"{self.name}: is taken by another {self.kind} or module; choose another name")

    def write(self) -> None:
        """Write the files of the package."""
        jinja = Environment(loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True)
        words = {"name": self.name, "kind": self.kind, "title": "".join(map(str.title, self.name.split("_")))}
        files = {
            "pyproject.toml": "pyproject.toml",
            f"{self.name}/__init__.py": "package.py",
            _PLACES[self.kind].format(name=self.name): (self.template or self.kind) + Path(_PLACES[self.kind]).suffix,
            f"tests/test_{self.name}.py": f"test_{self.kind}.py",
        }
        for place, template in files.items():
            path = self.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            text = jinja.get_template(f"{template}.jinja").render(words, version=__version__)
            path.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line about the fault."""
    parser = Parser(prog="python -m bepo.new", description=__doc__)
    parser.add_argument("kind", metavar="KIND", help=", ".join(_PLACES))
    parser.add_argument("name", metavar="NAME", help="the name of the plug-in and of its package")
    parser.add_argument("--in", dest="place", type=path_of, default=Path(), metavar="FOLDER", help="default: here")
    parser.add_argument("--optuna", action="store_true", help="a study that searches with Optuna, not a grid")
    options = parser.parse_args(arguments)
    if options.optuna and options.kind != "study":
        parser.error(f"--optuna: is for a study, not for kind {options.kind}")
    template = "study_optuna" if options.optuna else ""
    return exit_code(lambda: _new(Package(options.kind, options.name, options.place / options.name, template)))


def _new(package: Package) -> None:
    package.check()
    try:
        package.write()
    except OSError as error:
        raise UserError(f"{package.folder}: cannot be written ({error.strerror})") from error
    use = {
        "estimator": f"bepo train credit={package.name}",
        "environment": f"bepo train env={package.name}",
        "loss": f"bepo train loss={package.name}",
        "study": f"bepo sweep {package.name} --dry-run",
        "table": f"bepo analysis {package.name.replace('_', '-')}",
    }[package.kind]
    print(
        f"{package.folder / _PLACES[package.kind].format(name=package.name)}\n"
        f"cd {package.folder}; python -m pytest    # its contract tests\n"
        f"pip install --no-deps -e .           # then everything knows it: {use}\n"
        f"export BEPO_PLUGINS={(package.folder / package.name).absolute()}    # the same without an installation"
    )


if __name__ == "__main__":
    sys.exit(main())

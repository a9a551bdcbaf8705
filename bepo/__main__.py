"""``bepo COMMAND ...``, or ``python -m bepo COMMAND ...``: the commands of bepo under one name.

``bepo train credit=grpo`` is ``python -m bepo.train credit=grpo``, and ``bepo analysis`` is ``python -m analysis``.
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

from bepo import __version__
from bepo.complete import commands
from bepo.complete import main as complete
from bepo.core.errors import exit_code, unknown_choice

_COMPLETION = r"""_bepo() {
  local IFS=$'\n' line=${COMP_LINE:0:$COMP_POINT} cut=
  local word=${line##* }
  case $COMP_WORDBREAKS in *=*) cut=${word%"${word##*=}"} ;; esac
  COMPREPLY=($(bepo complete "${line#* }"))
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o nospace -o default -F _bepo bepo"""
"""Completion for bash, and for zsh with ``bashcompinit``. Bash replaces the text after the last ``=``, zsh the whole
word."""


def main() -> int:
    """Run the named command. Return 0 after the list of commands, or 2 for an unknown command."""
    name, *arguments = sys.argv[1:] or ["--help"]
    known = commands()
    if name in ("--help", "-h", "help", "--completion"):
        return exit_code(lambda: print(_COMPLETION if "--c" in name else _help()))
    if name in ("--version", "-V"):
        print(f"bepo {__version__}")
        return 0
    if name not in known:
        print(f"error: {unknown_choice('command', name, known)}", file=sys.stderr)
        return 2
    if name == "complete":  # imported already: runpy would print a warning into the line that is being typed
        return complete(arguments)
    module = name if name == "analysis" else f"bepo.{name}"
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # during its imports
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _help() -> str:
    titles = "\n".join(f"  {command:9} {_title(path)}" for command, path in commands().items())
    return (
        f"bepo COMMAND ...\n\n{titles}\n\n"
        "`bepo COMMAND --help` prints the options. `python -m bepo.COMMAND` runs the same command.\n"
        'Completion in bash or zsh: eval "$(bepo --completion)"'
    )


def _title(path: Path) -> str:
    """Return the first line of a command's docstring without the command itself. The module is not imported."""
    first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]
    title = first.rpartition("``: ")[2] if first.startswith("``") else first.partition(": ``")[0]
    return title[:1].upper() + title[1:].rstrip(".")


if __name__ == "__main__":
    sys.exit(main())

"""Text files are UTF-8 on every machine: ruff's PLW1514 checks paths whose type it knows, this checks all calls."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [path for part in ("bepo", "analysis", "benchmarks", "tests") for path in (ROOT / part).rglob("*.py")]
TEXT_AT = {"read_text": 0, "write_text": 1}
"""The number of positional arguments of each method that come before its encoding."""


def without_encoding(source: str) -> list[int]:
    """Return the lines of the calls that read or write text and leave its encoding to the locale."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of_process = name in ("run", "Popen", "check_output") and any(word.arg == "text" for word in node.keywords)
        if of_process or (name in TEXT_AT and len(node.args) == TEXT_AT[name]):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("call", ["p.read_text()", "p.write_text(x)", "run(x, text=True)"])
def test_a_call_without_an_encoding_is_seen(call):
    assert without_encoding(f"\n{call}") == [2]
    assert not without_encoding(call.replace(")", ", encoding='utf-8')").replace("(, ", "("))


def test_text_files_say_their_encoding():
    found = {path: without_encoding(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not {str(path): lines for path, lines in found.items() if lines}

"""Mathematics in texts of tables: between dollar signs, in Unicode letters, such as ``$η(ρ) A^out + w ρ A^FP$``.

``_`` and ``^`` make the next word a subscript or a superscript.
"""

import re
from collections.abc import Callable

from markupsafe import Markup, escape

_MATHS = re.compile(r"\$(?!\s)([^$\n\\{}#%&~]+)(?<!\s)\$(?!\d)")  # no TeX commands: the text may come from a run
_RAISED = re.compile(r"([_^])(\w+)")
_TAGS = {"_": "sub", "^": "sup"}


def plain(text: str) -> str:
    """Return a text without its dollar signs."""
    return _MATHS.sub(r"\1", text)


def to_html(text: str) -> Markup:
    """Return a text as HTML."""
    parts = _MATHS.split(text)  # every other part is mathematics
    return Markup("").join(_tagged(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def to_tex(text: str, escaped: Callable[[str], str], letters: dict[str, str]) -> str:
    """Return a text as TeX. ``escaped`` converts plain text; ``letters`` has the TeX commands of Unicode letters."""
    parts = _MATHS.split(text)
    return "".join(f"${_in_tex(part, letters)}$" if i % 2 else escaped(part) for i, part in enumerate(parts))


def _tagged(maths: str) -> Markup:
    text = _RAISED.sub(lambda m: f"<{_TAGS[m[1]]}>{m[2]}</{_TAGS[m[1]]}>", str(escape(maths)))
    return Markup(f'<span class="maths">{text}</span>')


def _in_tex(maths: str, letters: dict[str, str]) -> str:
    named = "".join(f"{letters[c]} " if c in letters else c for c in maths)
    return _RAISED.sub(r"\1{\\mathrm{\2}}", named)

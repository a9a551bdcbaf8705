"""Short SVGs of the page: what is left out, and that lines stay where they were."""

import re

from analysis.output.pictures import slim

_SVG = """<svg xmlns:xlink="http://x"><metadata><a/></metadata>
<g>
<g data-line="HGPO">
<path d="M 10.04 20.06
L 12.36 20.06
L 12.31 7.99
C 1.11 2.22 3 4 5 6
z
" style="fill: none; font-family: 'DejaVu'"/>
</g>
<use xlink:href="#m" x="3.14159" y="-0.004"/>
<text x="1.0" y="2.0" transform="rotate(-0 1.0 2.0)">two words</text>
<text transform="rotate(-90 1.0 2.0)">up</text>
</g>
</svg>"""


def test_only_what_nobody_sees_is_left_out():
    short = slim(_SVG)
    for gone in ("metadata", "xlink", "font-family", "<g>", "rotate(-0", "\n"):
        assert gone not in short
    for kept in ('<g data-line="HGPO">', 'href="#m" x="3.1" y="0"', ">two words<", "rotate(-90 1.0 2.0)", "fill: none"):
        assert kept in short
    assert short.count("<g") == short.count("</g>") == 1


def test_relative_lines_end_where_the_absolute_ones_did():
    data = re.findall(r' d="([^"]*)"', slim(_SVG))[0]
    assert data == "M10 20.1l2.4 0l-0.1 -12.1C1.1 2.2 3 4 5 6z"  # 10.0 + 2.4 = 12.4, 12.4 - 0.1 = 12.3

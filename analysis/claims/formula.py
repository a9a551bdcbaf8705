"""Formulas of claims: plain inequalities joined by "and" and "or", so that each inequality can be tested.

* ``ours > max(a, b)`` becomes ``ours > a and ours > b``.
* ``max(x - a, y - b) > 0`` becomes ``x > a or y > b``.
* ``a < b < c`` becomes ``a < b and b < c``.
* ``similar(a, b, margin=3)`` becomes ``a < b + 3 and b < a + 3``, an equivalence test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import sympy

from analysis.claims.expression import Expression, ExpressionError


@dataclass(frozen=True)
class Inequality:
    """``quantity`` > 0, where the quantity is a sum of terms, each times its coefficient, and a constant."""

    quantity: Expression

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """The coefficient of each term."""
        return self.quantity.gradient(dict.fromkeys(self.quantity.terms, 0.0))

    @property
    def constant(self) -> float:
        """The value of the quantity if every term is 0."""
        return self.quantity(dict.fromkeys(self.quantity.terms, 0.0))

    @property
    def of_spread(self) -> bool:
        """Whether it compares the deviations of two entries."""
        return self.is_difference and all(term.endswith(".std") for term in self.coefficients)

    @property
    def is_difference(self) -> bool:
        """Whether it only says that one term is greater than another."""
        return sorted(self.coefficients.values()) == [-1.0, 1.0] and self.constant == 0

    def __str__(self) -> str:
        sides: tuple[list[str], list[str]] = ([], [])
        parts = {**self.coefficients, "": self.constant}
        for term, coefficient in sorted(parts.items()):
            size = f"{abs(coefficient):g}"
            text = size if not term else term if size == "1" else f"{size} * {term}"
            if coefficient:
                sides[coefficient < 0].append(text)
        return " > ".join(" + ".join(side) or "0" for side in sides)


@dataclass(frozen=True)
class Joined:
    """Several formulas, joined by "and" or by "or"."""

    word: str  # "and" or "or"
    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        texts = [f"({part})" if isinstance(part, Joined) else str(part) for part in self.parts]
        return f" {self.word} ".join(texts)


Formula = Inequality | Joined


def inequalities(formula: Formula) -> Iterator[Inequality]:
    """Yield every inequality of a formula."""
    for part in formula.parts if isinstance(formula, Joined) else ():
        yield from inequalities(part)
    if isinstance(formula, Inequality):
        yield formula


@dataclass(frozen=True)
class Relation:
    """``left > right``, or ``left < right`` if the right side is a number.

    The sign "=" means one quantity printed twice; "~" means equivalence within ``margin``.
    """

    left: Expression
    sign: str
    right: Expression
    margin: float = 0.0

    @cached_property
    def difference(self) -> Expression:
        """The left side minus the right one."""
        right = f"({self.right.text})" if re.search(r" [+-] ", self.right.text) else self.right.text
        return Expression(self.left.algebra - self.right.algebra, f"{self.left.text} - {right}")

    @property
    def size(self) -> Expression:
        """The quantity whose size the claim states: the difference of both sides, or the left side of a bound."""
        return self.left if not self.right.terms else self.difference

    @cached_property
    def formula(self) -> Formula:
        """The comparison as inequalities. Raises ``ExpressionError`` if they are not linear."""
        difference, margin = self.difference.algebra, sympy.Rational(str(self.margin))
        if self.sign == "~":
            return _joined("and", [_positive(margin - difference), _positive(margin + difference)])
        return _positive(difference if self.sign == ">" else -difference)


@cache  # a formula costs milliseconds, and claims repeat it
def comparisons(text: str) -> tuple[Relation, ...]:
    """Read ``a > b``, ``a < b < c``, ``a == b`` or ``similar(a, b, margin=3)``. Raises ``ExpressionError``."""
    try:
        node = ast.parse(str(text), mode="eval").body
    except SyntaxError:
        raise ExpressionError(f"{text!r} is not a comparison") from None
    match node:
        case ast.Call(
            func=ast.Name(id="similar"),
            keywords=[ast.keyword(arg="margin", value=ast.Constant(int() | float() as margin))],
        ):
            sides = map(Expression.of, node.args)
            return tuple(Relation(a, "~", b, float(margin)) for a, b in combinations(sides, 2))
        case ast.Compare() if all(type(op) in _SIGNS for op in node.ops):
            sides = [Expression.of(side) for side in (node.left, *node.comparators)]
            return tuple(_comparison(a, _SIGNS[type(op)], b) for a, op, b in zip(sides, node.ops, sides[1:]))
    raise ExpressionError(f"{text!r}: a claim is a > b, a < b, a == b, or similar(a, b, margin=3)")


_SIGNS = {ast.Gt: ">", ast.Lt: "<", ast.Eq: "="}


def _comparison(left: Expression, sign: str, right: Expression) -> Relation:
    """Return the comparison with the greater side on the left, or with a number on the right."""
    turned = left.terms == frozenset() or (sign == "<" and bool(right.terms))
    other = {">": "<", "<": ">", "=": "="}[sign]
    return Relation(right, other, left) if turned else Relation(left, sign, right)


def conjunction(of: Sequence[Relation]) -> Formula:
    """Return the formula that every comparison holds."""
    return _joined("and", [comparison.formula for comparison in of])


def _joined(word: str, parts: list[Formula]) -> Formula:
    flat = [p for part in parts for p in (part.parts if isinstance(part, Joined) and part.word == word else (part,))]
    return flat[0] if len(flat) == 1 else Joined(word, tuple(flat))


def _positive(algebra: Any) -> Formula:
    """Return ``algebra > 0`` without min and max, and without fractions."""
    extremes = sorted(algebra.atoms(sympy.Min, sympy.Max), key=lambda node: (-node.count(sympy.Symbol), str(node)))
    if not extremes:
        return Inequality(Expression(_numerator(algebra)))
    extreme, stand_in = extremes[0], sympy.Dummy()
    slope = sympy.diff(algebra.xreplace({extreme: stand_in}), stand_in)
    if not slope.is_number:
        raise ExpressionError(f"{extreme}: min and max must not be multiplied by a measured term")
    word = "or" if (slope > 0) == isinstance(extreme, sympy.Max) else "and"
    return _joined(word, [_positive(algebra.xreplace({extreme: term})) for term in sorted(extreme.args, key=str)])


def _numerator(algebra: sympy.Expr) -> sympy.Expr:
    """Return a sum that is positive exactly if ``algebra`` is, assuming positive terms (shares, seconds, norms).

    The smallest coefficient of a term is 1 or -1, so that a constant has the unit of the term.
    """
    above, below = sympy.fraction(sympy.together(algebra))
    above, below = sympy.expand(above), sympy.expand(below)
    if any(part.as_coeff_Mul()[0] < 0 for part in below.as_ordered_terms()):
        raise ExpressionError(f"{algebra}: the sign of {below} is not known")
    terms = sorted(above.free_symbols, key=str)
    if terms and sympy.Poly(above, *terms).total_degree() > 1:
        raise ExpressionError(f"{algebra} is not a sum of terms, each times a number")
    return sympy.expand(above / min((abs(above.coeff(term)) for term in terms), default=1))

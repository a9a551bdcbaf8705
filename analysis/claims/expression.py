"""Arithmetic expressions of ``paper/claims.yaml``, such as ``100 * a / (a + b)`` and ``min(a, b) - c.std``."""

import ast
import operator
from collections.abc import Iterable, Mapping
from math import nan, prod

import sympy

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_FUNCTIONS = {"min": sympy.Min, "max": sympy.Max}


class ExpressionError(ValueError):
    """The text is not a valid expression."""


class Expression:
    """Numbers, names, ``name.std``, + - * / and min, max. Division by zero gives nan.

    ``terms``: the names and ``name.std``s in the expression. ``algebra``: the expression in sympy.
    """

    def __init__(self, algebra: sympy.Expr, text: str = "") -> None:
        self.algebra, self.text = algebra, text or str(algebra)
        self.terms = frozenset(map(str, algebra.free_symbols))
        self.names = {term.removesuffix(".std") for term in self.terms}

    @classmethod
    def read(cls, text: str | float) -> "Expression":
        """Read a text. Raises ``ExpressionError`` for anything else."""
        try:
            return cls.of(ast.parse(str(text), mode="eval").body)
        except SyntaxError:
            raise ExpressionError(f"{text!r} is not an expression") from None

    @classmethod
    def of(cls, node: ast.AST) -> "Expression":
        """Return the expression of a parsed text. Raises ``ExpressionError``."""
        algebra, text = _algebra(node), ast.unparse(node)
        if algebra.has(sympy.zoo, sympy.nan):
            raise ExpressionError(f"{text!r} divides by zero")
        return cls(algebra, text)

    def __call__(self, values: Mapping[str, float]) -> float:
        """Return its value, given a number for each of ``terms``."""
        return self._differentiated(values)[0]

    def gradient(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the derivative by each term. Terms that tie in min or max share it equally."""
        slopes = self._differentiated(values)[1]
        return {term: slopes.get(term, 0.0) for term in sorted(self.terms)}

    def _differentiated(self, values: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        try:
            return _differentiate(self.algebra, values)
        except ZeroDivisionError:
            return nan, dict.fromkeys(self.terms, nan)


def _algebra(node: ast.AST) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return sympy.Rational(str(number))
        case ast.Name(id=name):
            return sympy.Symbol(name)
        case ast.Attribute(value=ast.Name(id=name), attr="std"):
            return sympy.Symbol(f"{name}.std")
        case ast.UnaryOp(op=ast.USub()):
            return -_algebra(node.operand)
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](_algebra(node.left), _algebra(node.right))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
            return _FUNCTIONS[name](
                *map(_algebra, node.args), evaluate=False
            )  # evaluation compares all terms, which takes seconds
    raise ExpressionError(f"{ast.unparse(node)!r}: only numbers, names, name.std, + - * / and min, max")


def _differentiate(node: sympy.Basic, values: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """Return the value and the derivatives.

    Sympy would need seconds for the derivative of a max of a dozen terms.
    """
    if isinstance(node, sympy.Symbol):
        return values[str(node)], {str(node): 1.0}
    if isinstance(node, sympy.Number):
        return float(node), {}
    parts = [_differentiate(part, values) for part in node.args]
    numbers = [value for value, _ in parts]
    if isinstance(node, sympy.Add):
        return sum(numbers), _sum((1.0, slopes) for _, slopes in parts)
    if isinstance(node, sympy.Mul):
        others = [prod(numbers[:i] + numbers[i + 1 :]) for i in range(len(numbers))]
        return prod(numbers), _sum((other, slopes) for other, (_, slopes) in zip(others, parts))
    if isinstance(node, sympy.Pow):  # a quotient: the power is a whole number
        (base, slopes), (power, _) = parts
        return base**power, _sum([(power * base ** (power - 1), slopes)])
    extreme = max(numbers) if isinstance(node, sympy.Max) else min(numbers)
    chosen = [slopes for value, slopes in parts if value == extreme]
    return extreme, _sum((1 / len(chosen), slopes) for slopes in chosen)


def _sum(parts: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for factor, slopes in parts:
        for term, slope in slopes.items():
            total[term] = total.get(term, 0.0) + factor * slope
    return total

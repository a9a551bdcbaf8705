"""Arithmetic on named quantities, as ``paper/claims.yaml`` writes it: ``100 * a / (a + b)``, ``min(a, b) - c.std``."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from math import nan

import sympy

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_FUNCTIONS = {"min": sympy.Min, "max": sympy.Max}


# The step function is in the derivatives of min and max.
_MODULES = [{"Heaviside": lambda x, _: 0.5 + (x > 0) / 2 - (x < 0) / 2}, "math"]


class ExpressionError(ValueError):
    """The text is no such arithmetic."""


class Expression:
    """Numbers, names, ``name.std``, + - * / and min, max; a division by zero is nan.

    ``terms`` are the names and ``name.std``s that it is made of. Raises ``ExpressionError`` for anything else.
    """

    def __init__(self, text: str | float) -> None:
        self.text = str(text)
        try:
            algebra = self._read(ast.parse(self.text, mode="eval").body)
        except SyntaxError:
            raise ExpressionError(f"{self.text!r} is not an expression") from None
        self._terms, self._functions = _compiled(algebra)
        self.terms = frozenset(self._terms)
        self.names = {term.removesuffix(".std") for term in self.terms}

    def __call__(self, values: Mapping[str, float]) -> float:
        """Return its value, given a number for each of ``terms``."""
        return self._numbers(values)[0]

    def gradient(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the derivative by each term; where two are the least, or the greatest, each counts half."""
        return dict(zip(self._terms, self._numbers(values)[1:]))

    def _numbers(self, values: Mapping[str, float]) -> list[float]:
        try:
            return self._functions(*(values[term] for term in self._terms))
        except ZeroDivisionError:
            return [nan] * (1 + len(self._terms))

    def _read(self, node: ast.AST) -> sympy.Expr:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return sympy.Float(number)
            case ast.Name(id=name):
                return sympy.Symbol(name)
            case ast.Attribute(value=ast.Name(id=name), attr="std"):
                return sympy.Symbol(f"{name}.std")
            case ast.UnaryOp(op=ast.USub()):
                return -self._read(node.operand)
            case ast.BinOp() if type(node.op) in _OPERATIONS:
                return _OPERATIONS[type(node.op)](self._read(node.left), self._read(node.right))
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
                return _FUNCTIONS[name](*map(self._read, node.args))
        raise ExpressionError(f"{self.text!r}: only numbers, names, name.std, + - * / and min, max")


@cache
def _compiled(algebra: sympy.Expr) -> tuple[list[str], Callable[..., list[float]]]:
    """Return the terms, and a function of their values that returns the value and the derivatives by each term."""
    symbols = sorted(algebra.free_symbols, key=str)
    functions = [algebra, *(algebra.diff(symbol) for symbol in symbols)]
    return list(map(str, symbols)), sympy.lambdify(symbols, functions, _MODULES)

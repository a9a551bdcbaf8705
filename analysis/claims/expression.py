"""Arithmetic on named quantities, as ``paper/claims.yaml`` writes it: ``100 * a / (a + b)``, ``min(a, b) - c.std``."""

import ast
import operator
from collections.abc import Mapping
from math import nan

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_OPERATIONS |= {ast.Div: lambda a, b: a / b if b else nan}
_FUNCTIONS = {"min": min, "max": max}
_STEP = 1e-6


class ExpressionError(ValueError):
    """The text is no such arithmetic."""


class _Ones(dict[str, float]):
    """A value for every name that is asked for; afterwards its keys are these names."""

    def __missing__(self, name: str) -> float:
        return self.setdefault(name, 1.0)


class Expression:
    """Numbers, names, ``name.std``, + - * / and min, max; a division by zero is nan.

    ``terms`` are the names and ``name.std``s that it is made of. Raises ``ExpressionError`` for anything else.
    """

    def __init__(self, text: str | float) -> None:
        self.text, found = str(text), _Ones()
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            raise ExpressionError(f"{self.text!r} is not an expression") from None
        self(found)
        self.terms = frozenset(found)
        self.names = {term.removesuffix(".std") for term in found}

    def __call__(self, values: Mapping[str, float]) -> float:
        """Return its value, given a number for each of ``terms``."""
        return self._value(self._tree, values)

    def gradient(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the derivative by each term, by central differences: exact for sums, first order otherwise."""
        out = {}
        for term in sorted(self.terms):
            step = _STEP * max(1.0, abs(values[term]))
            up, down = (self({**values, term: values[term] + sign * step}) for sign in (1, -1))
            out[term] = (up - down) / (2 * step)
        return out

    def _value(self, node: ast.AST, values: Mapping[str, float]) -> float:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return float(number)
            case ast.Name(id=name):
                return values[name]
            case ast.Attribute(value=ast.Name(id=name), attr="std"):
                return values[f"{name}.std"]
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, values)
            case ast.BinOp() if type(node.op) in _OPERATIONS:
                return _OPERATIONS[type(node.op)](self._value(node.left, values), self._value(node.right, values))
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
                return _FUNCTIONS[name](self._value(a, values) for a in node.args)
        raise ExpressionError(f"{self.text!r}: only numbers, names, name.std, + - * / and min, max")

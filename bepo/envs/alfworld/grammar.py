"""The grammar of a game (``.twl2``): templates of commands and feedback, derived as textworld derives them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from bepo.core.errors import UserError
from bepo.envs.alfworld.limits import MOST_RULES, Counter, check_size
from bepo.envs.alfworld.pddl import Unsupported
from bepo.envs.alfworld.queries import Context, Query, parse_query

Part = Callable[[Context], str]
"""A compiled part of a template: a function that derives its text."""

# Atomic groups (?>...) and possessive repetition *+: otherwise unclosed quotes would take exponential time.
_STRING = r"(?>\"\"\"(?>(?:(?!\"\"\")(?:.|\n))*+)\"\"\"|\"[^\"]*\")"
_ACTION = re.compile(rf"action\s+([\w/-]+)\s*\{{((?>{_STRING}|[^\"}}])*+)\}}")
_FIELD = re.compile(rf"(template|feedback|grammar)\s*::\s*({_STRING})\s*;")
_TOP = re.compile(rf"^grammar\s*::\s*(?=\"\"\")({_STRING})\s*;", re.MULTILINE)
_ATTRIBUTES = ("name", "id", "indefinite", "definite")
_LEADING = re.compile(r"//.*\n?|\s+")
_SYMBOL = re.compile(
    r"\[\{(?P<item>#[^#]*#|[^|\[\]{}\n<>]++)(?:\s*+\|\s{0,99}(?P<item_query>[^;|{}\n\[\]#]++))?\}\]"
    r"|\{(?P<value>#[^#]*#|[^|\[\]{}\n<>]++)(?:\s*+\|\s{0,99}(?P<value_query>[^;|{}\n\[\]#]++))?\}"
    r"|#(?P<rule>[\w()/!<>\-\s,.]+)#"
    r"|(?P<text>[^;|\"<>\[\]#{}]+)"
)


class ForeignExpression(UserError):
    """An expression in a game's grammar that is more than object names and strings, and so could run any code."""

    def __init__(self, expression: str) -> None:
        super().__init__(
            f"a game's grammar has the expression {{{expression:.80}}}, which is refused because it could run code; "
            f"allowed: names of objects, their .{', .'.join(_ATTRIBUTES)}, strings, + and or"
        )


@dataclass
class Rule:
    """One right-hand side of a rule."""

    condition: Query | None  # None: always applies
    text: str  # a template


_TASK = re.compile(r'("task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*)"((?:[^"\\]|\\.)*)"')


def split_task(text: str) -> tuple[str, str]:
    """Return ``(grammar with an empty task, text of the task)``.

    Grammars of one ALFWorld version differ only in the task, so the rest is parsed once. Raises ``Unsupported`` for a
    grammar without a task.
    """
    match = _TASK.search(text)
    if match is None:
        raise Unsupported("a grammar without a task")
    return _TASK.sub(r'\1""', text, count=1), json.loads(f'"{match[2]}"')


class Grammar:
    """The templates and rules of a ``.twl2`` text. Raises ``ValueError`` if the text defines no action."""

    def __init__(self, text: str) -> None:
        self.templates: dict[str, str] = {}
        """The template of each action's command."""
        self.feedback: dict[str, str] = {}
        """The template of each action's feedback."""
        rules: dict[str, list[dict]] = {}
        text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))  # comments
        check_size(text, "a grammar")
        for block in _TOP.findall(text):
            rules.update(json.loads(block[3:-3]))
        for name, body in _ACTION.findall(text):
            fields = {key: value.strip('"') for key, value in _FIELD.findall(body)}
            self.templates[name.lower()] = fields["template"]
            self.feedback[name.lower()] = fields["feedback"]
            rules.update(json.loads(fields.get("grammar", "{}")))
        if not self.templates:
            raise ValueError("a grammar without actions")
        self._rules = {
            name: [Rule(parse_query(r["condition"]) if r.get("condition") else None, r["rhs"]) for r in options]
            for name, options in rules.items()
        }
        self._compiled: dict[str, list[Part]] = {}
        self._used = Counter(MOST_RULES, "rules for one text")

    def derive(self, text: str, context: Context) -> str:
        """Return the text that a template gives in a context.

        Raises ``Unsupported`` for an unknown symbol, ``ForeignExpression``, and ``Endless`` for a text that needs too
        many rules, facts or characters.
        """
        self._used.reset()
        context.world.looked_at.reset()
        return self._derive(text, context)

    def _derive(self, text: str, context: Context) -> str:
        parts = self._compiled.get(text)
        if parts is None:
            parts = self._compiled[text] = self._compile(text)
        return check_size("".join([part(context) for part in parts]), "a text")

    def texts(self) -> list[str]:
        """Return every command template and every right-hand side of a rule."""
        return [*self.templates.values(), *(r.text for rules in self._rules.values() for r in rules)]

    @cached_property
    def queries(self) -> set[str]:
        """The predicates that the rules ask for, in their conditions or texts."""
        rules = [rule for options in self._rules.values() for rule in options]
        in_conditions = {name for rule in rules if rule.condition for name, _ in rule.condition.predicates}
        return in_conditions | {name for rule in rules for name in queried_predicates(rule.text)}

    @cached_property
    def command_queries(self) -> set[str]:
        """The predicates that command templates ask for. Raises ``Unsupported`` for templates that use rules."""
        if any("#" in text for text in self.templates.values()):
            raise Unsupported("command templates with rules")
        return {name for text in self.templates.values() for name in queried_predicates(text)}

    def variables_in(self, text: str, known: Collection[str]) -> set[str] | None:
        """Return the ``known`` variables that a template's text depends on; None if it depends on others too."""
        variables = set()
        for m in _SYMBOL.finditer(text):
            if expression := m["item"] or m["value"]:
                compile_expression(expression)
                nodes = ast.walk(ast.parse(expression.strip(), mode="eval"))
                variables |= {node.id for node in nodes if isinstance(node, ast.Name)}
            if query := m["item_query"] or m["value_query"]:
                variables |= {name for _, placeholders in parse_query(query).predicates for name, _ in placeholders}
        return variables if variables <= set(known) else None

    def _expand(self, rule: str, context: Context) -> str:
        """Return the text of the first right-hand side of a rule whose condition holds."""
        self._used.take()
        if rule == "task":
            return self._derive(context.world.task, context)
        for option in self._rules.get(rule, ()):
            if option.condition is None or next(option.condition.answers(context), None) is not None:
                return self._derive(option.text, context)
        raise Unsupported(f"the grammar symbol #{rule}#")

    def _compile(self, text: str) -> list[Part]:
        check_size(text, "a template")
        parts: list[Part] = []
        while leading := _LEADING.match(text):  # as textworld's parser does
            text = text[leading.end() :]
        position = 0
        while position < len(text) and (m := _SYMBOL.match(text, position)):
            parts.append(self._part(m))
            position = m.end()
        return parts  # like textworld's parser, without what follows the first bad symbol

    def _part(self, m: re.Match) -> Part:
        if m["text"] is not None:
            literal = m["text"]
            return lambda context: literal
        if m["rule"] is not None:
            rule = m["rule"]
            return lambda context: self._expand(rule, context)
        if m["item"] is not None:
            return self._list(self._value(m["item"]), m["item_query"])
        value = self._value(m["value"])
        if m["value_query"] is None:
            return value
        query = parse_query(m["value_query"])
        return lambda context: "".join([value(context.extended(x)) for x in query.answers(context)])

    def _list(self, value: Part, query_text: str | None) -> Part:
        """Return a part that enumerates the values of all answers, joined by the grammar's separators."""
        query = parse_query(query_text) if query_text else None

        def derive(context: Context) -> str:
            contexts = [context.extended(x) for x in query.answers(context)] if query else [context]
            items = [value(c) for c in contexts]
            if not items:
                return self._expand("list_empty", context)
            if len(items) == 1:
                return items[0]
            comma, last = (self._expand(f"list_{name}", context) for name in ("separator", "last_separator"))
            return comma.join(items[:-1]) + last + items[-1]

        return derive

    def _value(self, expression: str) -> Part:
        if expression.startswith("#"):
            rule = expression.strip("#")
            return lambda context: self._expand(rule, context)
        return compile_expression(expression)


def compile_expression(text: str) -> Part:
    """Compile an expression over objects: names, attributes and strings, joined by + and or.

    Raises ``ForeignExpression`` for any other expression.
    """
    try:
        return _compile_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: also an unknown node, null bytes
        raise ForeignExpression(text) from None


def _compile_node(node: ast.expr) -> Part:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
        return lambda context: text
    if isinstance(node, ast.Name):
        variable = node.id
        return lambda context: context.world.names[context.variables[variable]]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        variable, attribute = node.value.id, node.attr
        if attribute == "name":
            return lambda context: context.world.names[context.variables[variable]]
        if attribute == "id":
            return lambda context: context.variables[variable]
        if attribute in ("indefinite", "definite"):
            article = "a" if attribute == "indefinite" else "the"
            return lambda context: article
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _compile_node(node.left), _compile_node(node.right)
        return lambda context: left(context) + right(context)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        options = [_compile_node(v) for v in node.values]
        return lambda context: next((text for o in options if (text := o(context))), "")
    raise ValueError(type(node).__name__)


def queried_predicates(template: str) -> set[str]:
    """Return the predicates that a template asks for itself, without its rules."""
    queries = [m["item_query"] or m["value_query"] for m in _SYMBOL.finditer(template)]
    return {name for query in queries if query for name, _ in parse_query(query).predicates}

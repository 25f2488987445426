"""From a text to an expression: recursive descent over the grammar in docs/language.md."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import NoReturn

from sleipnir.graphs.expressions.cursor import WORDS, Cursor
from sleipnir.graphs.expressions.expression import Expression, Path
from sleipnir.graphs.expressions.functions import FUNCTIONS, METHODS
from sleipnir.graphs.expressions.precedence import COMPARING, OperandStack, level_of
from sleipnir.graphs.expressions.tokens import Token
from sleipnir.graphs.expressions.tree import (
    Apply,
    At,
    Chain,
    Conditional,
    Field,
    Has,
    ListOf,
    Literal,
    Method,
    Name,
    Operand,
    Prefix,
    Quantifier,
    Step,
)

_CONSTANTS = {"true": True, "false": False, "null": None}
_QUANTIFIERS = ("exists", "all")


@lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """Parse an expression.

    Raises:
        BadExpression: the text is empty, too long, nested too deeply, or not of the grammar.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._at = Cursor(text)
        self._bound: list[str] = []  # variables of the quantifiers around this place
        self._read: list[str] = []  # every name so far, bound ones too
        self._names: set[str] = set()
        self._paths: dict[str, Operand] = {}

    def parse(self) -> Expression:
        if self._at.is_at_end:
            self._at.fail("the expression is empty")
        root = self._expression()
        if not self._at.is_at_end:
            self._at.fail_unexpected()
        paths = tuple(Path(text, part) for text, part in self._paths.items())
        return Expression(self._at.text, root, frozenset(self._names), paths)

    def _expression(self) -> Operand:
        condition = self._operation()
        if not self._at.takes("?"):
            return condition
        self._at.enter()
        then = self._expression()
        self._at.require(":")
        otherwise = self._expression()
        self._at.leave()
        return Conditional(condition, then, otherwise)

    def _operation(self) -> Operand:
        start, compared = self._at.token.start, None
        operation = OperandStack(self._prefixed())
        while level := level_of(self._at.token):
            if level == COMPARING and compared is not None:
                self._fail_chained(start, *compared)
            operator = self._at.take()
            if level == COMPARING:
                compared = operator, self._at.token.start
            elif level < COMPARING:
                start, compared = self._at.token.start, None
            operation.join(operator.text, self._prefixed())
        return operation.whole()

    def _prefixed(self) -> Operand:
        prefixes = []
        while self._at.token.kind == "operator" and self._at.token.text in {"!", "-"}:
            self._at.enter()
            prefixes.append(self._at.take().text)
        operand = self._chain()
        for prefix in reversed(prefixes):
            self._at.leave()
            operand = Prefix(prefix, operand)
        return operand

    def _chain(self) -> Operand:
        start = self._at.token.start
        reads_before = len(self._read)
        base = self._primary()
        steps: list[Step] = []
        if isinstance(base, Name):
            while not self._is_method() and (step := self._step(start)) is not None:
                steps.append(step)
            self._note_path(start, base, tuple(steps), reads_before)
        while (step := self._step(start)) is not None:
            steps.append(step)
        return Chain(base, tuple(steps)) if steps else base

    def _note_path(
        self, start: int, base: Operand, steps: tuple[Step, ...], reads_before: int
    ) -> None:
        if not any(name in self._bound for name in self._read[reads_before:]):
            text = self._at.text[start : self._at.before.end]
            self._paths.setdefault(text, Chain(base, steps) if steps else base)

    def _is_method(self) -> bool:
        ahead = self._at.ahead(3)
        return (
            len(ahead) == 3
            and (ahead[0].text, ahead[0].kind) == (".", "operator")
            and ahead[1].kind == "name"
            and (ahead[2].text, ahead[2].kind) == ("(", "operator")
        )

    def _step(self, start: int) -> Step | None:
        if self._is_method():
            self._at.take()
            return self._method(self._at.take())
        opened = self._at.token
        if self._at.takes("."):
            if self._at.token.kind != "name":
                self._at.fail_unexpected("expected a name")
            name = self._at.take()
            return Field(name.text, self._at.text[start : name.end])
        if self._at.takes("["):
            self._at.enter()
            index = self._expression()
            self._at.require("]", opened)
            self._at.leave()
            return At(index, self._at.text[start : self._at.before.end])
        return None

    def _primary(self) -> Operand:
        token = self._at.token
        if token.kind in {"number", "text"}:
            self._at.take()
            return Literal(token.value)
        if token.kind == "name" and token.text != "in":
            self._at.take()
            return self._named(token)
        if self._at.takes("("):
            self._at.enter()
            inner = self._expression()
            self._at.require(")", token)
            self._at.leave()
            return inner
        if self._at.takes("["):
            return ListOf(self._arguments(token, "]"))
        return self._at.fail_unexpected()

    def _named(self, token: Token) -> Operand:
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        opened = self._at.token
        if not self._at.takes("("):
            return self._name(token)
        if token.text == "has":
            return self._has(token, opened)
        if token.text not in FUNCTIONS:
            self._fail_unknown(token, "function", [*FUNCTIONS, "has"])
        arguments = self._arguments(opened, ")")
        if len(arguments) != 1:
            self._at.fail(f"{token.text} takes 1 argument, got {len(arguments)}", token)
        return Apply(FUNCTIONS[token.text], arguments[0])

    def _name(self, token: Token) -> Name:
        self._read.append(token.text)
        if token.text not in self._bound:
            self._names.add(token.text)
        return Name(token.text)

    def _has(self, token: Token, opened: Token) -> Operand:
        self._at.enter()
        start = self._at.token
        path = self._chain() if start.kind == "name" else None
        base = path.base if isinstance(path, Chain) else path
        steps = path.steps if isinstance(path, Chain) else ()
        if not isinstance(base, Name) or not all(isinstance(each, Field | At) for each in steps):
            self._at.fail("has takes a path, like a.b[0]", start)
        self._at.require(")", opened)
        self._at.leave()
        assert path is not None
        return Has(path)

    def _method(self, token: Token) -> Step:
        opened = self._at.take()
        if token.text in _QUANTIFIERS:
            return self._quantifier(token, opened)
        if token.text not in METHODS:
            self._fail_unknown(token, "method", [*METHODS, *_QUANTIFIERS])
        expected, call = METHODS[token.text]
        arguments = self._arguments(opened, ")")
        if len(arguments) != expected:
            takes = "no argument" if expected == 0 else f"{expected} argument"
            self._at.fail(f"{token.text} takes {takes}, got {len(arguments)}", token)
        return Method(call, arguments)

    def _quantifier(self, token: Token, opened: Token) -> Step:
        variable = self._at.token
        named = variable.kind == "name" and variable.text not in {*_CONSTANTS, "in"}
        if not named or self._at.ahead(2)[-1].text != ",":
            self._at.fail(
                f"{token.text} takes a name and a condition, like {token.text}(x, x > 0)", variable
            )
        self._at.take()
        self._at.take()
        self._at.enter()
        self._bound.append(variable.text)
        condition = self._expression()
        self._bound.pop()
        self._at.require(")", opened)
        self._at.leave()
        return Quantifier(token.text, variable.text, condition)

    def _arguments(self, opened: Token, closing: str) -> tuple[Operand, ...]:
        self._at.enter()
        arguments: list[Operand] = []
        if not self._at.takes(closing):
            arguments.append(self._expression())
            while self._at.takes(","):
                arguments.append(self._expression())
            self._at.require(closing, opened)
        self._at.leave()
        return tuple(arguments)

    # Refusals.

    def _fail_chained(self, start: int, first: Token, middle: int) -> NoReturn:
        second = self._at.token
        one = self._at.text[start : first.start].strip()
        two = self._at.text[middle : second.start].strip()
        hint = f"write {one} {first.text} {two} && {two} {second.text} …"
        following = self._at.ahead(2)[-1]
        if following.kind in {"name", "number", "text"}:
            hint = hint[:-1] + following.text
        self._at.fail("comparisons do not chain", second, hint)

    def _fail_unknown(self, token: Token, kind: str, known: list[str]) -> NoReturn:
        close = get_close_matches(token.text, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else None
        if kind == "function" and token.text in {*METHODS, *_QUANTIFIERS}:
            hint = f"write x.{token.text}(…)"
        elif kind == "method" and token.text in {*FUNCTIONS, "has"}:
            hint = f"write {token.text}(x)"
        if kind == "function" and token.text in WORDS:
            hint = WORDS[token.text]
        self._at.fail(f"unknown {kind} '{token.text}'", token, hint)

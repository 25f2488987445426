"""A place in the parts of an expression, from which a parser takes them one by one."""

from __future__ import annotations

from typing import NoReturn

from sleipnir.graphs.expressions.errors import BadExpression
from sleipnir.graphs.expressions.tokens import OPEN_HINT, Token, tokens

DEEPEST = 64

# What people write who come from another language.
WORDS = {"and": "&&", "or": "||", "not": "!"}


class Cursor:
    """The parts of one expression, and how deep the next one is nested."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The next part."""
        return self._tokens[self._next]

    @property
    def before(self) -> Token:
        """The part taken last."""
        return self._tokens[max(0, self._next - 1)]

    @property
    def is_at_end(self) -> bool:
        return self.token.kind == "end"

    def ahead(self, count: int) -> list[Token]:
        """Return up to so many of the next parts."""
        return self._tokens[self._next : self._next + count]

    def take(self) -> Token:
        token = self.token
        self._next += 1
        return token

    def takes(self, text: str) -> bool:
        """Take the next part if it is this operator."""
        if self.token.kind != "operator" or self.token.text != text:
            return False
        self._next += 1
        return True

    def require(self, text: str, opened: Token | None = None) -> None:
        """Take this operator; `opened` is the bracket that it closes."""
        if self.takes(text):
            return
        if self.is_at_end and opened is not None:
            self.fail(f"'{opened.text}' is not closed", opened)
        self.fail_unexpected(f"expected '{text}'")

    def enter(self) -> None:
        """Go one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")

    def leave(self) -> None:
        self._depth -= 1

    def fail(self, detail: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        """Refuse the expression because of a part, the next one by default."""
        position = (token or self.token).start
        if hint is None and self._stays_open():
            hint = OPEN_HINT
        raise BadExpression(detail, self.text, position, hint) from None

    def _stays_open(self) -> bool:
        """Return whether a bracket is not closed, as where YAML has cut the text at a comma."""
        brackets = [each.text for each in self._tokens if each.kind == "operator"]
        return sum(text in "([" for text in brackets) > sum(text in ")]" for text in brackets)

    def fail_unexpected(self, expected: str | None = None) -> NoReturn:
        """Refuse the next part."""
        token = self.token
        hint = WORDS.get(token.text) or (WORDS["not"] if self.before.text == "not" else None)
        if self.is_at_end:
            self.fail("the expression ends too early")
        detail = f"unexpected '{token.text}'"
        if expected and hint is None:
            detail += f", {expected}"
        self.fail(detail, hint=hint)

"""The place where a parser stands in the tokens: looking, taking, and saying what is wrong there.

Knows how names and lists are written. Knows no statement and no expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .lexer import Token, tokenize
from .sqltypes import SqlError, unsupported
from .syntax import ObjectName, Query

T = TypeVar("T")


class Reader:
    """``subquery`` reads a query: handed in, since expressions hold queries and queries hold expressions."""

    def __init__(self, text: str, subquery: Callable[[Reader], Query]) -> None:
        self._tokens = tokenize(text)
        self.position = 0
        self.subquery = subquery

    @property
    def token(self) -> Token:
        return self._tokens[self.position]

    @property
    def key(self) -> str:
        return self._tokens[self.position].key

    @property
    def line(self) -> int:
        return self._tokens[self.position].line

    def peek(self, distance: int = 1) -> Token:
        return self._tokens[min(self.position + distance, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.token
        self.position = min(self.position + 1, len(self._tokens) - 1)
        return token

    def at(self, *keys: str) -> bool:
        """Whether exactly these keys come next, in this order."""
        tokens, position = self._tokens, self.position  # asked for at every turn: no calls here
        if tokens[position].key != keys[0]:
            return False
        return all(self.peek(distance).key == key for distance, key in enumerate(keys))

    def accept(self, *keys: str) -> bool:
        if not self.at(*keys):
            return False
        self.position += len(keys)
        return True

    def expect(self, *keys: str) -> None:
        for key in keys:
            if not self.accept(key):
                raise self.wrong()

    def at_one(self, *keys: str) -> bool:
        key = self._tokens[self.position].key
        return key in keys and key != ""

    def accept_one(self, *keys: str) -> str | None:
        return self.take().key if self.at_one(*keys) else None

    def one_of(self, *keys: str) -> str:
        if not self.at_one(*keys):
            raise self.wrong()
        return self.take().key

    def error(self, number: int, message: str, *, severity: int = 15) -> SqlError:
        return SqlError(number, message, severity=severity, line=self.line)

    def wrong(self) -> SqlError:
        """The syntax error at the present token."""
        if self.token.kind == "keyword":
            return self.error(156, f"Incorrect syntax near the keyword '{self.token.text}'.")
        return self.error(102, f"Incorrect syntax near '{self.token.text}'.")

    def refuse(self, what: str = "") -> SqlError:
        """The refusal of a construct, named by the present word where it is not named here."""
        return unsupported(what or self.token.text.upper(), line=self.line)

    def refuse_at(self, *refused: str) -> None:
        """Raises the refusal when one of these, each one or more words, stands here."""
        if self.key == "":
            return
        for what in refused:
            if self.at(*what.split()):
                raise self.refuse(what)

    @property
    def finished(self) -> bool:
        return self.token.kind == "end"

    def at_name(self, distance: int = 0) -> bool:
        return self.peek(distance).kind in ("word", "quoted")

    def at_string(self) -> bool:
        return self.token.kind in ("string", "nstring")

    def name(self) -> str:
        if not self.at_name():
            raise self.wrong()
        return self.take().text

    def variable(self) -> str:
        if self.token.kind != "variable":
            raise self.wrong()
        return self.take().text

    def whole(self) -> int:
        """An integer constant, with or without a sign."""
        sign = -1 if self.accept_one("-", "+") == "-" else 1
        if self.token.kind != "number" or not self.token.text.isdigit() or len(self.token.text) > 18:
            raise self.wrong()
        return sign * int(self.take().text)

    def parts(self) -> list[str]:
        """``a.b.c``; a part that is left out (``a..c``) is ''."""
        parts = [self.name()]
        while self.accept("."):
            parts.append("" if self.at(".") else self.name())
        return parts

    def object_name(self) -> ObjectName:
        *qualifiers, name = self.parts()
        return ObjectName(name, *self.qualifiers(qualifiers, 2))

    def qualifiers(self, parts: list[str], most: int) -> list[str | None]:
        """What stands before the last part of a name, nearest first."""
        if len(parts) > most:
            raise self.refuse("linked server")
        return [part or None for part in reversed(parts)]

    def list_of(self, item: Callable[[Reader], T]) -> tuple[T, ...]:
        items = [item(self)]
        while self.accept(","):
            items.append(item(self))
        return tuple(items)

    def parenthesised(self, item: Callable[[Reader], T]) -> T:
        self.expect("(")
        result = item(self)
        self.expect(")")
        return result

    def list_in(self, item: Callable[[Reader], T]) -> tuple[T, ...]:
        """``(a, b)``"""
        return self.parenthesised(lambda r: r.list_of(item))

    def names(self) -> tuple[str, ...]:
        return self.list_in(Reader.name)

    def after(self, key: str, item: Callable[[Reader], T]) -> T | None:
        """What follows a key that may be left out."""
        return item(self) if self.accept(key) else None

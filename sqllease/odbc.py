"""ODBC connection strings: what is in one, by the grammar of the driver manager.

A value in braces may hold anything, a closing brace in it is doubled; keys compare without case (Microsoft,
"SQLDriverConnect Function", comments on connection strings). Never rewrites a value that the user wrote.
"""

from __future__ import annotations

import re

_SECRET_KEYS = frozenset({"pwd", "password", "accesstoken", "clientcertpassword", "keystoresecret", "clientkey"})


def parse(connection_string: str) -> list[tuple[str, str]]:
    """Pairs of lower-case key and value. Text that is no pair is left out: the driver will complain about it."""
    pairs = []
    position = 0
    while position < len(connection_string):
        match = re.compile(r"[\s;]*([^=;{}]+?)\s*=\s*").match(connection_string, position)
        if match is None:
            break
        position = match.end()
        if connection_string.startswith("{", position):
            braced = re.compile(r"\{((?:[^}]|\}\})*)\}?").match(connection_string, position)
            assert braced is not None
            value, position = braced.group(1).replace("}}", "}"), braced.end()
            end = connection_string.find(";", position)
        else:
            end = connection_string.find(";", position)
            value = connection_string[position : end if end >= 0 else None].strip()
        pairs.append((match.group(1).strip().lower(), value))
        if end < 0:
            break
        position = end + 1
    return pairs


def braced(value: str) -> str:
    """The value as it may stand in a connection string, whatever it holds."""
    return "{" + value.replace("}", "}}") + "}"


def with_default(connection_string: str, key: str, value: str) -> str:
    """The string with ``key=value`` added, unless it has the key already: the user's own value wins."""
    if any(name == key.lower() for name, _ in parse(connection_string)):
        return connection_string
    separator = "" if not connection_string or connection_string.rstrip().endswith(";") else ";"
    return f"{connection_string}{separator}{key}={value};"


def secrets(connection_string: str) -> tuple[str, ...]:
    """Every secret in the string, whole and in the pieces that a driver might quote when it is malformed, longest
    first.
    """
    values = {value for key, value in parse(connection_string) if key in _SECRET_KEYS}
    # A badly quoted password is not read as one value: whatever stands behind such a key up to the end may be part of
    # it.
    for match in re.finditer(
        r"(?i)(?:^|[;\s])(?:" + "|".join(sorted(_SECRET_KEYS)) + r")\s*=(.*)", connection_string, re.DOTALL
    ):
        tail = match.group(1)
        if "{" in tail or "}" in tail:
            values.add(tail)
    pieces = values | {piece for value in values for piece in re.split(r"[;{}=\s]+", value)}
    return tuple(sorted((piece for piece in pieces if len(piece) >= 3), key=len, reverse=True))


def scrub(text: str, hidden: tuple[str, ...]) -> str:
    """The text without the secrets."""
    for secret in hidden:
        text = text.replace(secret, "***")
    return text

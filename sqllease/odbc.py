"""ODBC connection strings: what is in one, by the grammar of the driver manager.

A value in braces may hold anything, a closing brace in it is doubled; keys compare without case (Microsoft,
"SQLDriverConnect Function", comments on connection strings). Never rewrites a value that the user wrote.
"""

from __future__ import annotations

import re

_SECRET_KEYS = frozenset(
    {"pwd", "password", "accesstoken", "clientcertificate", "clientcertpassword", "keystoresecret", "clientkey"}
)


_KEY = re.compile(r"\s*([^=;{}]+?)\s*=\s*")
_BRACED = re.compile(r"\{((?:[^}]|\}\})*)\}?")
_SWALLOWED = re.compile(rf"(?is)\b(?:{'|'.join(sorted(_SECRET_KEYS))})\s*=(.*)")


def parse(connection_string: str) -> list[tuple[str, str]]:
    """Pairs of lower-case key and value. Text that is no pair is left out: the driver will complain about it."""
    return [(key, value) for key, value in _read(connection_string) if key]


def _read(connection_string: str) -> list[tuple[str, str]]:
    """As ``parse``, and the text that is no pair with an empty key."""
    pairs = []
    position = 0
    while position < len(connection_string):
        key, value = _KEY.match(connection_string, position), ""
        start = key.end() if key else position
        braced_value = _BRACED.match(connection_string, start) if key else None
        if braced_value:
            value, start = braced_value[1].replace("}}", "}"), braced_value.end()
        end = connection_string.find(";", start)
        end = len(connection_string) if end < 0 else end
        rest = connection_string[start:end].strip()
        if key:
            pairs.append((key[1].lower(), value if braced_value else rest))
        if rest and (braced_value or not key):
            pairs.append(("", rest))
        position = end + 1
    return pairs


def with_default(connection_string: str, key: str, value: str) -> str:
    """The string with ``key=value`` added, unless it has the key already: the user's own value wins."""
    if any(name == key.lower() for name, _ in parse(connection_string)):
        return connection_string
    separator = "" if not connection_string or connection_string.rstrip().endswith(";") else ";"
    return f"{connection_string}{separator}{key}={value};"


def secrets(connection_string: str) -> tuple[str, ...]:
    """Every secret in the string, whole and in the pieces that a driver might quote when it is malformed, longest
    first.

    Where there is a secret, text that is no pair is taken for the rest of a badly quoted one.
    """
    pairs = _read(connection_string)
    values = {value for key, value in pairs if key in _SECRET_KEYS}
    values |= {found[1] for _, value in pairs if (found := _SWALLOWED.search(value))}  # a ; is missing, or a brace
    if values:
        values |= {value for key, value in pairs if not key}
    pieces = values | {piece for value in values for piece in re.split(r"[;{}=\s]+", value)}
    return tuple(sorted((piece for piece in pieces if len(piece) >= 3), key=len, reverse=True))


def scrub(text: str, hidden: tuple[str, ...]) -> str:
    """The text without the secrets."""
    for secret in hidden:
        text = text.replace(secret, "***")
    return text

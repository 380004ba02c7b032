"""Collations: which are known, how strings compare, sort, fold and match under them, and what their code units are.

Binary ones (BIN2) are exact. Linguistic ones are approximated from Unicode's own tables: letters fold by case, width
and kana type, accents weigh after letters, case last; equality is that of the original for everyday text, the order of
punctuation is not. Tables of version 80 (``SQL_...`` and names without number) know no supplementary characters: those
weigh nothing there. Code page 1252 stands for every varchar. Knows nothing of types, rows or sessions.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .sqltypes import SqlError, Value

DEFAULT = "SQL_Latin1_General_CP1_CI_AS"

_NAME = re.compile(
    r"(?P<family>SQL_Latin1_General_CP1|Latin1_General|Turkish|Japanese)(?P<version>_100)?"
    r"_(?:(?P<binary>BIN2)|(?P<case>CI|CS)_(?P<accent>AI|AS)(?P<sc>_SC)?)",
    re.IGNORECASE,
)
_SPELLING = {
    part.lower(): part
    for part in ("SQL", "Latin1", "General", "CP1", "Turkish", "Japanese", "100", "BIN2", "CI", "CS", "AI", "AS", "SC")
}


@dataclass(frozen=True, slots=True)
class Collation:
    name: str
    binary: bool
    case_sensitive: bool
    accent_sensitive: bool
    weighs_supplementary: bool
    counts_characters: bool  # _SC: string functions count characters, not UTF-16 units
    turkish: bool


@lru_cache(maxsize=256)
def known(name: str) -> Collation:
    """The collation of that name, in its canonical spelling; else error 448."""
    match = _NAME.fullmatch(name)
    if (
        match is None
        or (match["sc"] and not match["version"])
        or (name.lower().startswith("sql_") and (match["version"] or match["binary"]))
    ):
        raise SqlError(448, f"Invalid collation '{name}'.")
    return Collation(
        name="_".join(_SPELLING[part] for part in name.lower().split("_")),
        binary=bool(match["binary"]),
        case_sensitive=(match["case"] or "CS").upper() == "CS",
        accent_sensitive=(match["accent"] or "AS").upper() == "AS",
        weighs_supplementary=bool(match["version"]) or bool(match["binary"]),
        counts_characters=bool(match["sc"]),
        turkish=match["family"].lower() == "turkish",
    )


# --- code units ----------------------------------------------------------------------------------


def split(text: str, whole: bool = False) -> str:
    """The text with each supplementary character as its two surrogates, so that len and slices count UTF-16 units."""
    if whole or not text or max(text) <= "\uffff":
        return text
    raw = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(raw[i : i + 2], "big")) for i in range(0, len(raw), 2))


def join(text: str) -> str:
    """The inverse of split: neighbouring surrogates become one character again."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def unit_length(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


# --- comparing -----------------------------------------------------------------------------------


def _padded(units: str) -> bytes:
    """Bytes that order like the units followed by endless blanks (ANSI padding): ``a`` = ``a  ``, and tab < blank.

    A run of blanks is written as: blank, what follows (0 less than a blank, 1 the end, 2 more), then its length, where
    a longer run sorts later before something small and earlier before something large.
    """
    text = units.rstrip(" ")
    if " " not in text:
        return text.encode("utf-16-be", "surrogatepass") + b"\x00 \x01"
    out = bytearray()
    pieces = re.split("( +)", text)
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        if piece.startswith(" "):
            small = following[0] < " "
            length = len(piece) if small else 0xFFFFFFFF - len(piece)
            out += (b"\x00 \x00" if small else b"\x00 \x02") + length.to_bytes(4, "big")
        else:
            out += piece.encode("utf-16-be", "surrogatepass")
    return bytes(out) + b"\x00 \x01"


def _base(char: str) -> str:
    """Katakana as hiragana: none of the known collations is sensitive to kana type."""
    return chr(ord(char) - 0x60) if "\u30a1" <= char <= "\u30f6" else char


def _lower(text: str, turkish: bool) -> str:
    return (text.replace("I", "\u0131").replace("İ", "i") if turkish else text).casefold()


@lru_cache(maxsize=4096)
def _text_key(text: str, name: str) -> bytes:
    collation = known(name)
    if collation.binary:
        return _padded(split(text))
    if not collation.weighs_supplementary:
        text = "".join(char for char in text if char <= "\uffff")
    if collation.turkish:
        text = text.replace("İ", "\ue000")  # keeps its dot apart from NFKD
    letters: list[str] = []
    accents: list[tuple[int, int]] = []
    capitals: list[int] = []
    for char in unicodedata.normalize("NFKD", text.rstrip(" ")).replace("\ue000", "İ"):
        if unicodedata.combining(char):
            accents.append((len(letters), ord(char)))
            continue
        folded = _lower(char, collation.turkish)
        if folded != char:
            capitals.append(len(letters))
        letters.extend(_base(unit) for unit in split(folded))
    key = _padded("".join(letters))
    if collation.accent_sensitive:
        key += b"".join(place.to_bytes(4, "big") + accent.to_bytes(4, "big") for place, accent in accents)
    if collation.case_sensitive:
        key += b"\x00" * 4 + b"".join((0xFFFFFFFF - place).to_bytes(4, "big") for place in capitals)
    return key


def sort_key(value: Value, collation: str | None = None) -> Any:
    """What to compare instead of the value: equal, less and hash as the engine has them. NULL stays None.

    Strings under their collation with blanks padded; binary without trailing zeros; uniqueidentifier last group first.
    """
    if isinstance(value, str):
        return _text_key(value, collation or DEFAULT)
    if isinstance(value, bytes):
        return value.rstrip(b"\0")
    if isinstance(value, uuid.UUID):
        raw = value.bytes
        return raw[10:] + raw[8:10] + raw[6:8] + raw[4:6] + raw[:4]
    return value


def order_key(value: Value, collation: str | None = None) -> tuple[Any, ...]:
    """sort_key for sorting: NULL comes first."""
    return () if value is None else (sort_key(value, collation),)


# --- searching -----------------------------------------------------------------------------------


def _fold(char: str, collation: Collation) -> str:
    """One unit for one unit; '' for a unit without weight."""
    if collation.binary:
        return char
    if not collation.weighs_supplementary and "\ud800" <= char <= "\udfff":
        return ""
    narrow = unicodedata.normalize("NFKC", char)
    narrow = _base(narrow if len(narrow) == 1 else char)
    if not collation.accent_sensitive:
        narrow = unicodedata.normalize("NFD", narrow)[0]
    if not collation.case_sensitive:
        folded = _lower(narrow, collation.turkish)
        return folded if len(folded) == 1 else narrow
    return narrow


def find(text: str, part: str, start: int, name: str) -> tuple[int, int] | None:
    """Begin and end of the first occurrence of part in the (split) text from start; None where there is none."""
    collation = known(name)
    wanted = "".join(_fold(char, collation) for char in part)
    if not wanted:
        return None
    folded, places = [], []
    for place in range(start, len(text)):
        unit = _fold(text[place], collation)
        if unit:
            folded.append(unit)
            places.append(place)
    at = "".join(folded).find(wanted)
    return None if at < 0 else (places[at], places[at + len(wanted) - 1] + 1)


@lru_cache(maxsize=512)
def like(pattern: str, escape: str | None, name: str, blanks: bool) -> Callable[[str], bool]:
    """A matcher for a LIKE pattern; with blanks, trailing blanks of the text do not count (non-Unicode data)."""
    collation = known(name)
    units = split(pattern, collation.counts_characters)
    out, at = [], 0

    def fold(text: str) -> str:
        return "".join(_fold(char, collation) for char in text)

    while at < len(units):
        char, at = units[at], at + 1
        if char == escape and at < len(units):
            out.append(re.escape(fold(units[at])))
            at += 1
        elif char == "%":
            out.append(".*")
        elif char == "_":
            out.append(".")
        elif char == "[":
            end = units.find("]", at)
            if end < 0:
                return lambda text: False
            body, at = units[at:end], end + 1
            negated, body = body.startswith("^"), body.removeprefix("^")
            ranges = re.findall("(?s)(.)-(.)|(.)", body)
            inside = "".join(
                re.escape(fold(single)) if single else f"{re.escape(fold(low))}-{re.escape(fold(high))}"
                for low, high, single in ranges
            )
            out.append(f"[{'^' if negated else ''}{inside}]" if inside else "." if negated else "(?!)")
        else:
            out.append(re.escape(fold(char)))
    try:
        regex = re.compile("".join(out) + (" *" if blanks else ""), re.DOTALL)
    except re.error:  # a range that runs backwards matches nothing
        return lambda text: False
    return lambda text: regex.fullmatch(fold(split(text, collation.counts_characters))) is not None

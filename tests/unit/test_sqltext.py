"""The tests' own reading of T-SQL: what stands in a string, a name or a comment is not touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sqltext import code, literals, markers, names, pieces, skeleton, with_variables


@given(st.text(alphabet="a?'\"[]-/* \n"))
def test_the_pieces_are_the_text_again(text: str) -> None:
    assert "".join(piece for _, piece in pieces(text)) == text


def test_markers_become_variables_in_their_order() -> None:
    assert with_variables("WHERE a = ? AND b = NULLIF(?, ?)") == "WHERE a = @P1 AND b = NULLIF(@P2, @P3)"


@pytest.mark.parametrize(
    "text",
    [
        "-- why?\n",
        "/* why?\n why? */",
        "'why?'",
        "N'it''s ?'",
        "[why?]",
        "[a]]?]",
        '"why?"',
        '"a""?"',
        "'-- no comment' + N'?'",
        "[--] + [?]",
        "-- it's\n -- '?'\n",
    ],
)
def test_no_question_mark_in_a_string_a_name_or_a_comment_is_a_marker(text: str) -> None:
    assert with_variables(f"{text} ?") == f"{text} @P1"
    assert markers(f"{text} ?") == 1


def test_names_and_literals_are_read_as_the_server_reads_them() -> None:
    text = "SELECT N'it''s [x]' AS [a]]b] -- [c] 'd'\n"
    assert (names(text), literals(text)) == (["a]b"], ["it's [x]"])
    assert (code(text).strip(), skeleton(text)) == ("SELECT N'it''s [x]' AS [a]]b]", ["SELECT", "''", "AS", "[]"])

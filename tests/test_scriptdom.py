"""The harness around Microsoft's parser: good text passes, bad text does not."""

import sys
from collections.abc import Callable

import pytest

from tests import scriptdom

ParseErrors = Callable[[list[str]], list[list[str]]]

MERGE = """
MERGE INTO [a]]b].[Leases] WITH (UPDLOCK, HOLDLOCK) AS target
USING (SELECT CAST(@name AS nvarchar(200)) AS Name) AS source ON target.Name = source.Name
WHEN MATCHED THEN UPDATE SET OwnerId = N'\u00fc'
WHEN NOT MATCHED THEN INSERT (Name) VALUES (source.Name);
"""


def test_good_text_has_no_errors_and_bad_text_says_where(parse_errors: ParseErrors) -> None:
    assert parse_errors([MERGE, MERGE.replace("USING", "USNG"), MERGE.rstrip(";\n")]) == [
        [],
        ["3:1 46005 Expected USING but encountered USNG instead."],
        ["2:1 46097 A MERGE statement must be terminated by a semi-colon (;)"],
    ]


def test_the_grammar_is_that_of_sql_server_2016(parse_errors: ParseErrors) -> None:
    # DROP TABLE IF EXISTS came with 2016, JSON_OBJECT('key':value) with 2022.
    same, newer = parse_errors(["DROP TABLE IF EXISTS a", "SELECT JSON_OBJECT('a':1)"])
    assert not same
    assert newer


def test_a_parser_that_cannot_start_is_an_error_and_not_an_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(RuntimeError, match="ScriptDom ended with 1"):
        scriptdom.parse_errors(["SELECT 1"])

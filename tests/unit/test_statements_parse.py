"""Microsoft's own parser, with the grammar of SQL Server 2016, takes every text that the library can emit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.sqltext import ODD_NAMES, scripts, texts, with_variables

ParseErrors = Callable[[list[str]], list[list[str]]]
NAMES = {"default": "", **ODD_NAMES}


@pytest.fixture(scope="module")
def errors(parse_errors: ParseErrors) -> dict[str, dict[str, list[str]]]:
    """Of each odd name: text -> what the parser says against it. One process for all."""
    emitted = {
        (of, label): with_variables(text)
        for of, name in NAMES.items()
        for label, text in ({**texts(name, name), "grant to": scripts(role=name)["grant"]} if name else texts()).items()
    }
    said = dict(zip(emitted, parse_errors(list(emitted.values())), strict=True))
    return {of: {label: against for (name, label), against in said.items() if name == of} for of in NAMES}


@pytest.mark.parametrize("of", NAMES)
def test_every_text_parses_whatever_the_names(errors: dict[str, dict[str, list[str]]], of: str) -> None:
    assert len(errors[of]) >= 15
    assert {label: against for label, against in errors[of].items() if against} == {}

"""Expressions as T-SQL text: their values, types and errors, as Microsoft's documentation gives them.

Pages named in the tests are those of the Transact-SQL reference (learn.microsoft.com/sql/t-sql).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from sqllease.testing.server import syntax
from sqllease.testing.server.aggregates import bind_aggregate
from sqllease.testing.server.binding import Bound, BoundColumn, Evaluate, Rank
from sqllease.testing.server.conversion import convert
from sqllease.testing.server.expressions import bind, bind_predicate
from sqllease.testing.server.parser import parse_batch
from sqllease.testing.server.sqltypes import (
    BIGINT,
    BIT,
    DATETIME,
    DATETIME2,
    DATETIMEOFFSET,
    FLOAT,
    GUID,
    INT,
    MAX,
    ROWVERSION,
    SMALLINT,
    TINYINT,
    Moment,
    SqlError,
    SqlType,
    Value,
    nvarchar,
    varbinary,
    varchar,
)

BIN2 = "Latin1_General_100_BIN2"
CI_AS = "SQL_Latin1_General_CP1_CI_AS"
NOW = convert("2024-05-01T12:00:00.1234567", varchar(30), DATETIME2)

VARIABLES: dict[str, tuple[SqlType, Value]] = {
    "@i": (INT, 7),
    "@tiny": (TINYINT, 200),
    "@null": (INT, None),
    "@big": (BIGINT, 2147483648),
    "@bit": (BIT, 1),
    "@f": (FLOAT, 2.5),
    "@name": (nvarchar(10), "Job "),
    "@long": (nvarchar(MAX), "x"),
    "@token": (SqlType("binary", 8), b"\0" * 6 + b"\x07\xd3"),
    "@g": (GUID, None),
    "@at": (DATETIMEOFFSET, convert("2024-05-01T14:00:00+02:00", varchar(30), DATETIMEOFFSET)),
}
COLUMNS: dict[str, tuple[SqlType, str | None, Value]] = {
    "exact": (nvarchar(20), BIN2, "Job"),
    "loose": (nvarchar(20), CI_AS, "job"),
    "other": (nvarchar(20), "Latin1_General_CS_AS", "job"),
    "token": (ROWVERSION, None, b"\0" * 7 + b"\x09"),
}


@dataclass
class Query:
    found: list[tuple[Value, ...]]
    types: Sequence[SqlType] = (INT,)
    collations: Sequence[str | None] = (None,)

    def rows(self, frame: object) -> Iterator[tuple[Value, ...]]:
        return iter(self.found)


class Session:
    utc_offset_minutes = 120

    def intrinsic(self, name: str, args: tuple[Value, ...]) -> Value:
        return {"@@ROWCOUNT": 3, "OBJECT_ID": 42 if args[:1] == ("dbo.T",) else None, "SERVERPROPERTY": 5}.get(name)


@dataclass
class Frame:
    session: Session = field(default_factory=Session)
    statement_time: Moment = NOW  # type: ignore[assignment]


class Scope:
    collation = CI_AS

    def __init__(self, *rows: tuple[Value, ...]) -> None:
        self.found = list(rows)

    def computed(self, node: syntax.Expr) -> BoundColumn | None:
        return None

    def column(self, node: syntax.Column) -> BoundColumn:
        kind, collation, value = COLUMNS[node.name]
        return BoundColumn(kind, collation, lambda frame: value)

    def variable(self, name: str) -> tuple[SqlType, Evaluate]:
        kind, value = VARIABLES[name.lower()]
        return kind, lambda frame: value

    def query(self, query: syntax.Query) -> Query:
        return Query(self.found)


def bound(text: str, *rows: tuple[Value, ...]) -> Bound:
    (statement,) = parse_batch(f"SELECT {text}")
    assert isinstance(statement, syntax.SelectStatement)
    assert isinstance(statement.query, syntax.Select)
    item = statement.query.items[0]
    assert isinstance(item, syntax.SelectItem)
    return bind(item.expr, Scope(*rows))


def value(text: str, *rows: tuple[Value, ...]) -> Value:
    return bound(text, *rows).evaluate(Frame())


def shown(text: str) -> Value:
    """The value as text, as a client sees it."""
    return value(f"CAST({text} AS nvarchar(60))")


def test(condition: str, *rows: tuple[Value, ...]) -> bool | None:
    (statement,) = parse_batch(f"SELECT 1 WHERE {condition}")
    assert isinstance(statement, syntax.SelectStatement)
    assert isinstance(statement.query, syntax.Select)
    assert statement.query.where is not None
    return bind_predicate(statement.query.where, Scope(*rows))(Frame())


test.__test__ = False  # type: ignore[attr-defined]


def fails(number: int, text: str) -> str:
    with pytest.raises(SqlError) as caught:
        value(text)
    assert caught.value.number == number, caught.value.message
    return caught.value.message


# --- arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("7 / 2", 3, INT),
        ("-7 / 2", -3, INT),
        ("-7 % 3", -1, INT),
        ("@tiny + 1", 201, INT),
        ("@big * 2", 2**32, BIGINT),
        ("@i & 3 | 8", 11, INT),
        ("~@bit", 0, BIT),
        ("~@i", -8, INT),
        ("@f * 2", 5.0, FLOAT),
        ("'3' + 4", 7, INT),
        ("@token + 0", 2003, INT),
        ("1.0 / 3", Decimal("0.333333"), SqlType("decimal", precision=7, scale=6)),
        ("2.0 / 3", Decimal("0.666666"), SqlType("decimal", precision=7, scale=6)),
        ("1.5 + 2.25", Decimal("3.75"), SqlType("decimal", precision=4, scale=2)),
        ("1.5 * 1.5", Decimal("2.25"), SqlType("decimal", precision=5, scale=2)),
        ("2147483648", Decimal(2147483648), SqlType("decimal", precision=10)),
        ("NULL + 1", None, INT),
        ("N'a' + 'bc'", "abc", nvarchar(3)),
        ("'a' + NULL", None, varchar(2)),
        ("0x01 + 0x02", b"\x01\x02", varbinary(2)),
    ],
)
def test_arithmetic(text: str, expected: Value, kind: SqlType) -> None:
    """Pages of the operators; precision-scale-and-length for decimal results."""
    result = bound(text)
    assert (result.evaluate(Frame()), result.type) == (expected, kind)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (8134, "1 / 0"),
        (8134, "1.0 / 0"),
        (8115, "2147483647 + 1"),
        (8115, "@tiny + @tiny"),
        (245, "'x' + 1"),
        (402, "@bit + @bit"),
        (402, "0x01 + 'a'"),
        (8117, "'a' - 'b'"),
        (8117, "-'a'"),
        (402, "@f % 2"),
        (402, "@f & 2"),
        (206, "SYSUTCDATETIME() + 1"),
        (206, "@at - 1"),
        (40517, "GETDATE() + 1"),
    ],
)
def test_arithmetic_errors(number: int, text: str) -> None:
    fails(number, text)


def test_messages_of_arithmetic() -> None:
    assert fails(8134, "1 / 0") == "Divide by zero error encountered."
    assert fails(8115, "2147483647 + 1") == "Arithmetic overflow error converting expression to data type int."
    assert fails(402, "0x01 + 'a'") == "The data types varbinary and varchar are incompatible in the add operator."


# --- three-valued logic and comparison -----------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("NULL = NULL", None),
        ("NOT (NULL = 1)", None),
        ("1 = 1 AND NULL = 1", None),
        ("1 = 2 AND NULL = 1", False),
        ("1 = 1 OR NULL = 1", True),
        ("1 = 2 OR NULL = 1", None),
        ("@null IS NULL", True),
        ("@null IS NOT NULL", False),
        ("1 IN (1, NULL)", True),
        ("2 IN (1, NULL)", None),
        ("2 NOT IN (1, NULL)", None),
        ("2 NOT IN (1, 3)", True),
        ("2 BETWEEN 1 AND NULL", None),
        ("0 BETWEEN 1 AND NULL", False),
        ("2 NOT BETWEEN 1 AND 3", False),
        ("NULL LIKE '%'", None),
        ("'1' = 1", True),
        ("1 = 1.0", True),
        ("2 < 10", True),
        ("'2' < '10'", False),
        ("@token = 2003", True),
        ("@token < 0x00000000000007D4", True),
        ("'2024-05-01T12:00:00' = CAST('2024-05-01T14:00:00+02:00' AS datetimeoffset)", True),
        ("@at = CAST('2024-05-01 12:00' AS datetime2)", True),
        ("@at = CAST('2024-05-01 14:00' AS datetime2)", False),
        ("0x01 = 0x0100", True),
        ("SERVERPROPERTY(N'EngineEdition') = 5", True),
    ],
)
def test_comparison(condition: str, expected: bool | None) -> None:
    assert test(condition) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("@name = N'Job'", True),  # trailing blanks: string-comparison-assignment
        ("@name LIKE N'Job'", False),
        ("@name LIKE N'job_'", True),
        ("N'a' = N'A'", True),
        ("N'a' = N'A' COLLATE Latin1_General_100_BIN2", False),
        ("exact = N'JOB'", False),  # the column's collation beats the constant's
        ("loose = N'JOB'", True),
        ("exact = loose COLLATE Latin1_General_100_BIN2", False),
        ("exact LIKE N'j%'", False),
        ("loose LIKE N'J%'", True),
        ("N'50%' LIKE N'50!%' ESCAPE N'!'", True),
    ],
)
def test_text_comparison(condition: str, expected: bool) -> None:
    assert test(condition) is expected


def test_collation_conflict() -> None:
    """collation-precedence: implicit against implicit of another collation."""
    message = fails(468, "CASE WHEN exact = loose THEN 1 END")
    assert message == (
        f'Cannot resolve the collation conflict between "{BIN2}" and "{CI_AS}" in the equal to operation.'
    )
    conflict = bound("exact + loose")
    assert conflict.collation is not None
    assert conflict.collation[1] is Rank.CONFLICT
    fails(468, "CASE WHEN exact + loose = N'x' THEN 1 END")
    assert value("CASE WHEN exact + loose = N'jobjob' COLLATE Latin1_General_100_CI_AS THEN 1 END") == 1
    fails(468, "CASE WHEN N'a' COLLATE Latin1_General_CI_AS = N'b' COLLATE Turkish_CI_AS THEN 1 END")
    fails(448, "N'a' COLLATE Nowhere_CI_AS")
    fails(447, "1 COLLATE Latin1_General_CI_AS")


@pytest.mark.parametrize(
    ("number", "condition"),
    [(206, "@at = 1"), (402, "CAST(@at AS date) = CAST(@at AS time)"), (402, "@g = 1")],
)
def test_comparisons_that_do_not_exist(number: int, condition: str) -> None:
    with pytest.raises(SqlError) as caught:
        test(condition)
    assert caught.value.number == number


def test_subqueries() -> None:
    assert test("1 IN (SELECT 1)", (2,), (1,)) is True
    assert test("1 IN (SELECT 1)", (2,), (None,)) is None
    assert test("1 NOT IN (SELECT 1)", (2,)) is True
    assert test("EXISTS (SELECT 1)", (None,)) is True
    assert test("EXISTS (SELECT 1)") is False
    assert value("(SELECT 1)", (5,)) == 5
    assert value("(SELECT 1)") is None
    with pytest.raises(SqlError) as caught:
        value("(SELECT 1)", (5,), (6,))
    assert caught.value.number == 512


# --- CASE and its kin ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("CASE WHEN 1 = 2 THEN 1 ELSE 2.5 END", Decimal("2.5"), SqlType("decimal", precision=11, scale=1)),
        ("CASE @i WHEN 7 THEN 'seven' WHEN 8 THEN N'x' END", "seven", nvarchar(5)),
        ("CASE WHEN NULL = 1 THEN 1 END", None, INT),
        ("CASE WHEN 1 = 1 THEN NULL ELSE N'x' END", None, nvarchar(1)),
        ("COALESCE(NULL, 'ab', N'c')", "ab", nvarchar(2)),
        ("ISNULL(CAST(NULL AS varchar(2)), 'abcdef')", "ab", varchar(2)),
        ("ISNULL(NULL, 'abc')", "abc", varchar(3)),
        ("NULLIF(@i, 7)", None, INT),
        ("NULLIF(@i, NULL)", 7, INT),
        ("IIF(@i > 5, 'big', 'small')", "big", varchar(5)),
        ("CHOOSE(2, 'a', 'bcd')", "bcd", varchar(3)),
    ],
)
def test_choices(text: str, expected: Value, kind: SqlType) -> None:
    """case, coalesce (result type of highest precedence), isnull (type of the first argument), nullif, iif, choose."""
    result = bound(text)
    assert (result.evaluate(Frame()), result.type) == (expected, kind)


def test_choices_of_nothing() -> None:
    fails(8133, "CASE WHEN 1 = 1 THEN NULL END")
    fails(4127, "COALESCE(NULL, NULL)")
    fails(4151, "NULLIF(NULL, 1)")
    fails(245, "CASE WHEN 1 = 2 THEN 1 ELSE 'x' END")


def test_an_error_belongs_to_the_row_that_meets_it() -> None:
    assert value("CASE WHEN 1 = 1 THEN 1 ELSE 'x' END") == 1
    assert value("CASE WHEN 1 = 1 THEN 1 ELSE 1 / 0 END") == 1


def test_try_cast() -> None:
    assert value("TRY_CAST('x' AS int)") is None
    assert value("TRY_CONVERT(tinyint, 256)") is None
    assert value("CONVERT(varbinary(4), '0x0102', 1)") == b"\x01\x02"
    fails(529, "TRY_CAST(1 AS date)")
    fails(245, "TRY_CAST(CAST('x' AS int) AS bigint)")


# --- date and time -------------------------------------------------------------------------------


def test_now_is_the_statements_time() -> None:
    assert shown("SYSUTCDATETIME()") == "2024-05-01 12:00:00.1234567"
    assert shown("SYSDATETIME()") == "2024-05-01 14:00:00.1234567"
    assert shown("SYSDATETIMEOFFSET()") == "2024-05-01 14:00:00.1234567 +02:00"
    assert shown("CAST(SYSUTCDATETIME() AS datetimeoffset(7))") == "2024-05-01 12:00:00.1234567 +00:00"
    assert value("CONVERT(varchar(30), GETUTCDATE(), 121)") == "2024-05-01 12:00:00.123"
    assert value("CONVERT(varchar(30), CURRENT_TIMESTAMP, 121)") == "2024-05-01 14:00:00.123"
    assert bound("SYSUTCDATETIME()").type == DATETIME2
    assert not bound("SYSUTCDATETIME()").nullable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DATEADD(month, 1, CAST('2006-08-30' AS date))", "2006-09-30"),
        ("DATEADD(month, 1, CAST('2006-08-31' AS date))", "2006-09-30"),
        ("DATEADD(quarter, -1, CAST('2024-05-31' AS date))", "2024-02-29"),
        ("DATEADD(nanosecond, 49, CAST('2007-01-01 13:10:10.1111111' AS datetime2))", "2007-01-01 13:10:10.1111111"),
        ("DATEADD(nanosecond, 50, CAST('2007-01-01 13:10:10.1111111' AS datetime2))", "2007-01-01 13:10:10.1111112"),
        ("DATEADD(microsecond, 1, CAST('2007-01-01 13:10:10.1111111' AS datetime2))", "2007-01-01 13:10:10.1111121"),
        ("DATEADD(second, -1, @at)", "2024-05-01 13:59:59.0000000 +02:00"),
        ("DATEADD(hour, 1, CAST('23:30' AS time(0)))", "00:30:00"),
        ("DATEADD(second, 2.9, @at)", "2024-05-01 14:00:02.0000000 +02:00"),
        ("SWITCHOFFSET(CAST('1998-09-20 7:45:50.71345 -5:00' AS datetimeoffset), '-08:00')",
         "1998-09-20 04:45:50.7134500 -08:00"),
        ("TODATETIMEOFFSET(CAST('2010-01-01 10:00' AS datetime2(0)), '+05:30')", "2010-01-01 10:00:00 +05:30"),
    ],
)  # fmt: skip
def test_dateadd_and_offsets(text: str, expected: str) -> None:
    """dateadd, switchoffset, todatetimeoffset."""
    assert shown(text) == expected


def test_dateadd_overflows() -> None:
    """dateadd, section "number argument" and "date argument"."""
    message = fails(8115, "DATEADD(year, 2147483648, '20060731')")
    assert message == "Arithmetic overflow error converting expression to data type int."
    fails(8115, "DATEADD(microsecond, @big, @at)")
    message = fails(517, "DATEADD(year, 2147483647, '20060731')")
    assert message == "Adding a value to a 'datetime' column caused an overflow."
    assert "'datetimeoffset'" in fails(517, "DATEADD(second, 2147483647, CAST('9999-12-31' AS datetimeoffset))")


def test_date_parts_that_do_not_exist() -> None:
    assert fails(155, "DATEADD(fortnight, 1, @at)") == "'fortnight' is not a recognized dateadd option."
    message = fails(9810, "DATEADD(hour, 1, CAST(@at AS date))")
    assert message == "The datepart hour is not supported by date function dateadd for data type date."
    fails(9810, "DATEADD(microsecond, 1, GETDATE())")
    fails(9810, "DATEADD(day, 1, CAST(@at AS time))")
    fails(9812, "SWITCHOFFSET(@at, '+99:00')")
    assert bound("DATEADD(day, 1, '20060731')").type == DATETIME
    fails(241, "DATEADD(day, 1, '2006-07-31 00:00:00.1234567')")


@pytest.mark.parametrize("part", "year quarter month dayofyear day week hour minute second millisecond".split())
def test_datediff_page_counts_boundaries(part: str) -> None:
    """datediff: each of these pairs is one boundary apart."""
    assert value(f"DATEDIFF({part}, '2005-12-31 23:59:59.9999999', '2006-01-01 00:00:00.0000000')") == 1


def test_datediff() -> None:
    epoch = "CAST('1970-01-01T00:00:00+00:00' AS datetimeoffset(7))"
    assert value(f"DATEDIFF_BIG(microsecond, {epoch}, SYSUTCDATETIME())") == 1714564800123456
    assert value(f"DATEDIFF_BIG(second, @at, {epoch})") == -1714564800
    assert bound(f"DATEDIFF_BIG(second, @at, {epoch})").type == BIGINT
    fails(535, f"DATEDIFF(millisecond, {epoch}, @at)")
    assert value("DATEDIFF(day, '2024-05-01 23:00 -02:00', @at)") == -1  # by UTC
    assert value("DATEDIFF(minute, CAST('10:00' AS time), CAST('11:30' AS time))") == 90


def test_datepart_page() -> None:
    """datepart: the parts of 2007-10-30 12:15:32.1234567 +05:10."""
    moment = "CAST('2007-10-30 12:15:32.1234567 +05:10' AS datetimeoffset)"
    parts = {
        "year": 2007, "quarter": 4, "month": 10, "dayofyear": 303, "day": 30, "week": 44, "weekday": 3, "hour": 12,
        "minute": 15, "second": 32, "millisecond": 123, "microsecond": 123456, "nanosecond": 123456700, "tzoffset": 310,
        "iso_week": 44,
    }  # fmt: skip
    assert {part: value(f"DATEPART({part}, {moment})") for part in parts} == parts
    assert value(f"YEAR({moment}) * 100 + MONTH({moment})") == 200710


def test_day_page() -> None:
    """day: the example; of a time alone it is 1, the base day."""
    assert value("DAY('2015-04-30 01:01:01.1234567')") == 30
    assert value("DAY('01:01:01')") == 1


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LEN(N'abc  ')", 3),
        ("LEN(123)", 3),
        ("LEN(0x2020)", 0),
        ("DATALENGTH(N'abc  ')", 10),
        ("DATALENGTH('abc  ')", 5),
        ("DATALENGTH(@i)", 4),
        ("DATALENGTH(@at)", 10),
        ("DATALENGTH(@token)", 8),
        ("LEN(N'\N{GRINNING FACE}')", 2),
        ("LEN(N'\N{GRINNING FACE}' COLLATE Latin1_General_100_CI_AS_SC)", 1),
        ("LEFT('abcdefg', 2)", "ab"),
        ("RIGHT('abcdefg', 3)", "efg"),
        ("SUBSTRING('abcdef', 2, 3)", "bcd"),
        ("SUBSTRING('abcdef', 0, 3)", "ab"),
        ("SUBSTRING(0x010203, 2, 1)", b"\x02"),
        ("SUBSTRING(N'\N{GRINNING FACE}', 1, 1)", "\ud83d"),
        ("SUBSTRING(N'\N{GRINNING FACE}', 1, 1) + SUBSTRING(N'\N{GRINNING FACE}', 2, 1)", "\N{GRINNING FACE}"),
        ("UPPER(N'straße')", "STRAßE"),
        ("LOWER('ABC')", "abc"),
        ("LTRIM(RTRIM('  a  '))", "a"),
        ("TRIM(' a ')", "a"),
        ("REPLACE('abcdefghicde', 'CDE', 'xxx')", "abxxxfghixxx"),
        ("REPLACE('abc' COLLATE Latin1_General_BIN2, 'C', 'x')", "abc"),
        ("REPLACE('abc', '', 'x')", "abc"),
        ("CHARINDEX('BC', 'abcabc')", 2),
        ("CHARINDEX('bc', 'abcabc', 3)", 5),
        ("CHARINDEX('x', 'abc')", 0),
        ("CONCAT('a', NULL, 1, N'b')", "a1b"),
        ("REPLICATE('ab', 3)", "ababab"),
        ("REPLICATE('ab', -1)", None),
        ("'a' + SPACE(2) + 'b'", "a  b"),
        ("SPACE(-1)", None),
        ("QUOTENAME('abc[]def')", "[abc[]]def]"),
        ("QUOTENAME('it''s', '''')", "'it''s'"),
        ("PARSENAME('db.[a.b].t', 2)", "a.b"),
        ("PARSENAME('db.a.t', 4)", None),
        ("UNICODE(N'\N{GRINNING FACE}')", 0xD83D),
        ("NCHAR(1046)", "Ж"),
        ("ASCII('A')", 65),
        ("CHAR(128)", "€"),
        ("LEN(NULL)", None),
    ],
)
def test_text_functions(text: str, expected: Value) -> None:
    """Pages of the string functions."""
    assert value(text) == expected


def test_types_of_text_functions() -> None:
    assert bound("LEN(@long)").type == BIGINT
    assert bound("LEFT(@name, 3)").type == nvarchar(3)
    assert bound("QUOTENAME(@name)").type == nvarchar(258)
    assert bound("UPPER(exact)").collation == (BIN2, Rank.IMPLICIT)
    fails(537, "LEFT('a', -1)")
    fails(536, "RIGHT('a', -1)")


# --- numbers, identifiers, session ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ABS(-7)", 7),
        ("SIGN(-1.5)", Decimal(-1)),
        ("CEILING(123.45)", Decimal(124)),
        ("FLOOR(-123.45)", Decimal(-124)),
        ("ROUND(123.9994, 3)", Decimal("123.9990")),
        ("ROUND(123.9995, 3)", Decimal("124.0000")),
        ("ROUND(748, -2)", 700),
        ("ROUND(150.75, 0, 1)", Decimal("150.00")),
    ],
)
def test_number_functions(text: str, expected: Value) -> None:
    """abs, sign, ceiling, floor, round."""
    assert value(text) == expected


def test_round_page_overflow() -> None:
    """round: ROUND(748.58, -3) does not fit decimal(5,2)."""
    fails(8115, "ROUND(748.58, -3)")


def test_what_the_session_answers() -> None:
    assert (value("@@ROWCOUNT"), bound("@@ROWCOUNT").type) == (3, INT)
    assert (value("OBJECT_ID(N'dbo.T')"), bound("OBJECT_ID(N'dbo.T')").type) == (42, INT)
    assert bound("XACT_STATE()").type == SMALLINT
    assert bound("DATABASEPROPERTYEX(DB_NAME(), N'Updateability')").type.name == "sql_variant"
    assert value("CAST(SERVERPROPERTY(N'EngineEdition') AS int)") == 5
    assert value("CAST(token AS bigint)") == 9
    assert bound("NEWID()").type == GUID
    assert value("NEWID()") != value("NEWID()")


def test_unknown_and_refused_functions() -> None:
    assert "is not a recognized built-in function name." in fails(195, "FROBNICATE(1)")
    assert fails(174, "LEN('a', 'b')") == "The len function requires 1 argument(s)."
    assert fails(189, "CHARINDEX('a')") == "The charindex function requires 2 to 3 arguments."
    fails(174, "DATEADD(day, 1)")
    fails(40517, "CHECKSUM('a')")
    fails(40517, "FORMAT(1, 'x')")
    fails(40517, "@@FETCH_STATUS")
    fails(147, "CASE WHEN COUNT(*) > 1 THEN 1 END")


# --- aggregates ----------------------------------------------------------------------------------


def folded(text: str, values: Sequence[Value], argument: SqlType = INT) -> tuple[Value, SqlType]:
    (statement,) = parse_batch(f"SELECT {text}")
    assert isinstance(statement, syntax.SelectStatement)
    assert isinstance(statement.query, syntax.Select)
    item = statement.query.items[0]
    assert isinstance(item, syntax.SelectItem)
    node = item.expr
    assert isinstance(node, syntax.Function)
    star = isinstance(node.args[0], syntax.Star)
    collation = (CI_AS, Rank.IMPLICIT) if "char" in argument.name else None
    found = bind_aggregate(node, None if star else Bound(argument, lambda frame: None, collation), star)
    return found.fold(values), found.type


def test_aggregates() -> None:
    assert folded("COUNT(*)", [1, None]) == (2, INT)
    assert folded("COUNT(x)", [1, None, 1]) == (2, INT)
    assert folded("COUNT(DISTINCT x)", ["a", "A ", None], nvarchar(5)) == (1, INT)
    assert folded("COUNT_BIG(x)", []) == (0, BIGINT)
    assert folded("SUM(x)", [1, None, 2], TINYINT) == (3, INT)
    assert folded("SUM(x)", []) == (None, INT)
    assert folded("AVG(x)", [1, 2, -6]) == (-1, INT)
    assert folded("AVG(x)", [Decimal("1.0"), Decimal("2.0")], SqlType("decimal", precision=2, scale=1)) == (
        Decimal("1.500000"),
        SqlType("decimal", precision=38, scale=6),
    )
    assert folded("MIN(x)", ["b", "A", None], nvarchar(5)) == ("A", nvarchar(5))
    assert folded("MAX(x)", [b"\x01", b"\x02"], ROWVERSION) == (b"\x02", ROWVERSION)
    with pytest.raises(SqlError) as caught:
        folded("SUM(x)", [2**31 - 1, 1])
    assert caught.value.number == 8115
    with pytest.raises(SqlError) as caught:
        folded("SUM(x)", [], BIT)
    assert caught.value.message == "Operand data type bit is invalid for sum operator."

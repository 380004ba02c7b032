"""Values and errors of conversions, collations and dates, as Microsoft's documentation gives them.

Pages named in the tests are those of the Transact-SQL reference (learn.microsoft.com/sql/t-sql).
"""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from sqllease.testing.server.collation import find, join, known, like, order_key, sort_key, split, unit_length
from sqllease.testing.server.conversion import convert, store
from sqllease.testing.server.families import common_type
from sqllease.testing.server.sqltypes import (
    BIGINT,
    BIT,
    DATE,
    DATETIME,
    DATETIME2,
    DATETIMEOFFSET,
    EPOCH_TICKS,
    FLOAT,
    GUID,
    INT,
    MAX,
    ROWVERSION,
    SMALLINT,
    TIME,
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
WINDOWS = "Latin1_General_100_CI_AS"


def decimal(precision: int, scale: int = 0) -> SqlType:
    return SqlType("decimal", precision=precision, scale=scale)


def cast(value: Value, source: SqlType, target: SqlType, style: int | None = None) -> Value:
    return convert(value, source, target, style, explicit=True)


def text_to(text: str, target: SqlType) -> Value:
    return cast(text, varchar(100), target)


def to_text(text: str, kind: SqlType, style: int | None = None) -> Value:
    """The ISO text as a value of the type, and back to text."""
    return cast(text_to(text, kind), kind, varchar(100), style)


def fails(number: int, function: object, *args: object, **keywords: object) -> str:
    with pytest.raises(SqlError) as caught:
        function(*args, **keywords)  # type: ignore[operator]
    assert caught.value.number == number
    return caught.value.message


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("42", INT, 42),
        (" -7 ", SMALLINT, -7),
        ("", INT, 0),
        ("true", BIT, 1),
        ("7", BIT, 1),
        ("1.25", decimal(3, 1), Decimal("1.3")),
        ("1e3", FLOAT, 1000.0),
        ("0E984A58-0E4F-4B6B-9F0B-6C5E9A1B2C3D", GUID, uuid.UUID("0e984a58-0e4f-4b6b-9f0b-6c5e9a1b2c3d")),
    ],
)
def test_text_to_other_types(text: str, target: SqlType, expected: Value) -> None:
    assert text_to(text, target) == expected


@pytest.mark.parametrize(
    ("number", "text", "target"),
    [
        (245, "abc", INT),
        (245, "1.5", INT),
        (248, "99999999999", INT),
        (244, "70000", SMALLINT),
        (8114, "abc", BIGINT),
        (8115, "99999999999999999999", BIGINT),
        (8114, "abc", decimal(5)),
        (8115, "1000", decimal(5, 3)),
        (8114, "abc", FLOAT),
        (8169, "abc", GUID),
        (241, "abc", DATETIMEOFFSET),
        (241, "2024-02-30", DATE),
        (241, "2024-01-01T24:00:00", DATETIME2),
        (241, "2024-01-01 00:00:00 +14:01", DATETIMEOFFSET),
        (242, "2024-02-30", DATETIME),
        (242, "1752-12-31", DATETIME),
        (40517, "Jan 1 2024", DATE),
        (40517, "1/2/2024", DATE),
    ],
)
def test_text_that_does_not_convert(number: int, text: str, target: SqlType) -> None:
    fails(number, text_to, text, target)


def test_messages_name_value_and_type() -> None:
    message = fails(245, text_to, "abc", INT)
    assert message == "Conversion failed when converting the varchar value 'abc' to data type int."
    assert fails(220, cast, 256, INT, TINYINT) == "Arithmetic overflow error for data type tinyint, value = 256."
    assert fails(8115, cast, 2**31, BIGINT, INT) == "Arithmetic overflow error converting expression to data type int."
    message = fails(8115, cast, Decimal("123.45"), decimal(5, 2), decimal(4, 2))
    assert message == "Arithmetic overflow error converting numeric to data type numeric."


def test_cast_and_convert_page_rounds_and_truncates() -> None:
    """cast-and-convert: numeric to int truncates; numeric to numeric rounds."""
    assert cast(Decimal("10.6496"), decimal(6, 4), INT) == 10
    assert cast(Decimal("-10.6496"), decimal(6, 4), INT) == -10
    assert cast(Decimal("10.3496847"), decimal(9, 7), decimal(6, 4)) == Decimal("10.3497")
    assert cast(-10.6496, FLOAT, INT) == -10


def test_a_number_too_long_for_its_text() -> None:
    """cast-and-convert: int to varchar gives an asterisk, int to nvarchar an error."""
    assert cast(12345, INT, varchar(2)) == "*"
    fails(8115, cast, 12345, INT, nvarchar(2))
    fails(8115, cast, Decimal("12.5"), decimal(3, 1), varchar(2))


def test_float_to_text_has_six_digits_by_default() -> None:
    assert cast(0.1 + 0.2, FLOAT, varchar(30)) == "0.3"
    assert cast(1e10, FLOAT, varchar(30)) == "1e+010"


# --- binary --------------------------------------------------------------------------------------


def test_binary_page_pads_numbers_on_the_left_and_text_on_the_right() -> None:
    """binary-and-varbinary: 123456 is 0x0001e240; binary(2) keeps 0xe240, which is 57920 as an int."""
    assert cast(123456, INT, SqlType("binary", 4)) == bytes.fromhex("0001e240")
    assert cast(123456, INT, SqlType("binary", 2)) == bytes.fromhex("e240")
    assert cast(bytes.fromhex("e240"), SqlType("binary", 2), INT) == 57920
    assert cast("ab", varchar(2), SqlType("binary", 4)) == b"ab\0\0"
    assert cast(b"abcd", varbinary(4), SqlType("binary", 2)) == b"ab"


def test_rowversion_as_bigint_and_back() -> None:
    token = (0x07D3).to_bytes(8, "big")
    assert cast(token, ROWVERSION, BIGINT) == 0x07D3
    assert cast(0x07D3, BIGINT, SqlType("binary", 8)) == token
    assert cast(b"\xff" * 8, SqlType("binary", 8), BIGINT) == -1
    assert convert(token, ROWVERSION, SqlType("binary", 8)) == token


def test_binary_styles() -> None:
    """cast-and-convert, section on binary styles: 0x4E616d65 is 'Name'."""
    name = bytes.fromhex("4E616d65")
    assert cast(name, varbinary(4), SqlType("char", 8), 0) == "Name    "
    assert cast(name, varbinary(4), SqlType("char", 8), 1) == "0x4E616D"
    assert cast(name, varbinary(4), SqlType("char", 8), 2) == "4E616D65"
    assert cast("0x4E616D65", varchar(10), varbinary(8), 1) == name
    fails(8114, cast, "4E616D65", varchar(10), varbinary(8), 1)
    assert cast("Na", nvarchar(2), varbinary(8)) == "Na".encode("utf-16-le")


# --- what may become what ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "source", "target", "explicit"),
    [
        (257, nvarchar(5), varbinary(5), False),
        (257, SqlType("sql_variant"), INT, False),
        (206, INT, DATE, False),
        (529, INT, DATE, True),
        (529, DATE, TIME, True),
        (206, GUID, INT, False),
        (529, varbinary(8), FLOAT, True),
        (40517, SqlType("xml"), INT, True),
    ],
)
def test_conversions_that_are_not_allowed(number: int, source: SqlType, target: SqlType, explicit: bool) -> None:
    fails(number, convert, None, source, target, explicit=explicit)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([INT, BIGINT], BIGINT),
        ([varchar(10), nvarchar(5)], nvarchar(10)),
        ([SqlType("char", 3), SqlType("char", 3)], SqlType("char", 3)),
        ([SqlType("char", 3), SqlType("char", 5)], varchar(5)),
        ([SqlType("nchar", 3), varchar(5)], nvarchar(5)),
        ([varchar(10), varchar(MAX)], varchar(MAX)),
        ([varchar(10), INT], INT),
        ([decimal(5, 2), decimal(4, 3)], decimal(6, 3)),
        ([decimal(5, 2), INT], decimal(12, 2)),
        ([DATETIME, DATETIMEOFFSET], DATETIMEOFFSET),
        ([SqlType("datetime2", scale=0), SqlType("datetime2", scale=3)], SqlType("datetime2", scale=3)),
        ([varbinary(8), BIGINT], BIGINT),
        ([varchar(40), GUID], GUID),
    ],
)
def test_common_type(types: list[SqlType], expected: SqlType) -> None:
    """data-type-precedence, precision-scale-and-length."""
    assert common_type(types) == expected
    assert common_type(types[::-1]) == expected


# --- lengths -------------------------------------------------------------------------------------


def test_variables_are_cut_columns_refuse() -> None:
    assert convert("abcdef", varchar(6), varchar(3)) == "abc"
    assert convert("a\N{GRINNING FACE}b", nvarchar(4), nvarchar(3)) == "a\N{GRINNING FACE}"
    message = fails(2628, store, "abcdef", nvarchar(6), nvarchar(3), table="app.dbo.T", column="c")
    assert message == (
        "String or binary data would be truncated in table 'app.dbo.T', column 'c'. Truncated value: 'abc'."
    )
    fails(8152, store, "abcdef", nvarchar(6), nvarchar(3), modern=False)
    fails(2628, store, b"abcd", varbinary(4), SqlType("binary", 3))
    assert store("abcdef", nvarchar(6), nvarchar(3), ansi_warnings=False) == "abc"
    assert store("abc   ", nvarchar(6), nvarchar(3)) == "abc"


def test_utf16_units_count() -> None:
    assert unit_length("a\N{GRINNING FACE}") == 3
    assert len(split("a\N{GRINNING FACE}")) == 3
    assert join(split("a\N{GRINNING FACE}")) == "a\N{GRINNING FACE}"
    assert store("\N{GRINNING FACE}", nvarchar(2), nvarchar(2)) == "\N{GRINNING FACE}"
    fails(2628, store, "\N{GRINNING FACE}", nvarchar(2), nvarchar(1))


def test_fixed_types_are_padded() -> None:
    assert store("a", varchar(1), SqlType("nchar", 3)) == "a  "
    assert store(b"a", varbinary(1), SqlType("binary", 3)) == b"a\0\0"


def test_varchar_knows_code_page_1252_only() -> None:
    assert convert("aЖ€", nvarchar(3), varchar(3)) == "a?€"


# --- dates ---------------------------------------------------------------------------------------


def test_datetimeoffset_compares_by_instant() -> None:
    """datetimeoffset: 12:00+00:00 and 14:00+02:00 are the same moment."""
    assert text_to("2024-05-01 12:00 +00:00", DATETIMEOFFSET) == text_to("2024-05-01T14:00:00+02:00", DATETIMEOFFSET)
    epoch = text_to("1970-01-01T00:00:00Z", DATETIMEOFFSET)
    assert isinstance(epoch, Moment)
    assert (epoch.ticks, epoch.offset) == (EPOCH_TICKS, 0)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (TIME, "12:35:29.1234567"),
        (DATE, "2007-05-08"),
        (SqlType("datetime2", scale=7), "2007-05-08 12:35:29.1234567"),
        (DATETIMEOFFSET, "2007-05-08 12:35:29.1234567 +12:15"),
    ],
)
def test_data_type_pages_sample(target: SqlType, expected: str) -> None:
    """datetimeoffset, section "Data type comparison": one literal as every type."""
    assert to_text("2007-05-08 12:35:29.1234567 +12:15", target) == expected


def test_rounding() -> None:
    """datetime: steps of .000, .003, .007 seconds; datetime2 rounds up."""
    assert [to_text(f"1998-01-01 23:59:59.{ms}", DATETIME, 121) for ms in ("990", "993", "995", "998", "999")] == [
        "1998-01-01 23:59:59.990",
        "1998-01-01 23:59:59.993",
        "1998-01-01 23:59:59.997",
        "1998-01-01 23:59:59.997",
        "1998-01-02 00:00:00.000",
    ]
    assert to_text("2024-01-01 10:00:00.5", SqlType("datetime2", scale=0)) == "2024-01-01 10:00:01"
    assert to_text("9999-12-31 23:59:59.9999999", SqlType("datetime2", scale=3)) == "9999-12-31 23:59:59.999"


def test_between_date_types() -> None:
    moment = text_to("2024-05-01 14:00:00 +02:00", DATETIMEOFFSET)
    assert cast(cast(moment, DATETIMEOFFSET, DATETIME2), DATETIME2, varchar(40)) == "2024-05-01 14:00:00.0000000"
    local = text_to("2024-05-01 14:00:00", DATETIME2)
    assert cast(cast(local, DATETIME2, DATETIMEOFFSET), DATETIMEOFFSET, varchar(40)) == (
        "2024-05-01 14:00:00.0000000 +00:00"
    )
    noon = text_to("12:00", TIME)
    assert cast(cast(noon, TIME, DATETIME2), DATETIME2, varchar(19)) == "1900-01-01 12:00:00"
    fails(242, cast, text_to("0001-01-01", DATE), DATE, DATETIME)


def test_date_styles() -> None:
    """cast-and-convert, date and time styles."""
    assert to_text("2006-04-25T15:50:59.997", DATETIME) == "Apr 25 2006  3:50PM"
    assert to_text("2006-04-25T15:50:59.997", DATETIME, 120) == "2006-04-25 15:50:59"
    assert to_text("2006-04-25T15:50:59.997", DATETIME, 126) == "2006-04-25T15:50:59.997"
    assert to_text("2006-04-25T15:50:59", DATETIME, 126) == "2006-04-25T15:50:59"
    assert to_text("2006-04-25T15:50:59.997", DATETIME, 112) == "20060425"
    assert to_text("2006-04-25 15:50:59.1234567 +02:00", DATETIMEOFFSET, 126) == "2006-04-25T15:50:59.1234567+02:00"
    assert to_text("2006-04-25 15:50:59.1234567 +02:00", DATETIMEOFFSET, 127) == "2006-04-25T13:50:59.1234567Z"
    fails(40517, to_text, "2006-04-25", DATE, 130)


# --- collations ----------------------------------------------------------------------------------


def same(a: str, b: str, collation: str) -> bool:
    return bool(sort_key(a, collation) == sort_key(b, collation))


def test_known_names() -> None:
    for name in (BIN2, "Latin1_General_BIN2", CI_AS, WINDOWS, "Latin1_General_100_CI_AS_SC", "Latin1_General_CS_AS"):
        assert known(name.lower()).name == name
    assert known("turkish_ci_as").name == "Turkish_CI_AS"
    assert known("Japanese_CI_AS").case_sensitive is False
    assert fails(448, known, "Klingon_CI_AS") == "Invalid collation 'Klingon_CI_AS'."


@pytest.mark.parametrize("collation", [BIN2, CI_AS, WINDOWS])
def test_trailing_blanks_do_not_count(collation: str) -> None:
    """string-comparison-assignment: the standard pads before comparing."""
    assert same("abc", "abc   ", collation)
    assert same("", "  ", collation)
    assert not same("abc", " abc", collation)
    assert not same("abc", "abc\t", collation)


def test_padding_orders_like_endless_blanks() -> None:
    texts = ["a b", "a", "a\t", "a  b", "a \t", "ab", "a!", "", "a  ", "\ue000", "a b c", "a b\t"]
    width = 12

    def padded(text: str) -> list[int]:
        return [ord(char) for char in text.ljust(width)]

    assert sorted(texts, key=lambda text: sort_key(text, BIN2)) == sorted(texts, key=padded)


def test_binary_collation_is_exact() -> None:
    assert not same("Job", "job", BIN2)
    assert not same("\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}", BIN2)
    assert not same("\N{GRINNING FACE}", "", BIN2)


def test_case_insensitive_collations() -> None:
    for collation in (CI_AS, WINDOWS):
        assert same("Job-A", "job-a", collation)
        assert same("ﾊ", "ハ", collation)
        assert same("は", "ハ", collation)
        assert same("\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}", collation)
        assert not same("resume", "résumé", collation)
    assert same("resume", "résumé", "Latin1_General_CI_AI")
    assert not same("Job", "job", "Latin1_General_CS_AS")
    assert same("ﾊ", "ハ", "Latin1_General_CS_AS")


def test_old_tables_give_emoji_no_weight() -> None:
    assert same("\N{SMILING CAT FACE WITH OPEN MOUTH}", "", CI_AS)
    assert not same("\N{SMILING CAT FACE WITH OPEN MOUTH}", "", WINDOWS)


def test_turkish_i() -> None:
    assert same("i", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "Turkish_CI_AS")
    assert not same("i", "I", "Turkish_CI_AS")
    assert same("i", "I", CI_AS)


def test_order_by_letters_then_accents_then_case() -> None:
    names = ["b", "é", "E", "e", "a", "A"]
    ordered = sorted(names, key=lambda name: sort_key(name, "Latin1_General_CS_AS"))
    assert ordered == ["a", "A", "b", "e", "E", "é"]


def test_keys_of_other_types() -> None:
    assert sort_key(b"\x01\x00") == sort_key(b"\x01")
    assert sort_key(b"\x02") > sort_key(b"\x01\xff")
    low, high = uuid.UUID("ffffffff-0000-0000-0000-000000000000"), uuid.UUID("00000000-0000-0000-0000-000000000001")
    assert sort_key(low) < sort_key(high)
    assert order_key(None) < order_key("")


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abc", "a%", True),
        ("abc", "A_C", True),
        ("abc ", "abc", False),
        ("abc", "[a-c]bc", True),
        ("abc", "[^a]bc", False),
        ("5%", "5[%]", True),
        ("_n", "[_]n", True),
        ("a\nb", "a%b", True),
        ("[", "[[]", True),
        ("]", "]", True),
    ],
)
def test_like(text: str, pattern: str, expected: bool) -> None:
    """like: wildcards as literals; trailing blanks count for Unicode data, and not for varchar."""
    assert like(pattern, None, CI_AS, False)(text) is expected


def test_like_escape_and_padding() -> None:
    assert like("50!%", "!", CI_AS, False)("50%")
    assert not like("50!%", "!", CI_AS, False)("500")
    assert like("abc", None, CI_AS, True)("abc  ")
    assert not like("ABC", None, BIN2, False)("abc")
    assert like("__", None, WINDOWS, False)("\N{GRINNING FACE}")
    assert like("_", None, "Latin1_General_100_CI_AS_SC", False)("\N{GRINNING FACE}")


def test_find_follows_the_collation() -> None:
    assert find("xxJOB", "job", 0, CI_AS) == (2, 5)
    assert find("xxJOB", "job", 0, BIN2) is None

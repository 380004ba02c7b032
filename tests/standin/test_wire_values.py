"""Values over the wire, there and back, with both drivers. Right values: MS-TDS (section numbers below) and
Microsoft's pages on the data types.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Iterator
from decimal import Decimal

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.encoding import encode, read_parameter, type_info
from sqllease.testing.server.sqltypes import DATETIME, DATETIMEOFFSET, GUID, Moment, SqlType, Value, nvarchar, varbinary
from sqllease.testing.server.wire import Reader
from tests.drivers import Driver


@pytest.fixture
def connection(server: LocalSqlServer, driver: Driver) -> Iterator[pyodbc.Connection]:
    connection = pyodbc.connect(server.connection_string(driver.odbc), autocommit=True, timeout=5)
    yield connection
    connection.close()


VALUES = [
    ("CAST(1 AS bit)", True),
    ("CAST(255 AS tinyint)", 255),
    ("CAST(-32768 AS smallint)", -32768),
    ("CAST(-2147483648 AS int)", -2147483648),
    ("CAST(9223372036854775807 AS bigint)", 9223372036854775807),
    ("CAST(1.5 AS float)", 1.5),
    (
        "CAST('-12345678901234567890123456789012345.678' AS decimal(38,3))",
        Decimal("-12345678901234567890123456789012345.678"),
    ),
    ("CAST(1.5 AS decimal(5,2))", Decimal("1.50")),
    ("CAST('0a0b0c0d-0102-0304-0506-070809101112' AS uniqueidentifier)", "0A0B0C0D-0102-0304-0506-070809101112"),
    ("CAST('0001-01-01' AS date)", dt.date(1, 1, 1)),
    ("CAST('9999-12-31' AS date)", dt.date(9999, 12, 31)),
    ("CAST('23:59:59.9999999' AS time(7))", dt.time(23, 59, 59, 999999)),
    ("CAST('12:34:56' AS time(0))", dt.time(12, 34, 56)),
    ("CAST('2024-02-29T01:02:03.4567891' AS datetime2(7))", dt.datetime.fromisoformat("2024-02-29T01:02:03.456789")),
    ("CAST('2024-02-29T01:02:03.456' AS datetime2(3))", dt.datetime.fromisoformat("2024-02-29T01:02:03.456000")),
    ("CAST('2024-02-29T01:02:03.456' AS datetime)", dt.datetime.fromisoformat("2024-02-29T01:02:03.457000")),
    ("CAST('1899-12-31T23:59:59.003' AS datetime)", dt.datetime.fromisoformat("1899-12-31T23:59:59.003000")),
    ("CAST(N'a\U0001f600é' AS nvarchar(10))", "a\U0001f600é"),
    ("CAST(N'ab' AS nchar(4))", "ab  "),
    ("CAST('x€é' AS varchar(10))", "x€é"),
    ("CAST('x' AS char(3))", "x  "),
    ("CAST(N'' AS nvarchar(10))", ""),
    ("CAST(N'' AS nvarchar(max))", ""),
    ("CAST('long' AS varchar(max))", "long"),
    ("CAST(0x0001FF AS varbinary(10))", b"\x00\x01\xff"),
    ("CAST(0x01 AS binary(3))", b"\x01\x00\x00"),
    ("CAST(0x AS varbinary(max))", b""),
]
TYPES = sorted({expression.rpartition(" AS ")[2][:-1] for expression, _ in VALUES} | {"datetimeoffset(7)"})


@pytest.mark.parametrize(("expression", "expected"), VALUES)
def test_a_value_of_each_type_arrives_exactly(connection: pyodbc.Connection, expression: str, expected: object) -> None:
    """2.2.5.4 and 2.2.5.5; datetime is rounded to 1/300 s (Microsoft, "datetime")."""
    value = connection.execute(f"SELECT {expression} AS v").fetchval()
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize("sql_type", TYPES)
def test_a_null_of_each_type_arrives_as_none(connection: pyodbc.Connection, sql_type: str) -> None:
    connection.add_output_converter(-155, bytes)  # pyodbc refuses datetimeoffset otherwise, NULL or not
    assert tuple(connection.execute(f"SELECT CAST(NULL AS {sql_type}) AS v, 1 AS n").fetchone()) == (None, 1)


def test_a_datetimeoffset_carries_utc_and_its_offset(connection: pyodbc.Connection) -> None:
    """2.2.5.5.1.9: the time on the wire is UTC, the client adds the offset (here minus 5:30)."""
    connection.add_output_converter(-155, lambda data: struct.unpack("<h5HI2h", data))
    value = connection.execute("SELECT CAST('2024-02-29T01:02:03.4567891-05:30' AS datetimeoffset(7)) AS v").fetchval()
    assert value == (2024, 2, 29, 1, 2, 3, 456789100, -5, -30)


PARAMETERS = [
    (True, "bit"),
    (-7, "int"),
    (1 << 40, "bigint"),
    (-(1 << 63), "bigint"),
    (1.25, "float"),
    (Decimal("1.50"), "decimal(3,2)"),
    (Decimal("-12345678901234567890.123"), "decimal(23,3)"),
    ("abc", "nvarchar(6)"),
    ("a\U0001f600é", "nvarchar(8)"),
    ("", "nvarchar(1)"),
    (b"\x00\xff", "varbinary(2)"),
    (dt.date(2024, 2, 29), "date"),
    (dt.datetime.fromisoformat("2024-02-29T01:02:03.456789"), "datetime2(7)"),
    (uuid.UUID(int=258), "uniqueidentifier"),
    ("x" * 100_000, "nvarchar(max)"),
    ("é\U0001f600" * 20_000, "nvarchar(max)"),
    (b"\x00z" * 50_000, "varbinary(max)"),
]


@pytest.mark.parametrize(("value", "declared"), PARAMETERS, ids=[declared for _, declared in PARAMETERS])
def test_a_parameter_of_each_type_goes_there_and_back(
    server: LocalSqlServer, connection: pyodbc.Connection, value: object, declared: str
) -> None:
    """2.2.6.6; beyond 8,000 bytes in chunks, or as text, ntext or image, whatever the driver likes."""
    back = connection.execute("SELECT ? AS v", value).fetchval()
    assert back == (str(value).upper() if isinstance(value, uuid.UUID) else value)
    call = [request for request in server.log.requests if request.kind == "rpc" and not request.housekeeping][-1]
    assert (call.text, call.parameters) == ("SELECT @P1 AS v", (declared,))


def test_none_goes_there_and_back(connection: pyodbc.Connection) -> None:
    assert connection.execute("SELECT ISNULL(CAST(? AS nvarchar(10)), N'nothing')", None).fetchval() == "nothing"


BYTES: list[tuple[SqlType, Value, str]] = [
    (DATETIMEOFFSET, Moment(1, 1), "2b07  0a 0100000000 000000 0100"),
    (DATETIMEOFFSET, Moment(864_000_000_000, -330), "2b07  0a 0000000000 010000 b6fe"),
    (SqlType("time", scale=3), Moment(10_000_000), "2903  04 e8030000"),
    (DATETIME, Moment((693_595 + 1) * 864_000_000_000 + 10_000_000), "6f08  08 01000000 2c010000"),
    (SqlType("decimal", precision=5, scale=2), Decimal("-1.50"), "6a050502  05 00 96000000"),
    (GUID, uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "2410  10 33221100 5544 7766 8899aabbccddeeff"),
    (nvarchar(3), "é\U0001f600", "e70600 0904d00034  0600 e900 3dd8 00de"),
    (nvarchar(3), "", "e70600 0904d00034  0000"),
    (nvarchar(3), None, "e70600 0904d00034  ffff"),
    (SqlType("varchar", 3), "€\x81", "a70300 0904d00034  0200 80 81"),
    (varbinary(), b"\x01\x02", "a5ffff  0200000000000000 02000000 0102 00000000"),
    (varbinary(), None, "a5ffff  ffffffffffffffff"),
    (SqlType("int"), -2, "2604  04 feffffff"),
    (SqlType("int"), None, "2604  00"),
]


@pytest.mark.parametrize(("sql_type", "value", "written"), BYTES)
def test_values_are_laid_out_as_the_protocol_says(sql_type: SqlType, value: Value, written: str) -> None:
    """2.2.5.5 and 2.2.5.2 (lengths, chunks, NULL), worked out by hand; both ways."""
    assert type_info(sql_type) + encode(sql_type, value) == bytes.fromhex(written)
    back = read_parameter(Reader(bytes.fromhex(written)))
    assert back == (sql_type, value)
    assert getattr(back[1], "offset", 0) == getattr(value, "offset", 0)


def test_text_ntext_and_image_are_read_as_the_max_types() -> None:
    """2.2.5.5.2: a length of four bytes, no chunks; what drivers send for long values."""
    assert read_parameter(Reader(bytes.fromhex("63 feffff7f 0904d00034 04000000 6100 6200"))) == (nvarchar(), "ab")
    assert read_parameter(Reader(bytes.fromhex("23 ffffff7f 0904d00034 02000000 6162"))) == (
        SqlType("varchar", -1),
        "ab",
    )
    assert read_parameter(Reader(bytes.fromhex("22 ffffff7f 02000000 6162"))) == (varbinary(), b"ab")
    assert read_parameter(Reader(bytes.fromhex("63 feffff7f 0904d00034 ffffffff"))) == (nvarchar(), None)

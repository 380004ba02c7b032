"""What drivers ask about types before they send anything: sp_datatype_info_100 and sp_describe_undeclared_parameters.

Tables of facts, shaped as the procedures' results. Knows nothing of rows and of sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from . import catalog, syntax
from .errortexts import sql_error
from .parser import parse_batch, parse_declarations
from .sqltypes import BIT, INT, SMALLINT, TINYINT, ResultColumn, SqlType, Value, nvarchar

if TYPE_CHECKING:
    from .procedures import Call

SYSNAME = nvarchar(128)

_TYPE_INFO_COLUMNS = """
TYPE_NAME n, DATA_TYPE s, PRECISION i, LITERAL_PREFIX n, LITERAL_SUFFIX n, CREATE_PARAMS n, NULLABLE s,
CASE_SENSITIVE s, SEARCHABLE s, UNSIGNED_ATTRIBUTE s, MONEY s, AUTO_INCREMENT s, LOCAL_TYPE_NAME n, MINIMUM_SCALE s,
MAXIMUM_SCALE s, SQL_DATA_TYPE s, SQL_DATETIME_SUB s, NUM_PREC_RADIX i, INTERVAL_PRECISION s, USERTYPE s
"""
_TYPE_INFO = (  # name, ODBC type, precision, prefix, suffix, parameters, scales
    ("nvarchar", -9, 4000, "N'", "'", "max length", None, None),
    ("nchar", -8, 4000, "N'", "'", "length", None, None),
    ("uniqueidentifier", -11, 36, "'", "'", None, None, None),
    ("bit", -7, 1, None, None, None, 0, 0),
    ("tinyint", -6, 3, None, None, None, 0, 0),
    ("bigint", -5, 19, None, None, None, 0, 0),
    ("varbinary", -3, 8000, "0x", None, "max length", None, None),
    ("binary", -2, 8000, "0x", None, "length", None, None),
    ("char", 1, 8000, "'", "'", "length", None, None),
    ("decimal", 3, 38, None, None, "precision,scale", 0, 38),
    ("int", 4, 10, None, None, None, 0, 0),
    ("smallint", 5, 5, None, None, None, 0, 0),
    ("float", 6, 53, None, None, None, None, None),
    ("real", 7, 24, None, None, None, None, None),
    ("varchar", 12, 8000, "'", "'", "max length", None, None),
    ("date", 91, 10, "'", "'", None, None, None),
    ("time", -154, 16, "'", "'", "scale", 0, 7),
    ("datetime2", 93, 27, "'", "'", "scale", 0, 7),
    ("datetime", 93, 23, "'", "'", None, 3, 3),
    ("datetimeoffset", -155, 34, "'", "'", "scale", 0, 7),
)


def _columns(text: str) -> list[ResultColumn]:
    types = {"n": SYSNAME, "s": SMALLINT, "i": INT, "t": TINYINT, "b": BIT, "w": nvarchar(4000)}
    return [ResultColumn(name, types[letter]) for name, letter in (part.split() for part in text.split(","))]


def _rows(call: Call, columns: str, rows: Iterable[Sequence[Value]]) -> int:
    call.sink.columns(_columns(columns))
    count = 0
    for row in rows:
        call.sink.row(row)
        count += 1
    call.sink.done(count, is_select=True)
    return 0


def datatype_info(call: Call) -> int:
    call.only("@data_type", "@odbcver")
    wanted = call.number("@data_type", 0)
    rows = []
    for name, code, precision, prefix, suffix, create, low, high in _TYPE_INFO:
        if wanted in (0, code):
            text = int("char" in name)
            number = 0 if low is not None and not prefix else None
            radix = 10 if number is not None else None
            date = 3 if code == 93 else None
            rows.append(
                (name, code, precision, prefix, suffix, create, 1, 0, 3 if text else 2, number, 0, number, name, low,
                 high, 9 if code == 93 else code, date, radix, None, 0)
            )  # fmt: skip
    return _rows(call, _TYPE_INFO_COLUMNS, rows)


_UNDECLARED_COLUMNS = """
parameter_ordinal i, name n, suggested_system_type_id i, suggested_system_type_name n, suggested_max_length s,
suggested_precision t, suggested_scale t, suggested_user_type_id i, suggested_user_type_database n,
suggested_user_type_schema n, suggested_user_type_name n, suggested_assembly_qualified_type_name w,
suggested_xml_collection_id i, suggested_xml_collection_database n, suggested_xml_collection_schema n,
suggested_xml_collection_name n, suggested_is_xml_document b, suggested_is_case_sensitive b,
suggested_is_fixed_length_clr_type b, suggested_is_input b, suggested_is_output b, formal_parameter_name n,
suggested_tds_type_id i, suggested_tds_length i
"""
_TDS_TYPES = {
    "bit": 104, "tinyint": 38, "smallint": 38, "int": 38, "bigint": 38, "decimal": 106, "float": 109, "real": 109,
    "uniqueidentifier": 36, "date": 40, "time": 41, "datetime2": 42, "datetimeoffset": 43, "datetime": 111,
    "varbinary": 165, "binary": 173, "varchar": 167, "char": 175, "nvarchar": 231, "nchar": 239,
}  # fmt: skip


def describe_undeclared(call: Call) -> int:
    """Only parameters whose type is plain to see: those that a DECLARE or SET copies into a variable."""
    call.only("@tsql", "@params")
    declared = {p.name.lower() for p in parse_declarations(call.text("@params") or "")}
    types: dict[str, SqlType] = {}
    order: list[str] = []
    for node in _nodes(parse_batch(call.needed("@tsql"))):
        if isinstance(node, syntax.DeclareVariable):
            declared.add(node.name.lower())
            types.setdefault(node.name.lower(), node.type)
            if isinstance(node.init, syntax.Variable):
                types.setdefault(node.init.name.lower(), node.type)
        elif (
            isinstance(node, syntax.SetVariable)
            and isinstance(node.expr, syntax.Variable)
            and node.name.lower() in types
        ):
            types.setdefault(node.expr.name.lower(), types[node.name.lower()])
        elif isinstance(node, syntax.Variable) and node.name.lower() not in order:
            order.append(node.name.lower())
    rows: list[Sequence[Value]] = []
    for name in order:
        if name in declared:
            continue
        if (type := types.get(name)) is None:
            raise sql_error(11502, name)
        id, _ = catalog.SYSTEM_TYPES[type.name]
        length = catalog.storage_length(type)
        rows.append(
            (len(rows) + 1, name.upper() if name[:2] == "@p" else name, id, str(type), length, type.precision,
             type.scale, *(None,) * 9, 0, 0, 0, 1, 0, None, _TDS_TYPES.get(type.name, id),
             65535 if length == -1 else length)
        )  # fmt: skip
    return _rows(call, _UNDECLARED_COLUMNS, rows)


def _nodes(thing: Any) -> Iterable[Any]:
    if isinstance(thing, tuple):
        for item in thing:
            yield from _nodes(item)
    elif is_dataclass(thing):
        yield thing
        for f in fields(thing):
            yield from _nodes(getattr(thing, f.name))

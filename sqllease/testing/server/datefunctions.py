"""Functions of date and time: now, DATEADD, DATEDIFF, DATEPART, and changes of offset.

Knows their argument and result types; the calendar is in dates.py. "Now" is the statement's time, shown in the server's
time zone where the function is of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import dates
from .binding import Bound, Frame
from .conversion import fit_int
from .families import kind_of, shown
from .operators import call, coerce
from .sqltypes import BIGINT, DATETIME, DATETIME2, DATETIMEOFFSET, INT, Moment, SqlError, SqlType, Value


def _server_time(frame: Frame) -> Moment:
    return Moment(frame.statement_time.ticks + frame.session.utc_offset_minutes * dates.MINUTE)


CLOCK: dict[str, tuple[SqlType, Callable[[Frame], Value]]] = {
    "SYSUTCDATETIME": (DATETIME2, lambda frame: Moment(frame.statement_time.ticks)),
    "SYSDATETIME": (DATETIME2, _server_time),
    "SYSDATETIMEOFFSET": (
        DATETIMEOFFSET,
        lambda frame: Moment(frame.statement_time.ticks, frame.session.utc_offset_minutes),
    ),
    "GETUTCDATE": (DATETIME, lambda frame: dates.as_datetime(frame.statement_time)),
    "GETDATE": (DATETIME, lambda frame: dates.as_datetime(_server_time(frame))),
    "CURRENT_TIMESTAMP": (DATETIME, lambda frame: dates.as_datetime(_server_time(frame))),
}


def _zone(bound: Bound, name: str) -> Bound:
    """An offset in minutes from ``+hh:mm`` or a number."""
    wrong = SqlError(9812, f"The timezone provided to builtin function {name} is invalid.")

    def text(value: Any) -> Value:
        minutes = dates.zone_minutes(value)
        if minutes is None:
            raise wrong
        return minutes

    def number(value: Any) -> Value:
        if abs(value) > 840:
            raise wrong
        return value  # type: ignore[no-any-return]

    return call(INT, text, [bound]) if kind_of(bound.type) == "char" else call(INT, number, [coerce(bound, INT)])


def offset(name: str, args: list[Bound], collation: str) -> Bound:
    source = args[0]
    scale = source.type.scale if source.type.name in ("datetime2", "datetimeoffset") else 7
    target = SqlType("datetimeoffset", scale=scale)
    taken = coerce(source, target if name == "switchoffset" else SqlType("datetime2", scale=scale))

    def work(moment: Moment, minutes: int) -> Moment:
        result = Moment(moment.ticks - (minutes * dates.MINUTE if name == "todatetimeoffset" else 0), minutes)
        if not dates.fits(result, target):
            message = (
                f"The timezone provided to builtin function {name} would cause the datetimeoffset to overflow the"
                " range of valid date range in either UTC or local time."
            )
            raise SqlError(9813, message)
        return result

    return call(target, work, [taken, _zone(args[1], name)])


DATE_FUNCTIONS = {"DATEADD": 3, "DATEDIFF": 3, "DATEDIFF_BIG": 3, "DATEPART": 2}


def _as_date(bound: Bound, text: SqlType) -> Bound:
    if kind_of(bound.type) in ("char", "int", "decimal", "float") or bound.untyped_null:
        return coerce(bound, text if kind_of(bound.type) == "char" else DATETIME)
    if kind_of(bound.type) not in ("date", "time", "old", "new"):
        raise SqlError(206, f"Operand type clash: {shown(bound.type)} is incompatible with datetime")
    return bound


def bind_date_function(name: str, part_name: str, args: Sequence[Bound]) -> Bound:
    """DATEADD, DATEDIFF, DATEDIFF_BIG, DATEPART; args without the date part."""
    part = dates.date_part(part_name, name)
    if name == "DATEADD":
        number, taken = args[0], _as_date(args[1], DATETIME)
        kind = taken.type
        dates.check_part(part, name, kind)
        if kind_of(number.type) == "char":
            raise SqlError(
                8116, f"Argument data type {shown(number.type)} is invalid for argument 2 of dateadd function."
            )
        return _nullable(call(kind, lambda n, moment: dates.add(part, n, moment, kind), [coerce(number, INT), taken]))
    if name == "DATEPART":
        taken = _as_date(args[0], DATETIME2)
        kind = taken.type
        dates.check_part(part, name, kind)
        return call(INT, lambda moment: dates.get_part(part, moment, kind), [taken])
    if part in ("tzoffset", "iso_week"):
        dates.check_part(part, name, args[0].type)
    if part == "weekday":
        part = "day"
    first, last = (coerce(_as_date(bound, DATETIMEOFFSET), DATETIMEOFFSET) for bound in args)
    result = INT if name == "DATEDIFF" else BIGINT

    def work(start: Moment, end: Moment) -> int:
        count = dates.diff(part, start.ticks, end.ticks)
        try:
            return fit_int(count, result)
        except SqlError:
            message = (
                f"The {name.lower()} function resulted in an overflow. The number of dateparts separating two date/time"
                f" instances is too large. Try to use {name.lower()} with a less precise datepart."
            )
            raise SqlError(535, message) from None

    return call(result, work, [first, last])


def _nullable(bound: Bound) -> Bound:
    return Bound(bound.type, bound.evaluate, bound.collation, True)

"""Dates and times: reading, writing, rounding, DATEADD, DATEDIFF, DATEPART, offsets.

Knows the calendar and Microsoft's rules for it, in 100 ns ticks. Reads ISO 8601 forms only; a text that looks like a
date of another form is refused. Knows nothing of expressions.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

from .sqltypes import DATETIME, TICKS_PER_SECOND, Moment, SqlError, SqlType, unsupported

MINUTE = 60 * TICKS_PER_SECOND
DAY = 86_400 * TICKS_PER_SECOND
END = 3_652_059 * DAY  # 10000-01-01
BASE_DAY = 693_595  # 1900-01-01, the day of a bare time
DATETIME_START = (date(1753, 1, 1).toordinal() - 1) * DAY

PARTS = {
    alias: part
    for part, aliases in {
        "year": "year yy yyyy", "quarter": "quarter qq q", "month": "month mm m", "dayofyear": "dayofyear dy y",
        "day": "day dd d", "week": "week wk ww", "weekday": "weekday dw w", "hour": "hour hh", "minute": "minute mi n",
        "second": "second ss s", "millisecond": "millisecond ms", "microsecond": "microsecond mcs",
        "nanosecond": "nanosecond ns", "tzoffset": "tzoffset tz", "iso_week": "iso_week isowk isoww",
    }.items()
    for alias in aliases.split()
}  # fmt: skip
_TICKS = {
    "hour": 60 * MINUTE, "minute": MINUTE, "second": TICKS_PER_SECOND, "millisecond": 10_000, "microsecond": 10,
    "day": DAY, "dayofyear": DAY, "weekday": DAY, "week": 7 * DAY,
}  # fmt: skip
_DAY_PARTS = ("year", "quarter", "month", "dayofyear", "day", "week", "weekday", "iso_week")


def local(moment: Moment) -> int:
    """What the clock on the wall shows, in ticks."""
    return moment.ticks + moment.offset * MINUTE


def fits(moment: Moment, kind: SqlType) -> bool:
    first = DATETIME_START if kind.name == "datetime" else 0
    return first <= moment.ticks < END and 0 <= local(moment) < END


def round_to(ticks: int, kind: SqlType) -> int:
    """To the precision of the type, half up; datetime has steps of 1/300 s."""
    if kind.name == "date":
        return ticks - ticks % DAY
    if kind.name == "datetime":
        steps = (ticks % DAY * 300 + TICKS_PER_SECOND // 2) // TICKS_PER_SECOND
        return ticks - ticks % DAY + (steps * TICKS_PER_SECOND + 150) // 300
    unit = int(10 ** (7 - kind.scale))
    rounded = (ticks + unit // 2) // unit * unit
    return ticks // unit * unit if rounded >= END else rounded  # the last moment of 9999 is cut, not rounded


def cast(moment: Moment, source: SqlType, target: SqlType) -> Moment:
    """Between two date and time types; the pair is allowed already."""
    if target.name == "datetimeoffset":
        ticks = moment.ticks + BASE_DAY * DAY if source.name == "time" else moment.ticks
        result = Moment(round_to(ticks, target), moment.offset)
    else:
        ticks = local(moment)
        if target.name == "time":
            result = Moment(round_to(ticks % DAY, target) % DAY)
        else:
            result = Moment(round_to(ticks + (BASE_DAY * DAY if source.name == "time" else 0), target))
    if not fits(result, target):
        raise out_of_range(source.name, target)
    return result


def out_of_range(source: str, target: SqlType) -> SqlError:
    what = f"{source} data type to a {target.name} data type"
    return SqlError(242, f"The conversion of a {what} resulted in an out-of-range value.", state=3)


# --- text ----------------------------------------------------------------------------------------

_TEXT = re.compile(
    r"(?:(?P<y>\d{4})-(?P<m>\d\d?)-(?P<d>\d\d?)|(?P<y8>\d{4})(?P<m8>\d\d)(?P<d8>\d\d))?"
    r"(?:(?:T|\s+|^)(?P<hh>\d\d?):(?P<mi>\d\d)(?::(?P<ss>\d\d)(?:\.(?P<f>\d{1,7}))?)?"
    r"(?:\s*(?P<zone>Z|[+-]\d\d?:\d\d))?)?",
    re.IGNORECASE,
)
_OTHER_FORM = re.compile(
    r"\d+[/.]\d+|\d+-\d+-\d+|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|\d\s*[ap]m\b", re.IGNORECASE
)
_ZONE = re.compile(r"([+-])(\d\d):(\d\d)")


def zone_minutes(text: str) -> int | None:
    """``+hh:mm`` in minutes, up to 14 hours; None for anything else."""
    match = _ZONE.fullmatch(text)
    if match is None or int(match[3]) > 59:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    return (-minutes if match[1] == "-" else minutes) if minutes <= 840 else None


def parse(text: str, kind: SqlType, source: str) -> Moment:
    """An ISO form (``yyyy-mm-dd``, ``yyyymmdd``, with or without time and offset) as a value; else error 241."""
    wrong = SqlError(241, "Conversion failed when converting date and/or time from character string.")
    text = text.strip()
    match = _TEXT.fullmatch(text)
    if match is None:
        raise unsupported(f"date '{text}'") if _OTHER_FORM.search(text) else wrong
    year, month, day = ((match[a] or match[b]) for a, b in (("y", "y8"), ("m", "m8"), ("d", "d8")))
    zone = match["zone"]
    offset = 0 if zone is None or zone in "zZ" else zone_minutes(zone[0] + zone[1:].rjust(5, "0"))
    fraction = match["f"] or ""
    hour, minute, second = (int(match[name] or 0) for name in ("hh", "mi", "ss"))
    too_new = kind.name == "datetime" and (len(fraction) > 3 or (zone or "z") not in "zZ")
    if offset is None or hour > 23 or minute > 59 or second > 59 or too_new:
        raise wrong
    try:
        days = date(int(year), int(month), int(day)).toordinal() - 1 if year else BASE_DAY
    except ValueError:
        raise (out_of_range(source, kind) if kind.name == "datetime" else wrong) from None
    ticks = days * DAY + (hour * 60 + minute) * MINUTE + second * TICKS_PER_SECOND + int(fraction.ljust(7, "0"))
    if kind.name == "datetimeoffset":
        result = Moment(round_to(ticks - offset * MINUTE, kind), offset)
        if not fits(result, kind):
            raise wrong
        return result
    return cast(Moment(ticks), SqlType("datetime2", scale=7), kind)


def render(moment: Moment, kind: SqlType, style: int | None) -> str:
    """As text; without a style datetime looks like ``Jul 31 2006 12:00AM``, the newer types like ISO."""
    days, ticks = divmod(local(moment), DAY)
    day = date.fromordinal(days + 1)
    second, fraction = divmod(ticks, TICKS_PER_SECOND)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    if kind.name == "datetime":
        fine = f"{clock}.{(fraction + 5000) // 10_000:03}"
        style = style or 0
    else:
        fine = f"{clock}.{fraction:07}"[: 9 + kind.scale] if kind.scale else clock
        style = 121 if style is None else style
    with_date, with_time = kind.name != "time", kind.name != "date"
    iso = day.isoformat() if with_date else ""
    blank = " " if with_date and with_time else ""
    zone = f"{'-' if moment.offset < 0 else '+'}{abs(moment.offset) // 60:02}:{abs(moment.offset) % 60:02}"
    tail = f" {zone}" if kind.name == "datetimeoffset" else ""
    if style in (21, 25, 121):
        return iso + blank + (fine + tail if with_time else "")
    if style in (20, 120):
        return iso + blank + (clock + tail if with_time else "")
    if style in (126, 127):
        if kind.name == "datetime" and not fraction:
            fine = clock
        if kind.name == "datetimeoffset" and style == 127:
            return render(Moment(moment.ticks), SqlType("datetime2", scale=kind.scale), 126) + "Z"
        return iso + ("T" if blank else "") + (fine + tail.strip() if with_time else "")
    if style in (23, 112) and with_date:
        return iso if style == 23 else iso.replace("-", "")
    if style in (8, 24, 108) and with_time:
        return clock
    if style in (0, 100) and with_date and with_time and not tail:
        hour = second // 3600
        name = "JanFebMarAprMayJunJulAugSepOctNovDec"[day.month * 3 - 3 : day.month * 3]
        half = "AM" if hour < 12 else "PM"
        return f"{name} {day.day:2} {day.year:04} {(hour + 11) % 12 + 1:2}:{second // 60 % 60:02}{half}"
    raise unsupported(f"CONVERT style {style} of {kind.name}")


# --- arithmetic ----------------------------------------------------------------------------------


def date_part(name: str, function: str) -> str:
    """The canonical name of a date part; else error 155."""
    part = PARTS.get(name.lower())
    if part is None:
        raise SqlError(155, f"'{name}' is not a recognized {function.lower()} option.")
    return part


def check_part(part: str, function: str, kind: SqlType) -> None:
    """Error 9810 where the type has no such part."""
    fine = part in ("microsecond", "nanosecond")
    wrong = (
        (part == "tzoffset" and (function != "DATEPART" or kind.name not in ("datetimeoffset", "datetime2")))
        or (part == "iso_week" and function != "DATEPART")
        or (kind.name == "date" and part not in _DAY_PARTS and function != "DATEDIFF")
        or (kind.name == "time" and part in _DAY_PARTS and function != "DATEDIFF")
        or (kind.name == "datetime" and fine and function == "DATEADD")
    )
    if wrong:
        what = f"The datepart {part} is not supported by date function {function.lower()} for data type {kind.name}."
        raise SqlError(9810, what)


def add(part: str, number: int, moment: Moment, kind: SqlType) -> Moment:
    """DATEADD; number fits an int already. Months are cut to the length of the new month."""
    ticks = local(moment)
    if part in ("year", "quarter", "month"):
        days, rest = divmod(ticks, DAY)
        day = date.fromordinal(days + 1)
        months = day.year * 12 + day.month - 1 + number * {"year": 12, "quarter": 3, "month": 1}[part]
        year, month = divmod(months, 12)
        if 1 <= year <= 9999:
            ticks = (date(year, month + 1, min(day.day, monthrange(year, month + 1)[1])).toordinal() - 1) * DAY + rest
        else:
            ticks = -1
    elif part == "nanosecond":
        ticks += (number + 50) // 100
    else:
        ticks += number * _TICKS[part]
    if kind.name == "time":
        return Moment(round_to(ticks, kind) % DAY)
    if 0 <= ticks < END:
        result = Moment(round_to(ticks - moment.offset * MINUTE, kind), moment.offset)
        if fits(result, kind):
            return result
    raise SqlError(517, f"Adding a value to a '{kind.name}' column caused an overflow.")


def diff(part: str, start: int, end: int) -> int:
    """DATEDIFF_BIG: boundaries crossed between two tick counts (UTC for datetimeoffset). Weeks begin on Sunday."""
    if part in ("year", "quarter", "month"):
        first, last = (date.fromordinal(ticks // DAY + 1) for ticks in (start, end))
        months = {"year": 12, "quarter": 3, "month": 1}[part]
        return (last.year * 12 + last.month - 1) // months - (first.year * 12 + first.month - 1) // months
    if part == "nanosecond":
        return (end - start) * 100
    if part == "week":  # day 0 is a Monday; shifted by one, a week begins on Sunday
        return (end // DAY + 1) // 7 - (start // DAY + 1) // 7
    return end // _TICKS[part] - start // _TICKS[part]


def get_part(part: str, moment: Moment, kind: SqlType) -> int:
    """DATEPART, under us_english (weeks begin on Sunday)."""
    ticks = local(moment)
    day = date.fromordinal((ticks // DAY if kind.name != "time" else BASE_DAY) + 1)
    second, fraction = divmod(ticks % DAY, TICKS_PER_SECOND)
    if kind.name == "datetime":
        fraction = (fraction + 5000) // 10_000 * 10_000  # shown and counted in milliseconds
    first_weekday = day.replace(month=1, day=1).isoweekday() % 7
    return {
        "year": day.year, "quarter": (day.month + 2) // 3, "month": day.month, "dayofyear": day.timetuple().tm_yday,
        "day": day.day, "week": (day.timetuple().tm_yday - 1 + first_weekday) // 7 + 1,
        "weekday": day.isoweekday() % 7 + 1, "iso_week": day.isocalendar()[1], "hour": second // 3600,
        "minute": second // 60 % 60, "second": second % 60,
        "millisecond": fraction // 10_000, "microsecond": fraction // 10, "nanosecond": fraction * 100,
        "tzoffset": moment.offset,
    }[part]  # fmt: skip


def as_datetime(moment: Moment) -> Moment:
    return Moment(round_to(moment.ticks, DATETIME))

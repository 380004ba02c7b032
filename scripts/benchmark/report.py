"""What was measured, as a table for people and as JSON for programs. Knows no server and measures nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from .pairs import Comparison

_HEAD = (
    f"{'':28}{'lease':>9}{'other':>9}   {'ratio':>5}  {'quartiles':<11}{'extra':>9}   "
    f"{'messages':>9} {'logins':>8}   target"
)


@dataclass(frozen=True, slots=True)
class Many:
    """Logins for many leases and many locks, held at once by one thread."""

    driver: str
    held: int
    our_logins: int
    their_logins: int


@dataclass(frozen=True, slots=True)
class Report:
    """names: of the drivers, by their ids; the first one is the reference."""

    names: dict[str, str]
    comparisons: list[Comparison]
    many: list[Many]
    seconds: float

    def as_json(self) -> str:
        """All of it."""
        return json.dumps(
            {
                "drivers": self.names,
                "comparisons": [asdict(one) | {"met": one.met} for one in self.comparisons],
                "held_at_once": [asdict(one) for one in self.many],
                "seconds": round(self.seconds, 1),
            },
            indent=2,
        )

    def as_table(self) -> str:
        """What a person wants to see."""
        lines: list[str] = []
        for number, (driver, name) in enumerate(self.names.items()):
            lines += ["", name + (" (the reference)" if number == 0 else ""), _HEAD]
            other = ""
            for one in (one for one in self.comparisons if one.driver == driver):
                if one.other != other:
                    other = one.other
                    lines.append(f"  beside {other}:")
                lines.append(_line(one))
            lines += [
                f"  {many.held} held at once by one thread, logins: {many.our_logins} for leases, "
                f"{many.their_logins} for locks"
                for many in self.many
                if many.driver == driver
            ]
        return "\n".join([*lines, "", *_LEGEND, f"took {self.seconds:.0f} s"])


_LEGEND = (
    "lease, other: median time of one operation, in ms. ratio: lease over other, the median of all rounds, with its",
    "quartiles. extra: median of the differences, in µs; it is the client's own work, so the ratio depends on how fast",
    "the server answers. messages: to the server and back, for one operation, the driver's own included. logins: from",
    "the first call to the last. Times are those of a stand-in on loopback, not of SQL Server.",
)


def _line(one: Comparison) -> str:
    target = "" if one.target is None else f"≤ {one.target:.2f} {'met' if one.met else 'MISSED'}"
    return (
        f"    {one.title:<24}{one.ours.milliseconds:>9.3f}{one.theirs.milliseconds:>9.3f}   "
        f"{one.ratio:>5.2f}  {f'{one.low:.2f}–{one.high:.2f}':<11}{one.extra_ms * 1000:>+9.0f}   "
        f"{f'{one.ours.messages:g} / {one.theirs.messages:g}':>9} {f'{one.ours.logins} / {one.theirs.logins}':>8}   "
        f"{target}"
    ).rstrip()

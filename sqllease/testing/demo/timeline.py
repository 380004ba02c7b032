"""Who held what when, drawn: as lines of characters for a terminal, and as SVG. Knows nothing of leases or servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

CHARACTER_S = 0.1
"""Seconds that one character of the text stands for."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds. kind: "asking", "held" or "confirmed"."""

    start: float
    end: float
    kind: str


@dataclass(slots=True)
class Lane:
    """One contender."""

    name: str
    spans: list[Span] = field(default_factory=list)

    def working(self) -> list[Span]:
        """The stretches in which the contender believed that it held the lease."""
        return [span for span in self.spans if span.kind != "asking"]


@dataclass(slots=True)
class Timeline:
    """Lanes above one time scale. marks: moments with a name."""

    title: str
    lanes: Sequence[Lane]
    marks: Sequence[tuple[float, str]] = ()

    @property
    def end(self) -> float:
        """The last moment that is drawn."""
        return max([span.end for lane in self.lanes for span in lane.spans] + [at for at, _ in self.marks], default=1.0)

    def overlaps(self) -> list[tuple[float, float]]:
        """The stretches in which two lanes worked at once."""
        found = []
        for index, lane in enumerate(self.lanes):
            for other in self.lanes[index + 1 :]:
                for one in lane.working():
                    for two in other.working():
                        start, end = max(one.start, two.start), min(one.end, two.end)
                        if start < end:
                            found.append((start, end))
        return sorted(found)


_CHARACTERS = {"asking": "·", "held": "▒", "confirmed": "█"}


def as_text(timeline: Timeline) -> str:
    """The timeline for a terminal, a tenth of a second for each character."""
    width = round(timeline.end / CHARACTER_S) + 1
    rows = [("", _scale(width))]
    for lane in timeline.lanes:
        cells = [" "] * width
        for span in lane.spans:
            _fill(cells, span.start, span.end, _CHARACTERS[span.kind])
        rows.append((lane.name, "".join(cells)))
    for at, name in timeline.marks:
        rows.append(("", " " * round(at / CHARACTER_S) + f"▲ {name}"))
    overlaps = timeline.overlaps()
    if overlaps:
        cells = [" "] * width
        for start, end in overlaps:
            _fill(cells, start, end, "!")
        total = sum(end - start for start, end in overlaps)
        rows.append(("BOTH", f"{''.join(cells).rstrip()} {total:.1f} s"))
    lines = "\n".join(f"  {name:<5} {cells.rstrip()}" for name, cells in rows)
    return f"{timeline.title}\n{lines}"


def _fill(cells: list[str], start: float, end: float, character: str) -> None:
    first = round(start / CHARACTER_S)
    for index in range(first, max(first + 1, round(end / CHARACTER_S))):
        if index < len(cells):
            cells[index] = character


def _scale(width: int) -> str:
    cells = [" "] * (width + 8)
    for second in range(int(width * CHARACTER_S) + 1):
        label = f"{second} s"
        at = round(second / CHARACTER_S)
        cells[at : at + len(label)] = label
    return "".join(cells)


_SECOND, _ROW, _LEFT, _TOP = 140, 30, 70, 46
_COLOURS = {"asking": "#c9d3dc", "held": "#e0a030", "confirmed": "#2f7d4f"}
_MEANING = {"asking": "asks, not yet told", "held": "works, not confirmed", "confirmed": "works, confirmed"}
_RED, _INK = "#c8102e", "#222222"


def as_svg(timelines: Sequence[Timeline]) -> str:
    """All timelines below each other, overlaps in red."""
    width = _LEFT + round(max(timeline.end for timeline in timelines) * _SECOND) + 40
    width = max(width, 720)
    heights = [_TOP + _ROW * (len(timeline.lanes) + 2) + 20 for timeline in timelines]
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": str(width),
            "height": str(sum(heights) + 40),
            "font-family": "sans-serif",
            "font-size": "13",
        },
    )
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    top = 0
    for timeline, height in zip(timelines, heights, strict=True):
        _draw(root, timeline, top)
        top += height
    _legend(root, top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _draw(root: ET.Element, timeline: Timeline, top: int) -> None:
    _text(root, 16, top + 24, timeline.title, weight="bold")
    bottom = top + _TOP + _ROW * len(timeline.lanes)
    for second in range(int(timeline.end) + 1):
        x = _LEFT + second * _SECOND
        _line(root, x, top + _TOP, bottom, "#dddddd")
        _text(root, x, bottom + 16, f"{second} s", colour="#777777")
    for row, lane in enumerate(timeline.lanes):
        y = top + _TOP + row * _ROW
        _text(root, 16, y + 19, lane.name)
        for span in lane.spans:
            _bar(root, span.start, span.end, y + 4, _ROW - 8, _COLOURS[span.kind])
    for start, end in timeline.overlaps():
        _bar(root, start, end, top + _TOP, _ROW * len(timeline.lanes), _RED, opacity="0.45")
    for at, name in timeline.marks:
        x = round(_LEFT + at * _SECOND)
        _line(root, x, top + _TOP - 6, bottom + 4, _INK)
        _text(root, x + 5, bottom + 34, name)


def _legend(root: ET.Element, top: int) -> None:
    x = 16
    for kind, meaning in (*_MEANING.items(), ("both", "two at once")):
        colour = _COLOURS.get(kind, _RED)
        ET.SubElement(root, "rect", {"x": str(x), "y": str(top + 8), "width": "14", "height": "14", "fill": colour})
        _text(root, x + 20, top + 20, meaning)
        x += 36 + 8 * len(meaning)


def _bar(root: ET.Element, start: float, end: float, y: int, height: int, fill: str, opacity: str = "1") -> None:
    x, width = _LEFT + start * _SECOND, max(2.0, (end - start) * _SECOND)
    ET.SubElement(
        root,
        "rect",
        {
            "x": f"{x:.1f}",
            "y": str(y),
            "width": f"{width:.1f}",
            "height": str(height),
            "fill": fill,
            "fill-opacity": opacity,
        },
    )


def _line(root: ET.Element, x: float, top: int, bottom: int, colour: str) -> None:
    ET.SubElement(root, "line", {"x1": str(x), "x2": str(x), "y1": str(top), "y2": str(bottom), "stroke": colour})


def _text(root: ET.Element, x: float, y: int, text: str, *, colour: str = _INK, weight: str = "normal") -> None:
    element = ET.SubElement(root, "text", {"x": str(x), "y": str(y), "fill": colour, "font-weight": weight})
    element.text = text

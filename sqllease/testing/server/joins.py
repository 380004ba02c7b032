"""Joins: the order in which the sources of one FROM are read, nested loop in nested loop.

Chooses the order of inner joins by the costs of access.py and gives each condition to the first loop that can test it.
Knows nothing of tables and of select lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from .access import SCAN, Conjunct, Path
from .binding import Predicate
from .scopes import Frame
from .sources import Each, Joined, Leaf, Tree, leaves


def plan(tree: Tree, tests: Sequence[Conjunct], order: Sequence[tuple[int, int, bool]] = ()) -> tuple[Each, bool]:
    """The loops of a whole FROM with its conditions, and whether they deliver the wanted order.

    order: (slot, ordinal, descending) of each column to sort by.
    """
    own = frozenset(leaf.slot for leaf in leaves(tree))
    if (
        isinstance(tree, Leaf)
        and order
        and all(slot == tree.slot for slot, _, _ in order)
        and len({d for *_, d in order}) == 1
    ):
        wanted = [ordinal for _, ordinal, _ in order]
        _, path = tree.path([p for c in tests for p in c.probes if not p.slots & own], wanted)
        if path is not None and _delivers(path, wanted):
            return tree.loop(path, _open_tests(tests, path), inner=False, backwards=order[0][2]), True
    return _plan(tree, list(tests), own, frozenset(), inner=False), False


def _open_tests(tests: Sequence[Conjunct], path: Path | None) -> list[Predicate]:
    """What is left to test: a sub-query whose values were sought need not run again for each row."""
    sought = [probe for probe in path.equals if probe.by_query] if path is not None else []
    return [c.test for c in tests if not any(probe in sought for probe in c.probes)]


def _delivers(path: Path, wanted: Sequence[int]) -> bool:
    if any(probe.op == "in" for probe in path.equals):
        return False
    fixed = [probe.ordinal for probe in path.equals]
    rest = [ordinal for ordinal in wanted if ordinal not in fixed]
    return (path.unique and not rest) or list(path.index.columns[len(fixed) : len(fixed) + len(rest)]) == rest


def _plan(tree: Tree, tests: list[Conjunct], own: frozenset[int], placed: frozenset[int], *, inner: bool) -> Each:
    """own: the slots of the whole FROM; placed: those of them that have rows already."""
    items, tests = _flatten(tree, tests)
    if len(items) == 1 and isinstance(items[0], Leaf):
        path = items[0].path(_at_hand(tests, own, placed))[1]
        return items[0].loop(path, _open_tests(tests, path), inner=inner)
    if len(items) == 1 and isinstance(items[0], Joined):
        return _outer(items[0], tests, own, placed, inner=inner)
    loops: list[Each] = []
    pending = tests
    for item in min(_orders(items), key=lambda o: _cost(o, tests, own, placed)):
        slots = frozenset(leaf.slot for leaf in leaves(item))
        ready = [c for c in pending if c.slots & own <= placed | slots]
        pending = [c for c in pending if c not in ready]
        loops.append(_plan(item, ready, own, placed, inner=inner or bool(loops)))
        placed |= slots
    return _nest(loops)


def _flatten(tree: Tree, tests: list[Conjunct]) -> tuple[list[Tree], list[Conjunct]]:
    if isinstance(tree, Joined) and tree.kind in ("inner", "cross"):
        left, tests = _flatten(tree.left, tests)
        right, tests = _flatten(tree.right, tests)
        return left + right, tests + tree.on
    return [tree], tests


def _orders(items: list[Tree]) -> Iterator[tuple[Tree, ...]]:
    return permutations(items) if len(items) <= 4 else iter([tuple(items)])


def _at_hand(tests: Sequence[Conjunct], own: frozenset[int], placed: frozenset[int]) -> list[Any]:
    return [p for c in tests for p in c.probes if p.slots & own <= placed]


def _cost(items: Sequence[Tree], tests: Sequence[Conjunct], own: frozenset[int], placed: frozenset[int]) -> float:
    total, rows = 0.0, 1.0
    for item in items:
        if isinstance(item, Leaf):
            if item.correlated & own - placed:
                return float("inf")
            rows *= item.path(_at_hand(tests, own, placed))[0]
        else:
            rows *= SCAN
        total += rows
        placed |= {leaf.slot for leaf in leaves(item)}
    return total


def _nest(loops: Sequence[Each]) -> Each:
    if len(loops) == 1:
        return loops[0]
    first, rest = loops[0], _nest(loops[1:])

    def each(frame: Frame) -> Iterator[None]:
        for _ in first(frame):
            yield from rest(frame)

    return each


def _outer(tree: Joined, tests: list[Conjunct], own: frozenset[int], placed: frozenset[int], *, inner: bool) -> Each:
    """LEFT JOIN and APPLY: the left side first; conditions of WHERE that need the right side come after."""
    slots = frozenset(leaf.slot for leaf in leaves(tree.left))
    early = [c for c in tests if c.slots & own <= placed | slots]
    late = [c.test for c in tests if c not in early]
    outer = _plan(tree.left, early, own, placed, inner=inner)
    matches = _plan(tree.right, tree.on, own, placed | slots, inner=True)
    padded = [leaf.named for leaf in leaves(tree.right)] if tree.kind == "left" else []

    def each(frame: Frame) -> Iterator[None]:
        for _ in outer(frame):
            met = False
            for _ in matches(frame):
                met = True
                if all(test(frame) is True for test in late):
                    yield
            if padded and not met:
                for named in padded:
                    frame.rows[named.slot] = named.nulls
                if all(test(frame) is True for test in late):
                    yield

    return each

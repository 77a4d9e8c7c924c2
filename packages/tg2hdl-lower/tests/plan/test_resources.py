"""Slots of several kernels on one set of resources."""

from __future__ import annotations

from tg2hdl_lower.ops.units import builtin_units
from tg2hdl_lower.plan.resources import SharedMultiplier, SharedUnit, Word, pools

DIVIDER, REMAINDER = (SharedUnit(unit) for unit in builtin_units()[:2])


def test_multipliers_are_as_wide_as_their_widest_user():
    narrow, wide = SharedMultiplier((8, 9), 4), SharedMultiplier((12, 3), 4)
    found = pools([(narrow, wide), (wide,)])
    assert [(p.resource.widths, p.users) for p in found] == [
        ((12, 9), [(0, 0), (1, 0)]),
        ((12, 3), [(0, 1)]),
    ]
    assert found[0].resource.result == Word(21, True)


def test_units_serve_slots_of_their_name():
    found = pools([(DIVIDER, REMAINDER), (REMAINDER, REMAINDER), ()])
    assert [(p.resource, p.users) for p in found] == [
        (DIVIDER, [(0, 0)]),
        (REMAINDER, [(0, 1), (1, 0)]),
        (REMAINDER, [(1, 1)]),
    ]
    assert DIVIDER.latency == DIVIDER.unit.latency + 1
    assert list(DIVIDER.operands) == ["a", "b"]

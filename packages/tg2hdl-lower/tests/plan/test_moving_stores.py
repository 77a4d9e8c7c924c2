"""Elements of one word whose lanes move together are stored at once."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import parse_kernel
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.plan.accesses import Store

KERNEL = """kernel spread
  b0 out: int32[24] output
  b1 x: int32[24]
  0  RANGE i0 < 3 loop
  1    RANGE i1 < 4 loop
  2      RANGE i2 < 2 loop
  3        %0 = mul int32 i0, 2:int32
  4        %1 = add int32 %0, i2
  5        %2 = mul int32 %1, 4:int32
  6        %3 = add int32 %2, i1
  7        %4 = LOAD int32 b1[%3]
  8        %5 = add int32 %4, 5:int32
  9        STORE int32 b0[%3] = %5
 10      END i2
 11    END i1
 12  END i0
"""


@pytest.mark.parametrize(
    ("split", "places"),
    [
        ((6, 1), (0, 2, 4)),
        # The lane moves along both dimensions: two of four columns are in a word.
        ((6, 2), (0, 1, 4, 5, 8, 9)),
    ],
)
def test_lanes_that_move_together_are_one_store(same_as_golden, split, places):
    kernel = parse_kernel(KERNEL)
    layout = Layout((6, 4), split)
    plan = plan_kernel(kernel, lanes={2: 2}, layouts={0: layout, 1: layout})
    (store,) = plan.all(Store)
    assert plan.ii == 1
    assert sorted(store.places) == list(places)
    assert [entry.lane for entry in store.lanes] == [0, split[1]]
    x = np.random.default_rng(1).integers(-99, 99, 24).astype(np.int32)
    same_as_golden(kernel, plan, {0: np.zeros(24, np.int32), 1: x})


def test_lanes_apart_are_stores_of_their_own(same_as_golden):
    """The second element is in another word in some steps."""
    kernel = parse_kernel(KERNEL.replace("mul int32 i0, 2:int32", "mul int32 i0, 1:int32"))
    layout = Layout((6, 4), (3, 1))
    plan = plan_kernel(kernel, lanes={2: 2}, layouts={0: layout, 1: layout})
    assert len(plan.all(Store)) == 2
    x = np.random.default_rng(1).integers(-99, 99, 24).astype(np.int32)
    same_as_golden(kernel, plan, {0: np.zeros(24, np.int32), 1: x})

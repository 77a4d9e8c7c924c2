"""Hardware that lost a store would return zeros: planning raises instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tg2hdl_ir.errors import IRVerificationError
from tg2hdl_ir.nodes import IRBufStore, LoopIR
from tg2hdl_ir.parser import parse_kernel
from tg2hdl_lower import plan_kernel, planner

COPY = """kernel k
  b0: int32[1] output
  b1: int32[1]
  0  %0 = LOAD int32 b1[0:int32]
  1  STORE int32 b0[0:int32] = %0
"""


def test_a_pass_that_loses_a_store_is_found(monkeypatch):
    def losing(kernel):
        items = tuple(i for i in kernel.loop_tree.items if not isinstance(i, IRBufStore))
        return replace(kernel, loop_tree=LoopIR.from_items(items))

    plan_kernel(parse_kernel(COPY))
    monkeypatch.setattr(planner, "flatten", losing)
    with pytest.raises(IRVerificationError, match="planning lost what the kernel writes to b0") as caught:
        plan_kernel(parse_kernel(COPY))
    assert "k" in str(caught.value)

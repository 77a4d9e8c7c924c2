"""Addresses that are affine under their gate, against the golden model of the kernel as it was."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import (
    AffineAnalysis,
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    KernelIR,
    LoopIR,
    evaluate,
    verify,
)
from tg2hdl_ir.passes.gated_addresses import simplify_gated_addresses

I32 = DType.INT32


def op(name, a, b):
    b = IRConst(b, I32) if isinstance(b, int) else b
    return IROp(name, DType.BOOL if name == "lt" else I32, (a, b))


def kernel_of(address, gate, size=64):
    """Copies b1 through an address of two counters, zero where the gate is false."""
    i, j = IRCounter(8, 0, 0), IRCounter(3, 1, 1)
    load = IRBufLoad(1, address(i, j), I32, gate(i, j), IRConst(0, I32))
    out = op("add", op("mul", i, 3), j)
    inner = LoopIR.from_items((load, IRBufStore(0, out, load, I32)), counter=j)
    root = LoopIR.from_items((LoopIR.from_items((inner,), counter=i),))
    return KernelIR((BufferMeta(0, 24, I32, True), BufferMeta(1, size, I32, False)), root, name="window")


def between(value, low, high):
    first = op("lt", IRConst(low - 1, I32), value)
    return IROp("and", DType.BOOL, (first, op("lt", value, high + 1)))


def address_of(kernel):
    (load,) = (s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad))
    return AffineAnalysis().of(load.addr)


CASES = {
    # 2 i + j - 1 between 0 and 63
    "remainder": (
        lambda i, j: op("and", op("add", op("add", op("mul", i, 2), j), 63), 63),
        lambda i, j: op("lt", IRConst(0, I32), op("add", op("mul", i, 2), j)),
        "2*i0 + i1 - 1",
    ),
    # (i + (j >> 1) + 31) >> 5 is 1 where 2 <= 2 i + j
    "quotient": (
        lambda i, j: op(
            "add",
            op("and", op("add", op("shr", op("add", op("add", op("shr", j, 1), i), 31), 5), 7), 7),
            op("add", op("mul", i, 2), j),
        ),
        lambda i, j: between(op("add", op("mul", i, 2), j), 2, 15),
        "2*i0 + i1",
    ),
    # A window of stride 2 in rows of 12: (i + (j >> 1)) / 6 is 0 where 2 i + j < 12, and the row then is less than 5.
    "division": (
        lambda i, j: op(
            "add",
            op("mul", op("mod", op("add", j, op("div", op("add", op("shr", j, 1), i), 6)), 5), 12),
            op("add", op("mul", i, 2), j),
        ),
        lambda i, j: op("lt", op("add", op("mul", i, 2), j), 12),
        "2*i0 + 13*i1",
    ),
    # (i - 3) / 5 is rounded to zero: 0 from i = 0 on, and the remainder has the sign of i - 3.
    "division of negative numbers": (
        lambda i, j: op("add", op("div", op("sub", i, 3), 5), op("add", op("mod", op("sub", i, 3), 5), 3)),
        lambda i, j: op("lt", i, 7),
        None,
    ),
    "two periods": (
        lambda i, j: op("and", op("add", op("mul", i, 16), j), 63),
        lambda i, j: op("lt", i, 7),
        None,
    ),
    "no help from the gate": (
        lambda i, j: op("and", op("add", op("add", i, j), 63), 63),
        lambda i, j: op("lt", i, 7),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_address(name):
    address, gate, expected = CASES[name]
    kernel = kernel_of(address, gate)
    changed = simplify_gated_addresses(kernel)
    verify(changed)
    assert address_of(kernel) is None
    form = address_of(changed)
    assert (form if form is None else str(form)) == expected
    if expected is None:
        assert changed is kernel
    data = {1: np.arange(100, 164, dtype=np.int32)}
    before, after = (evaluate(k, data)[0] for k in (kernel, changed))
    np.testing.assert_array_equal(before, after)

"""Patterns for rewrites."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir import DType, IRConst, IROp, IRVariable, evaluate, verify
from tg2hdl_ir.passes.pattern import const, op, rewrite, value
from tg2hdl_ir.testing.samples import elementwise

INT, F = DType.INT32, DType.FP32
A, B = IRVariable("a", 0, 9), IRVariable("b", 0, 9)


def test_literals_are_compared_by_value():
    node = IROp("add", INT, (A, IRConst(1, INT)))
    assert op("add", value("x"), const(1)).match(node) == {"x": A}
    assert op("add", value("x"), const(2)).match(node) is None
    third = IROp("mul", F, (IROp("cast", F, (A,)), IRConst(np.float32(1 / 3), F)))
    assert op("mul", value("x"), const(1 / 3)).match(third) == {"x": third.srcs[0]}


def test_commutative_ops_match_in_either_order():
    pattern = op("sub", op("add", const(1), value("x")), value("y"))
    assert pattern.match(IROp("sub", INT, (IROp("add", INT, (A, IRConst(1, INT))), B))) == {"x": A, "y": B}
    assert pattern.match(IROp("sub", INT, (B, IROp("add", INT, (A, IRConst(1, INT)))))) is None


def test_one_name_twice_is_one_value():
    square = op("mul", value("x"), value("x"), bind="product")
    node = IROp("mul", INT, (A, A))
    assert square.match(node) == {"product": node, "x": A}
    assert square.match(IROp("mul", INT, (A, B))) is None
    assert square.match(A) is None


def test_rewriting_replaces_each_match_and_nothing_else():
    kernel = elementwise(4, "add", "int32")
    same = rewrite(kernel, op("mul", value("x"), value("y")), lambda node, x, y: x)
    assert same is kernel
    changed = verify(
        rewrite(kernel, op("add", value("x"), value("y")), lambda node, x, y: IROp("sub", node.dtype, (x, y)))
    )
    inputs = {b.idx: np.arange(4, dtype=np.int32) * (b.idx + 1) for b in kernel.buffers}
    (plus,), (minus,) = evaluate(kernel, inputs).values(), evaluate(changed, inputs).values()
    one, two = (inputs[b.idx] for b in kernel.buffers if not b.is_output)
    assert (plus == one + two).all()
    assert set(map(tuple, [minus])) <= {tuple(one - two), tuple(two - one)}

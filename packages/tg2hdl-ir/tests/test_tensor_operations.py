"""Operations of tensor graphs are those of the kernel IR: the same types, and the same numbers where both are exact."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, InputError, resolve
from tg2hdl_ir.tensors import ELEMENTWISE, TensorGraph, TensorNode
from tg2hdl_ir.tensors.check import check_graph

_APPROXIMATE = {"EXP2", "LOG2", "SIN"}
"""Their last bits differ: the kernel IR rounds once, from float64."""


def operand_types(name: str, operand: DType) -> tuple[DType, ...]:
    return (DType.BOOL, operand, operand) if name == "WHERE" else (operand,) * ELEMENTWISE[name].arity


CASES = [
    (name, dtype)
    for name, operation in ELEMENTWISE.items()
    # The others are evaluated by the kernel IR itself.
    if operation.kernel is not None and operation.numpy is not None
    for dtype in map(DType.from_name, ("int8", "uint8", "int32", "int64", "bool", "fp32"))
    if operation.result_types(operand_types(name, dtype))
    # tinygrad divides integers by CDIV.
    and (name != "FDIV" or dtype.is_float)
]


@pytest.mark.parametrize(("name", "operand"), CASES, ids=lambda value: str(value))
def test_results_are_those_of_the_kernel_ir(name: str, operand: DType) -> None:
    operation, types = ELEMENTWISE[name], operand_types(name, operand)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 7, 100).astype(t.numpy()) for t in types]
    if operand.is_float or (operand.kind == "int" and name not in ("SHL", "SHR")):
        arrays = [a if t.is_bool else (a - 3).astype(a.dtype) for a, t in zip(arrays, types, strict=True)]
    for result in operation.result_types(types):
        with np.errstate(all="ignore"):
            found = operation(arrays, types, result)
        assert operation.kernel is not None
        wanted = resolve(operation.kernel.evaluate)(tuple(arrays), types, result)
        assert found.dtype == wanted.dtype == result.numpy()
        if name in _APPROXIMATE:
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, wanted)


def test_types_that_the_kernel_ir_refuses_are_refused() -> None:
    floats, integers = DType.FP32, DType.INT32
    nodes = (
        TensorNode("input", (), 0, (2,), floats),
        TensorNode("input", (), 1, (2,), integers),
        TensorNode("WHERE", (1, 0, 0), None, (2,), floats),
    )
    with pytest.raises(InputError, match="operands of the types int32, fp32, fp32"):
        check_graph(TensorGraph("g", nodes, (0, 1), (2,), ("x", "y")))

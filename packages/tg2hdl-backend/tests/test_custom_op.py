"""Ops of plugins in tinygrad programs, by their names."""

from types import ModuleType

import numpy as np
import pytest
from tinygrad import Tensor
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend import capture, custom_op, own_result
from tg2hdl_ir import OpDef, UnsupportedError, evaluate_program, hookimpl, registry

pytestmark = pytest.mark.skipif(hasattr(Ops, "DEVICE"), reason="tinygrad 0.13 gives CUSTOMI no shape")


def mix(a, b):
    return a * np.asarray(3, a.dtype) - b


def evaluate(operands, types, result):
    return mix(*operands).astype(result.numpy())


@pytest.fixture(autouse=True)
def plugin():
    module = ModuleType("plugin_mix")

    @hookimpl
    def tg2hdl_ops():
        return [OpDef("my.mix", 2, lambda types: types[0] if types[0] == types[1] else None, evaluate)]

    module.tg2hdl_ops = tg2hdl_ops
    with registry().extended(module, distribution="mine") as plugins:
        plugins.describe()
        yield


def golden(model, *inputs):
    captured = capture(model, *inputs)
    results = evaluate_program(captured.program, captured.bind(*inputs))
    return captured.program, next(iter(results.values()))


X = np.arange(-3, 3, dtype=np.int16)
F = (X / 4).astype(np.float32)
CASES = {
    "chain": (
        lambda x: custom_op("my.mix", custom_op("my.mix", x, x * 5), x),
        lambda x: mix(mix(x, x * 5), x),
    ),
    "padded": (
        lambda x: custom_op("my.mix", x.pad((1, 2)), x.pad((3, 0), value=2)),
        lambda x: mix(np.pad(x, (1, 2)), np.pad(x, (3, 0), constant_values=2)),
    ),
    "padded later": (lambda x: custom_op("my.mix", x, x + 1).pad((1, 1)), lambda x: np.pad(mix(x, x + 1), 1)),
    "moved": (
        lambda x: custom_op("my.mix", x.reshape(2, 3).T.flip(0), x.reshape(3, 2)),
        lambda x: mix(x.reshape(2, 3).T[::-1], x.reshape(3, 2)),
    ),
    "broadcast": (
        lambda x: custom_op("my.mix", x.reshape(6, 1), x.reshape(1, 6)),
        lambda x: mix(x[:, None], x[None]),
    ),
    "constant": (
        lambda x: custom_op("my.mix", x, Tensor.full((6,), 2, dtype=x.dtype)),
        lambda x: mix(x, np.asarray(2, x.dtype)),
    ),
    "reduced": (
        lambda x: custom_op("my.mix", x.reshape(2, 3).max(0), x[:3]),
        lambda x: mix(x.reshape(2, 3).max(0), x[:3]),
    ),
    "of a sum": (
        lambda x: custom_op("my.mix", x, x).reshape(2, 3).max(0),
        lambda x: mix(x, x).reshape(2, 3).max(0),
    ),
}


@pytest.mark.parametrize("x", [X, F, X.astype(np.int8), X.astype(np.uint32)], ids=lambda x: x.dtype.name)
@pytest.mark.parametrize("name", CASES)
def test_an_op_in_a_program(name, x):
    model, expected = CASES[name]
    program, result = golden(model, x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, expected(x))
    # The wider types by which the operands pass through tinygrad are gone.
    text = "\n".join(call.kernel.format() for call in program.calls)
    assert "my.mix" in text
    assert not {"fp64", "int64", "uint64"} & set(text.split())


def test_refusals():
    x = Tensor(X)
    with pytest.raises(UnsupportedError, match=r"unknown op 'my\.other'"):
        custom_op("my.other", x)
    with pytest.raises(UnsupportedError, match="1 operands for an op of 2"):
        custom_op("my.mix", x)
    with pytest.raises(UnsupportedError, match="operand of double"):
        custom_op("my.mix", x.cast("float64"), x.cast("float64"))
    with pytest.raises(UnsupportedError, match="no hardware for tinygrad op CUSTOMI"):
        capture(lambda x: Tensor(UOp(Ops.CUSTOMI, x.dtype, (x.uop,), "{0}")), X)


def test_types_that_the_op_does_not_take_are_refused():
    with pytest.raises(Exception, match=r"my\.mix does not take operands of type \(int16, fp32\)"):
        capture(lambda x, y: custom_op("my.mix", x, y), X, F)


def test_devices_of_tinygrad_do_not_have_it():
    with pytest.raises(UnsupportedError) as error:
        own_result(lambda x: custom_op("my.mix", x, x), X)
    assert str(error.value) == (
        "unsupported: tinygrad's PYTHON device does not have these ops of plugins: my.mix\n  at: model <lambda>\n"
        "  hint: compare with a reference of your own; golden and simulate compute the op"
    )

"""Channels that are the same in all runs: which of them go, with the bits of a convolution in numpy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tg2hdl_ir import DType, KernelCall, ProgramBuffer, ProgramIR, evaluate_program, parse_kernel
from tg2hdl_ir.analysis import needed_channels
from tg2hdl_ir.passes.constant_channels import drop_constant_channels

PIXELS = 6
LIMIT = 100
"""Values are cut to 0 and this number."""


def convolution(taps: int, inputs: int, outputs: int, inner: bool, deep: bool = False) -> str:
    """A kernel: sums over taps and channels, a bias, and a cut; channels are innermost or outermost."""
    first, size = taps // 2, PIXELS * (1 if deep else inputs)
    channel = "i1" if deep else "i2"
    at = f"%3 = mul int32 %2, {inputs}:int32\n%4 = add int32 %3, {channel}"
    to = f"%20 = mul int32 i0, {outputs}:int32\n%21 = add int32 %20, i1"
    if not inner:
        at = f"%3 = mul int32 {channel}, {PIXELS}:int32\n%4 = add int32 %3, %2"
        to = f"%20 = mul int32 i1, {PIXELS}:int32\n%21 = add int32 %20, i0"
    return f"""kernel convolution
b0 y: int32[{PIXELS * outputs}] output
b1 x: int32[{PIXELS * inputs}]
b2 w: int32[{outputs * (1 if deep else inputs) * taps}]
b3 b: int32[{outputs}]
r0: int32
RANGE i0 < {PIXELS} loop
RANGE i1 < {outputs} loop
SET r0 = 0:int32
RANGE i2 < {1 if deep else inputs} reduce
RANGE i3 < {taps} reduce
%1 = add int32 i0, i3
%2 = add int32 %1, {-first}:int32
{at}
%5 = lt bool %2, {PIXELS}:int32
%6 = lt bool -1:int32, %2
%7 = and bool %5, %6
%8 = LOAD int32 b1[%4] if %7 else 0:int32
%9 = mul int32 i1, {taps * size // PIXELS}:int32
%10 = mul int32 i2, {taps}:int32
%11 = add int32 %9, %10
%12 = add int32 %11, i3
%13 = LOAD int32 b2[%12]
%14 = GET int32 r0
%15 = mul int32 %8, %13
%16 = add int32 %14, %15
SET r0 = %16
END i3
END i2
%17 = LOAD int32 b3[i1]
%18 = GET int32 r0
%19 = add int32 %17, %18
%30 = max int32 %19, 0:int32
%31 = min int32 %30, {LIMIT}:int32
{to}
STORE int32 b0[%21] = %31
END i1
END i0
"""


class Net:
    """Layers of a few pixels; weights and biases are changed before it is compiled."""

    def __init__(self, *layers: tuple[int, int, bool], inputs: int = 2, inner: bool = True) -> None:
        rng, self.inner, self.layers = np.random.default_rng(1), inner, []
        self.inputs = inputs
        for outputs, taps, deep in layers:
            weights = rng.integers(-9, 10, (outputs, 1 if deep else inputs, taps))
            self.layers.append(
                (weights.astype(np.int32), rng.integers(-9, 99, outputs).astype(np.int32), deep)
            )
            inputs = outputs

    def program(self) -> ProgramIR:
        buffers = [ProgramBuffer("x", DType.INT32, (PIXELS, self.inputs), "input")]
        calls, count = [], self.inputs
        for n, (weights, bias, deep) in enumerate(self.layers):
            outputs, _, taps = weights.shape
            role = "output" if n == len(self.layers) - 1 else "temporary"
            buffers += [
                ProgramBuffer(f"w{n}", DType.INT32, weights.shape, "weight", weights.reshape(-1)),
                ProgramBuffer(f"b{n}", DType.INT32, bias.shape, "weight", bias),
                ProgramBuffer(f"y{n}", DType.INT32, (PIXELS * outputs,), role),
            ]
            kernel = parse_kernel(convolution(taps, count, outputs, self.inner, deep))
            calls.append(KernelCall(kernel, (3 * n + 3, 3 * n, 3 * n + 1, 3 * n + 2)))
            count = outputs
        return ProgramIR("net", tuple(buffers), tuple(calls), (len(buffers) - 1,))

    def expected(self, x: np.ndarray) -> np.ndarray:
        values = x.astype(np.int64)  # pixels, channels
        for weights, bias, deep in self.layers:
            outputs, inputs, taps = weights.shape
            padded = np.pad(values, ((taps // 2, taps // 2), (0, 0)))
            total = np.tile(bias.astype(np.int64), (PIXELS, 1))
            for p, o, i, t in product(range(PIXELS), range(outputs), range(inputs), range(taps)):
                total[p, o] += int(weights[o, i, t]) * padded[p + t, o if deep else i]
            values = total.clip(0, LIMIT)
        return values

    def left(self) -> list[list[int]]:
        """Trip counts of the loops over outputs and inputs, after bits were compared."""
        program = self.program()
        made, gone, channels = drop_constant_channels(program)
        assert (made is program) == (gone == 0)
        assert channels == sum(len(bias) for _, bias, _ in self.layers[:-1])
        rng = np.random.default_rng(2)
        for low, high in ((-(1 << 31), 1 << 31), (-9, 10), (0, 1)):
            x = rng.integers(low, high, (PIXELS, self.inputs))
            # Sums of the first layer must not overflow in the reference.
            x = x // (1 if high < 100 else 1 << 12)
            given = (x if self.inner else x.T).astype(np.int32)
            found = evaluate_program(made, {"x": given.reshape(-1)}, {})[f"y{len(self.layers) - 1}"]
            found = found.reshape((PIXELS, -1) if self.inner else (-1, PIXELS))
            np.testing.assert_array_equal(found if self.inner else found.T, self.expected(x))
        loops = [[loop.bound for loop in c.kernel.loop_tree.walk()][2:4] for c in made.calls]
        assert gone == sum(len(b) - o for (_, b, _), (o, _) in zip(self.layers, loops, strict=True))
        return loops


@pytest.fixture(params=[True, False], ids=["innermost", "outermost"])
def inner(request) -> bool:
    return request.param


def constant(net: Net, layer: int, channels: list[int], value: int) -> None:
    """Make channels constant: without weights, or far above the limit."""
    weights, bias, _ = net.layers[layer]
    bias[channels] = value
    if value <= LIMIT:
        weights[channels] = 0


@pytest.mark.parametrize("value", [-5, 0, 7, 10**6])
def test_constants_become_part_of_the_biases(inner, value):
    net = Net((8, 1, False), (3, 1, False), inner=inner)
    # Not without weights: with inputs of 32 bits sums below the limit are proven by none.
    net.layers[0][0][[1, 2, 4, 7]] = 0
    net.layers[0][1][[1, 2, 4, 7]] = value
    assert net.left() == [[4, 2], [3, 4]]


@pytest.mark.parametrize(("value", "count"), [(0, 4), (7, 8)])
def test_padding_must_be_the_same_value(inner, value, count):
    net = Net((8, 1, False), (3, 3, False), inner=inner)
    constant(net, 0, [0, 1, 2, 3], value)
    assert net.left() == [[count, 2], [3, count]]


def test_a_bound_proves_the_channels_after_it(inner):
    """At most 8 times 100 times 9 is added to a bias; sums of 32 bits would prove nothing."""
    net = Net((8, 1, False), (8, 1, False), (3, 1, False), inner=inner)
    net.layers[1][1][:] = [9 * 8 * LIMIT + LIMIT, -(9 * 8 * LIMIT)] * 2 + [0] * 4
    assert net.left() == [[8, 2], [4, 8], [3, 4]]


def test_a_channel_without_readers_is_not_made(inner):
    """Through a layer for each channel, which could not be constant."""
    net = Net((8, 1, False), (8, 3, True), (4, 1, False), (3, 1, False), inner=inner)
    net.layers[2][0][:, [0, 3, 5, 6]] = 0
    # Two of its channels are needed only for results that are constants.
    net.layers[3][0][:, [1, 2]] = 0
    net.layers[2][0][[0, 3]] *= np.where(np.isin(np.arange(8), [1, 2]), 0, 1)[None, :, None]
    assert net.left() == [[2, 2], [2, 1], [2, 2], [3, 2]]


def test_multiples_stay_that_lanes_divide(inner):
    net = Net((24, 1, False), (3, 1, False), inner=inner)
    constant(net, 0, [*range(13)], 1)
    assert net.left() == [[16, 2], [3, 16]]
    constant(net, 0, [*range(24)], 1)
    assert net.left() == [[1, 2], [3, 1]]


def test_nothing_goes_where_values_vary(inner):
    assert Net((8, 1, False), (8, 3, True), (3, 3, False), inner=inner).left() == [[8, 2], [8, 1], [3, 8]]


def test_a_kernel_of_many_iterations_keeps_its_channels(inner, monkeypatch):
    monkeypatch.setattr(needed_channels, "MOST", 8)
    net = Net((8, 1, False), (3, 1, False), inner=inner)
    constant(net, 0, [1, 2, 4, 7], 0)
    assert net.left() == [[8, 2], [3, 8]]

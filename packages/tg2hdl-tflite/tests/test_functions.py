"""Functions of one int8 code against TensorFlow Lite Micro, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tg2hdl_ir import UnsupportedError
from tg2hdl_tflite.arithmetic import absolute, elu, reciprocal_root
from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

CODES = np.arange(-128, 128).astype(np.int8)[None]
NAMES: dict[str, tuple[Callable[..., Any], Callable[[float], float]]] = {
    "ELU": (elu, lambda x: x if x > 0 else math.expm1(x)),
    "ABS": (lambda x, s, s_out, zero: np.clip(absolute(x, s, s_out) + zero, -128, 127), abs),
    "RSQRT": (reciprocal_root, lambda x: x**-0.5),
}
"""Codes of steps by the package, and the function itself."""


def scale(g: np.random.Generator, low: float = -8, high: float = 0) -> np.float32:
    """A third are powers of two, so that there are ties."""
    power = g.uniform(low, high)
    return np.float32(2.0 ** (round(power) if g.integers(3) == 0 else power))


def zero_point(g: np.random.Generator) -> int:
    return int(g.choice([-128, 0, 127, g.integers(-128, 128)]))


def single(name: str, x: np.ndarray, s_in: Any, zero: int, s_out: Any, zero_out: int) -> bytes:
    net = Network()
    a = net.tensor(x.shape, "INT8", scale=s_in, zero_point=zero)
    y = net.tensor(x.shape, "INT8", scale=s_out, zero_point=zero_out)
    net.operator(name, [a], [y])
    return net.finish([a], [y])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_designs_have_the_codes_of_tflm(name: str, seed: int) -> None:
    """After RELU in the case of RSQRT, whose codes begin with the zero point: TFLM ends with an error below it."""
    g = np.random.default_rng(100 * seed + len(name))
    s_in, zero = scale(g), zero_point(g)
    net = Network()
    a, b = (net.tensor(CODES.shape, "INT8", scale=s_in, zero_point=zero) for _ in range(2))
    y = net.tensor(CODES.shape, "INT8", scale=s_in * scale(g, -2, 1), zero_point=zero_point(g))
    if name == "RSQRT":
        net.operator("RELU", [a], [b], version=2)
    net.operator(name, [b if name == "RSQRT" else a], [y])
    data = net.finish([a], [y])
    np.testing.assert_array_equal(run_golden(data, CODES[None])[0][0], run_micro(data, CODES[None])[0][0])


@pytest.mark.parametrize("name", NAMES)
def test_codes_next_to_halves(name: str) -> None:
    """Scales of the result put one code next to a half: there the order of roundings in float32 shows."""
    g = np.random.default_rng(11)
    codes_of, real = NAMES[name]
    for _ in range(150):
        zero, zero_out, s_in = int(g.choice([-128, 0, 90])), zero_point(g), scale(g)
        x = CODES[:, zero + 128 :] if name == "RSQRT" else CODES
        steps = x.astype(np.int64) - zero
        size = abs(real(float(s_in) * int(g.choice(steps[steps != 0]))))
        s_out = np.float32(size / (g.integers(0, 120) + 0.5))
        s_out = np.nextafter(s_out, s_out * np.float32(g.choice([0.5, 1, 2])))
        wanted = run_micro(single(name, x, s_in, zero, s_out, zero_out), x[None])[0][0]
        np.testing.assert_array_equal(codes_of(steps, s_in, s_out, zero_out), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_codes_at_any_scales(name: str) -> None:
    g = np.random.default_rng(12)
    for _ in range(100):
        zero, zero_out = zero_point(g), zero_point(g)
        s_in = scale(g)
        s_out = g.choice([s_in, scale(g, -9, 3)])
        x = CODES[:, zero + 128 :] if name == "RSQRT" else CODES
        wanted = run_micro(single(name, x, s_in, zero, s_out, zero_out), x[None])[0][0]
        found = NAMES[name][0](x.astype(np.int64) - zero, s_in, s_out, zero_out)
        np.testing.assert_array_equal(found, wanted)


def division(divisors: Any, s_in: Any, zeros: tuple[int, int, int], s_by: Any, s_out: Any) -> bytes:
    """Of codes at 16 rows, by a constant for each row."""
    net = Network()
    a = net.tensor((16, 256), "INT8", scale=s_in, zero_point=zeros[0])
    b = net.constant(np.array(divisors, np.int8), scale=s_by, zero_point=zeros[1])
    y = net.tensor((16, 256), "INT8", scale=s_out, zero_point=zeros[2])
    net.operator("DIV", [a, b], [y], "DivOptions", version=2, FusedActivationFunction=1)
    return net.finish([a], [y])


@pytest.mark.parametrize("seed", range(3))
def test_division_by_constants(seed: int) -> None:
    g = np.random.default_rng(seed)
    zeros = int(g.choice([-128, 0, 127])), int(g.integers(-20, 20)), zero_point(g)
    steps = np.array([*range(-8, 0), *range(1, 9)])[:, None]
    s_in, s_by = scale(g), scale(g)
    # Quotients of codes up to 255: more than a code each, or TFLM's shifts have no defined result.
    s_out = np.float32(float(s_in) / float(s_by) / g.choice([8, 16, g.uniform(8, 40)]))
    data, x = division(steps + zeros[1], s_in, zeros, s_by, s_out), np.tile(CODES, (1, 16, 1))
    np.testing.assert_array_equal(run_golden(data, x)[0][0], run_micro(data, x)[0][0])


def test_divisions_without_a_result() -> None:
    x = np.tile(CODES, (1, 16, 1))
    with pytest.raises(UnsupportedError, match="tensor 't2': a division by 0\n"):
        run_golden(division(np.full((16, 1), 3), 1, (0, 3, 0), 1, 1), x)
    with pytest.raises(
        UnsupportedError, match="shifts by more than 31 bits, whose result depends on the proc"
    ):
        run_golden(division(np.full((16, 1), 8), 1, (0, 0, 0), 1, 1), x)


REFUSED = {
    "RSQRT": (
        "codes below the zero point 5 are numbers below zero, which have no root",
        "quantize the model again with numbers from zero on, or apply RELU before it",
    ),
    "LOG": (
        "TensorFlow Lite Micro has no form of it for INT8 codes",
        "keep this layer in float32, or replace it in the model",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_tflm_refuses(name: str) -> None:
    data = single(name, CODES[:, :3], 0.5, 5, 0.25, -128)
    with pytest.raises(UnsupportedError) as caught:
        run_golden(data, CODES[None, :, :3])
    assert str(caught.value) == (
        "unsupported: net.tflite has 1 operator without hardware\n"
        f"  note: operator 0, {name} version 1, tensor 't1': {REFUSED[name][0]}\n"
        f"  hint: {REFUSED[name][1]}"
    )
    with pytest.raises(Exception, match="Interpreter invocation failed"):
        run_micro(data, CODES[None, :, :3])


@pytest.mark.parametrize("name", NAMES)
def test_there_is_no_form_of_the_reference_kernels(name: str) -> None:
    with pytest.raises(UnsupportedError, match="there is no form of LiteRT's reference kernel for INT8"):
        run_golden(single(name, CODES, 0.5, -128, 0.5, 0), CODES[None], rounding="tflite-reference")

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from posit_operands import corners, pairs
from tg2hdl_formats import BLOCK, E2M1, INT8, POSIT16, MXScale, PositAdd, golden, mx_golden, plugin, to_words
from tg2hdl_formats.exact import dot_value, posit_result, posit_value, round_to_posit
from tg2hdl_formats.tensors import (
    mx_dot,
    posit_from_float,
    posit_mul,
    posit_sub,
    posit_to_float,
)

import tg2hdl
from tg2hdl_fp32 import FP32
from tg2hdl_fp32.testing import check_unit as check_core
from tg2hdl_ir import DType, UnsupportedError, registry
from tg2hdl_ir.testing.conformance import check_op, check_unit
from tg2hdl_sim.testing.units import simulate_unit

TYPES = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32}


@contextmanager
def registered():
    with registry().extended(plugin, distribution="tg2hdl-formats") as plugins:
        plugins.describe()
        yield


@pytest.mark.parametrize("width", TYPES)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_golden_arithmetic_is_exact(op, width):
    a, b = pairs(width, 40, seed=2)
    dtype = TYPES[width]
    result = getattr(golden, op)((a.astype(dtype.numpy()), b.astype(dtype.numpy())), (dtype, dtype), dtype)
    assert result.dtype == dtype.numpy()
    expected = [posit_result(op, width, int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert result.tolist() == expected


@pytest.mark.parametrize("width", TYPES)
def test_golden_conversions_are_exact(width):
    dtype = TYPES[width]
    patterns = np.array(corners(width, 200), dtype.numpy())
    floats = golden.to_fp32((patterns,), (dtype,), DType.FP32)
    values = [posit_value(int(k), width) for k in patterns]
    for value, number in zip(values, floats, strict=True):
        assert np.isnan(number) if value is None else number == np.float32(float(value))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 400, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate(
        [x, floats, np.nextafter(floats, np.float32(0)), np.float32([1e-45, -1e-40, 3e38, np.inf])]
    )
    found = golden.from_fp32((x,), (DType.FP32,), dtype)
    for number, pattern in zip(x, found, strict=True):
        finite = np.isfinite(number)
        assert pattern == (round_to_posit(Fraction(float(number)), width) if finite else 1 << (width - 1))


UNITS = plugin.tg2hdl_arithmetic_units()


def test_units_have_the_latencies_of_their_cores():
    assert {u.name: u.latency for u in UNITS} == {u.name: u.factory().latency for u in UNITS}


@pytest.mark.parametrize(
    "unit", [u for u in UNITS if u.name.startswith(("posit16", "mx"))], ids=lambda u: u.name
)
def test_units_give_the_golden_bits(unit):
    with registered():
        check_op(registry().op(unit.op), unit.operands, unit.result, count=20)
        check_unit(unit, simulate_unit, count=12)


def test_a_program_computes_with_posits():
    rng = np.random.default_rng(0)
    x, y, z = (rng.normal(size=3).astype(np.float32) for _ in range(3))

    def model(x, y, z):
        a, b, c = (posit_from_float(t, 16) for t in (x, y, z))
        return posit_to_float(posit_sub(posit_mul(a, b), c))

    with registered():
        accelerator = tg2hdl.compile(model, x, y, z)
        assert "posit16.mul" in accelerator.plan()
        result = accelerator.simulate(x, y, z)
    assert result.cycles.compute == accelerator.predicted_cycles
    for number, *inputs in zip(result.output, x, y, z, strict=True):
        a, b, c = (round_to_posit(Fraction(float(v)), 16) for v in inputs)
        pattern = posit_result("sub", 16, posit_result("mul", 16, a, b), c)
        assert number == float(posit_value(pattern, 16))


def test_a_program_multiplies_microscaling_matrices():
    element, rng = E2M1, np.random.default_rng(0)
    a, b = (rng.integers(0, 1 << element.width, (n, BLOCK)) for n in (2, 3))
    a_scale, b_scale = np.array([120, 3], np.uint8), np.array([130, 255, 125], np.uint8)
    inputs = (to_words(a, element), to_words(b, element), a_scale, b_scale)

    def model(a, b, a_scale, b_scale):
        return mx_dot(a.unsqueeze(1), b, a_scale.unsqueeze(1), b_scale, element=element.name)

    with registered():
        accelerator = tg2hdl.compile(model, *inputs)
        result = accelerator.simulate(*inputs)
    assert result.cycles.compute == accelerator.predicted_cycles
    for row, column in np.ndindex(2, 3):
        scales = int(a_scale[row]), int(b_scale[column])
        exact = dot_value(element.name, a[row].tolist(), b[column].tolist(), *scales)
        found = result.output[row, column]
        assert np.isnan(found) if exact == "nan" else found == FP32.decode(FP32.encode(exact))


def test_words_of_every_size_are_scaled_exactly():
    rng = np.random.default_rng(1)
    total = rng.integers(-(2**31), 2**31, 300) >> rng.integers(0, 31, 300)
    scales = rng.integers(0, 256, (2, 300)).astype(np.uint8)
    total[:2], scales[:, :2] = -(2**31), [[254, 60], [254, 60]]
    types = (DType.INT32, DType.UINT8, DType.UINT8)
    columns = (total.astype(np.int64) & 0xFFFFFFFF, *scales.astype(np.int64))
    exact = [scaled(*map(int, row)) for row in zip(*columns, strict=True)]
    golden_bits = mx_golden.scale_int8((total.astype(np.int32), *scales), types, DType.FP32).view(np.uint32)
    assert golden_bits.tolist() == exact
    result = check_core(MXScale(INT8, stages=2), "scale", FP32, operands=columns, expected=scaled)
    assert result, result.examples


def scaled(a, b, c):
    if 255 in (b, c):
        return FP32.nan
    return FP32.encode(Fraction(a - 2**32 if a >> 31 else a) * Fraction(2) ** (b + c - 254 - 12))


def test_the_readme_runs(capsys):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    with registered():
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert printed.startswith(f"{PositAdd(POSIT16, profile='fast').latency}\n[")
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    assert np.allclose([float(v) for v in re.findall(r"-?\d\.[\d]*", printed)], x * x + x, atol=2e-3)


def test_patterns_are_compared_as_integers():
    x = np.array([-2.5, -1, 0, 1e-9, 3, 1e9], np.float32)

    def largest(x):
        return posit_to_float(posit_from_float(x, 8).bitcast("int8").max().bitcast("uint8"))

    with registered():
        accelerator = tg2hdl.compile(largest, x)
        assert accelerator.simulate(x).output == 2.0**24


def test_without_the_plugin_an_op_is_refused():
    x = np.zeros(4, np.float32)
    with pytest.raises(UnsupportedError, match=r"unknown op 'posit\.from_fp32'"):
        tg2hdl.compile(lambda x: posit_from_float(x, 16), x)


def test_loading_the_plugin_imports_neither_amaranth_nor_tinygrad():
    code = "import sys, tg2hdl_formats.plugin; print(sorted({'amaranth', 'tinygrad', 'numpy'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "[]\n"

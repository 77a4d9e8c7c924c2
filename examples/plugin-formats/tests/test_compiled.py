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
from tg2hdl_formats import POSIT16, PositAdd, golden, plugin
from tg2hdl_formats.exact import posit_result, posit_value, round_to_posit
from tg2hdl_formats.tensors import (
    posit_from_float,
    posit_mul,
    posit_sub,
    posit_to_float,
)

import tg2hdl
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


@pytest.mark.parametrize("unit", [u for u in UNITS if u.name.startswith("posit16")], ids=lambda u: u.name)
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

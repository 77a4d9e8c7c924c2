"""Waveforms in the user's terms."""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np
import pytest
from tinygrad import Tensor

from tg2hdl_backend import Runner, capture
from tg2hdl_ir import registry
from tg2hdl_top import CompileOptions, compile_program


def values_of(path):
    """Values of each variable below the scope ``model``, in order."""
    header, _, body = path.read_text().partition("$enddefinitions $end")
    codes, scopes = {}, []
    for kind, rest in re.findall(r"\$(scope|upscope|var)\b(.*?)\$end", header, flags=re.DOTALL):
        if kind == "scope":
            scopes.append(rest.split()[1])
        elif kind == "upscope":
            scopes.pop()
        elif scopes[0] == "model":
            codes[rest.split()[2]] = ".".join([*scopes[1:], rest.split()[3]])
    found = {name: [] for name in codes.values()}
    for value, code in re.findall(r"^[rs](\S+) (\S+)$", body, flags=re.MULTILINE):
        with suppress(ValueError):
            value = float(value)
        found[codes[code]].append(value)
    return found


@pytest.mark.parametrize("engine", ["amaranth", "levelized"])
def test_a_waveform_has_numbers_and_names_of_kernels(engine, tmp_path):
    if registry().unavailable(registry().simulator(engine)):
        pytest.skip("no compiler")
    w = np.array([[1, -2], [3, 4], [-5, 6]], np.int8)
    x = np.array([[-100, 7, 3]], np.int8)
    weights = Tensor(w)
    program = capture(
        lambda x: ((x.cast("int32") @ weights.cast("int32")).float() * 0.25).contiguous() + 0.5, x
    )
    design = compile_program(program.program, CompileOptions(schedule="serial"))
    path = tmp_path / "run.vcd"
    with Runner(design, engine, vcd=str(path)) as runner:
        run = runner.run(program.bind(x))
    found = values_of(path)
    result = (x.astype(np.int32) @ w) * 0.25 + 0.5
    np.testing.assert_array_equal(run.outputs[0].reshape(result.shape), result)
    output = next(name for name in found if name.endswith("_1") and found[name][-1:] == [result[0, 1]])
    assert found[output.removesuffix("1") + "0"][-1] == result[0, 0]
    names = [call.kernel.name for call in program.program.calls]
    assert found["running"] == ["idle", *names, "idle"]
    assert found["x.x_0"][-1] == -100  # signed, a lane of its word
    (sums,) = [name for name in found if re.search(r"\.acc\d+$", name)]
    partial = (x.astype(np.int32) * w.T).cumsum(1)
    assert set(found[sums]) >= {float(value) for value in partial[:, -2]}

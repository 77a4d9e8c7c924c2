"""Single operators against ONNX Runtime, where an importer is easily wrong: each row was a wrong number or refused."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad.helpers import Context

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402
from tg2hdl_ir.errors import InputError, UnsupportedError  # noqa: E402

RNG = np.random.default_rng(3)
INF, NAN, F = np.inf, np.nan, np.float32
SPECIAL = np.array([1, -1, 0.0, INF, -INF, NAN, 2.5], np.float32)
OTHER = np.array([NAN, 2, 0.0, INF, INF, NAN, 2.5], np.float32)
LARGE = np.array([100, -5000, 1e12, -1e20, 1e-4, -0.3, INF, -INF, NAN], np.float32)
IMAGE = RNG.normal(size=(2, 2, 5, 5)).astype(np.float32)
GRID = RNG.uniform(-1.4, 1.4, (2, 3, 4, 2)).astype(np.float32)
MATRIX = RNG.normal(size=(7, 4)).astype(np.float32)
SIGNAL = RNG.normal(size=(1, 16, 1)).astype(np.float32)
FEW = RNG.integers(0, 256, (4, 2, 8)).astype(np.uint8)
BYTES = np.array([[9, 0, 3, 0], [1, 255, 1, 2]], np.uint8)
POOL = {"kernel_shape": [3, 2], "strides": [2, 2]}
Tensor = np.array

# operator, opset, inputs (those after the first that are arrays of a list are constants), attributes, results.
CASES = {
    "maxima in channels": ("MaxPool", 12, (IMAGE,), POOL, 2),
    "maxima by columns": ("MaxPool", 12, (IMAGE,), {**POOL, "storage_order": 1}, 2),
    "smallest byte": ("ArgMin", 13, (BYTES,), {"axis": 1, "select_last_index": 1}, 1),
    "less or equal": ("LessOrEqual", 16, (SPECIAL, OTHER), {}, 1),
    "greater or equal": ("GreaterOrEqual", 16, (SPECIAL, OTHER), {}, 1),
    "powers of integers": ("Pow", 13, (Tensor([3, -3, 7, 2]), Tensor([31, 5, 0, 40])), {}, 1),
    "powers of one": ("Pow", 13, (Tensor([1, 1, 2], np.float32), Tensor([INF, NAN, 3], np.float32)), {}, 1),
    "mean of integers": ("ReduceMean", 18, (Tensor([[7, -8, 0], [-7, 0, 0]]), [Tensor([1])]), {}, 1),
    "slice without axes": ("Slice", 13, (MATRIX, [Tensor([1])], [Tensor([-1])]), {}, 1),
    "slice of version 7": ("Slice", 7, (MATRIX,), {"starts": [1], "ends": [-1]}, 1),
    "uneven parts": ("Split", 18, (MATRIX,), {"num_outputs": 3}, 3),
    "gather without axis": ("GatherElements", 13, (MATRIX, Tensor([[1, -1, 0, 2]])), {}, 1),
    "top of version 7": ("TopK", 7, (MATRIX,), {"k": 2}, 2),
    "smaller image of version 10": ("Resize", 10, (IMAGE, [Tensor([1, 1, 0.6, 0.5], np.float32)]), {}, 1),
    "positions that are elements": (
        "Resize",
        13,
        (IMAGE, None, [Tensor([1, 1, 1.7, 0.6], np.float32)]),
        {"mode": "nearest", "nearest_mode": "floor"},
        1,
    ),
    "positions between two elements": (
        "Resize",
        13,
        (IMAGE, None, [Tensor([1, 1, 0.6, 1.7], np.float32)]),
        {
            "mode": "nearest",
            "nearest_mode": "round_prefer_ceil",
            "coordinate_transformation_mode": "asymmetric",
        },
        1,
    ),
    "positions symmetric about the middle": (
        "Resize",
        19,
        (MATRIX, None, [Tensor([0.5, 1.3], np.float32)]),
        {
            "mode": "nearest",
            "nearest_mode": "floor",
            "coordinate_transformation_mode": "half_pixel_symmetric",
        },
        1,
    ),
    "bytes between bytes": (
        "Resize",
        13,
        (BYTES.reshape(1, 1, 2, 4), None, [Tensor([1, 1, 2, 2], np.float32)]),
        {"mode": "linear"},
        1,
    ),
    "norms of windows with ceil": ("LpPool", 18, (IMAGE,), {**POOL, "ceil_mode": 1}, 1),
    "means of windows without one of padding alone": (
        "AveragePool",
        13,
        (IMAGE,),
        {"kernel_shape": [1, 2], "strides": [3, 3], "pads": [0, 1, 0, 1], "ceil_mode": 1},
        1,
    ),
    "means that count padding, without such a window": (
        "AveragePool",
        19,
        (IMAGE,),
        {
            "kernel_shape": [2, 2],
            "strides": [4, 4],
            "pads": [0, 1, 0, 1],
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
        1,
    ),
    "maxima of windows without one of padding alone": (
        "MaxPool",
        11,
        (IMAGE,),
        {"kernel_shape": [3, 3], "strides": [4, 2], "pads": [0, 1, 2, 2], "ceil_mode": 1},
        1,
    ),
    "norms of every other element": (
        "LpPool",
        18,
        (IMAGE,),
        {"kernel_shape": [1, 1], "strides": [4, 3], "ceil_mode": 1},
        1,
    ),
    "bytes of numbers and NaN": ("QuantizeLinear", 13, (SPECIAL, [F(0.5)], [np.uint8(7)]), {}, 1),
    "signed bytes of numbers and NaN": ("QuantizeLinear", 13, (SPECIAL, [F(0.5)], [np.int8(5)]), {}, 1),
    "norms of windows with gaps along an axis of one": (
        "LpPool",
        18,
        (IMAGE,),
        {"kernel_shape": [1, 2], "dilations": [2, 1], "auto_pad": "SAME_UPPER"},
        1,
    ),
    "every other element of an even axis": (
        "Conv",
        13,
        (IMAGE[..., :4], [IMAGE[:, :, :1, :1]]),
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        1,
    ),
    "norm of a channel": ("GlobalLpPool", 7, (IMAGE,), {"p": 3}, 1),
    "arc tangent": ("Atan", 18, (SPECIAL,), {}, 1),
    "arc tangent of large numbers": ("Atan", 18, (LARGE,), {}, 1),
    "inverse of sinh": ("Asinh", 18, (LARGE,), {}, 1),
    "inverse of cosh": ("Acosh", 18, (1 + abs(LARGE),), {}, 1),
    "inverse of tanh": ("Atanh", 18, (Tensor([0.5, -0.999, 1e-4], np.float32),), {}, 1),
    "hyperbolic sine": ("Sinh", 18, (Tensor([89, -89, 1e-4, 3, INF, -INF, NAN], np.float32),), {}, 1),
    "hyperbolic cosine": ("Cosh", 18, (Tensor([89, -89, 1e-4, 3, INF, -INF, NAN], np.float32),), {}, 1),
    "cosine of large numbers": ("Cos", 18, (Tensor([5000, -2500, 3, 0], np.float32),), {}, 1),
    "tangent of large numbers": ("Tan", 18, (Tensor([5000, -2500, 3, 0], np.float32),), {}, 1),
    "relu": ("Relu", 18, (SPECIAL,), {}, 1),
    "elu": ("Elu", 18, (SPECIAL,), {"alpha": 0.5}, 1),
    "sign": ("Sign", 18, (SPECIAL,), {}, 1),
    "largest": ("Max", 18, (SPECIAL, OTHER), {}, 1),
    "smallest": ("Min", 18, (SPECIAL, OTHER), {}, 1),
    "sums of large exponentials": ("ReduceLogSumExp", 18, (200 * MATRIX, [Tensor([1])]), {"keepdims": 0}, 1),
    "an odd part of the middle": ("CenterCropPad", 18, (MATRIX, [Tensor([4, 7])]), {}, 1),
    "scales of groups": (
        "GroupNormalization",
        18,
        (GRID.transpose(0, 2, 1, 3), MATRIX[0, :2], MATRIX[1, :2]),
        {"num_groups": 2},
        1,
    ),
    "softplus": ("Softplus", 18, (SPECIAL[:5],), {}, 1),
    "hard swish": ("HardSwish", 18, (SPECIAL[:4],), {}, 1),
    "shrink": ("Shrink", 18, (SPECIAL[:5],), {"lambd": 1.5, "bias": 0.5}, 1),
    "old mask": ("Dropout", 10, (MATRIX,), {}, 2),
    "grid, linear": ("GridSample", 20, (IMAGE, GRID), {"padding_mode": "reflection"}, 1),
    "grid, cubic": ("GridSample", 20, (IMAGE, GRID), {"mode": "cubic", "align_corners": 1}, 1),
    "grid, nearest": ("GridSample", 20, (IMAGE, GRID), {"mode": "nearest", "padding_mode": "border"}, 1),
    "determinant": ("Det", 11, (MATRIX[:4],), {}, 1),
    "fourier": ("DFT", 17, (SIGNAL,), {"axis": 1, "onesided": 1}, 1),
    "frames": (
        "STFT",
        17,
        (SIGNAL, [Tensor(4)], [np.hanning(8).astype(np.float32)], [Tensor(8)]),
        {},
        1,
    ),
    "deformed": (
        "DeformConv",
        19,
        (
            IMAGE[:, :1],
            RNG.normal(size=(2, 1, 2, 2)).astype(np.float32),
            RNG.normal(size=(2, 8, 4, 4)).astype(np.float32),
        ),
        {},
        1,
    ),
    "regions": (
        "RoiAlign",
        16,
        (IMAGE, Tensor([[0, 0, 4, 4], [1, -2, 5, 3]], np.float32), Tensor([1, 0])),
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
        1,
    ),
    "weights of 4 bits": (
        "com.microsoft.MatMulNBits",
        17,
        (
            SIGNAL.reshape(1, 16).repeat(2, 1),
            [FEW],
            [MATRIX.reshape(-1)[:8] ** 2],
            [Tensor([4, 90, 7, 255], np.uint8)],
        ),
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        1,
    ),
    "fused product": ("com.microsoft.FusedMatMul", 17, (MATRIX, MATRIX), {"transB": 1, "alpha": 0.5}, 1),
    "fused gemm": ("com.microsoft.FusedGemm", 17, (MATRIX, MATRIX[:4]), {"activation": "Relu"}, 1),
    "quick gelu": ("com.microsoft.QuickGelu", 17, (MATRIX,), {}, 1),
}


def save(path, operator, opset, inputs, attributes, results):
    domain, _, name = operator.rpartition(".")
    names = ["" if x is None else f"i{n}" for n, x in enumerate(inputs)]
    outputs = [f"o{n}" for n in range(results)]
    node = onnx.helper.make_node(name, names, outputs, name="the_node", domain=domain, **attributes)
    given = {n: x for n, x in zip(names, inputs, strict=True) if isinstance(x, np.ndarray)}
    constants = {n: x[0] for n, x in zip(names, inputs, strict=True) if isinstance(x, list)}
    opsets = {"": opset} | ({domain: 1} if domain else {})
    write(path, [node], [(n, x.dtype, x.shape) for n, x in given.items()], [], constants, opsets)
    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in outputs)
    inferred = onnx.shape_inference.infer_shapes(model)
    for output, found in zip(model.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(found)
        if not output.type.WhichOneof("value"):
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.save(model, path)
    return given


@pytest.mark.parametrize("name", CASES)
def test_agreement(tmp_path, name):
    path = tmp_path / "m.onnx"
    given = save(path, *CASES[name])
    found, wanted = golden(OnnxModel(path), *given.values()), runtime(path, **given)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_selu_has_the_constants_of_onnx(tmp_path):
    path = tmp_path / "m.onnx"
    given = save(path, "Selu", 18, (MATRIX,), {}, 1)
    np.testing.assert_allclose(golden(OnnxModel(path), *given.values()), runtime(path, **given), rtol=5e-7)


def test_an_index_of_a_comparison(tmp_path):
    """tinygrad drops the cast of such an index, which its own check then refuses."""
    path = tmp_path / "m.onnx"
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64),
        onnx.helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    table = np.array([3.5, -1.5], np.float32)
    write(path, nodes, [("x", bool, (3,))], [("y", np.float32, (3,))], {"table": table})
    x = np.array([True, False, True])
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], table[x.astype(int)])


def test_a_gather_from_a_scattered_table(tmp_path):
    """tinygrad simplifies the sum of this product without end, until its stack is full."""
    path = tmp_path / "m.onnx"
    nodes = [
        onnx.helper.make_node("ScatterElements", ["w", "i", "u"], ["scattered"], axis=0),
        onnx.helper.make_node("Gather", ["scattered", "j"], ["gathered"], axis=1),
        onnx.helper.make_node("MatMul", ["x", "gathered"], ["y"]),
    ]
    constants = {
        "w": RNG.normal(size=(5, 4)).astype(F),
        "i": np.array([[4, 0, 2, 1]]),
        "u": RNG.normal(size=(1, 4)).astype(F),
        "j": np.array([3, 3, 0, -2, 1]),
    }
    write(path, nodes, [("x", F, (3, 5))], [("y", F, (3, 5))], constants)
    x = RNG.normal(size=(3, 5)).astype(F)
    with Context(REWRITE_STACK_LIMIT=4000):  # 250,000 take seconds
        (found,) = golden(OnnxModel(path), x)
    np.testing.assert_allclose(found, runtime(path, x=x)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        *(
            (
                (
                    pool,
                    19,
                    (IMAGE,),
                    {"kernel_shape": [2, 2], "dilations": [1, 2], "auto_pad": "SAME_LOWER"},
                    1,
                ),
                "auto_pad=SAME_LOWER with dilations, for which ONNX Runtime does not pad as ONNX says",
            )
            for pool in ("AveragePool", "LpPool", "MaxPool")
        ),
        *(
            (
                (
                    pool,
                    19,
                    (IMAGE[..., :4],),
                    {"kernel_shape": [1, 1], "strides": [1, 2], "auto_pad": "SAME_UPPER"},
                    1,
                ),
                "auto_pad=SAME_UPPER with strides beyond the windows, for which ONNX Runtime does not pad as ONNX says",
            )
            for pool in ("AveragePool", "LpPool", "MaxPool")
        ),
        (
            ("Conv", 13, (IMAGE, [IMAGE[:, :, :1, :1]]), {"strides": [5, 5], "auto_pad": "SAME_UPPER"}, 1),
            "auto_pad=SAME_UPPER with strides beyond the windows, for which ONNX Runtime does not pad as ONNX says",
        ),
        (("Det", 11, (np.zeros((7, 7), np.float32),), {}, 1), "a matrix of 7 x 7, of at most 6"),
        (
            ("Pow", 13, (Tensor([3]), Tensor([0.5], np.float32)), {}, 1),
            "an integer to a power with a fraction",
        ),
        (
            ("com.microsoft.SkipLayerNormalization", 17, (MATRIX[None], MATRIX[None], MATRIX[0]), {}, 4),
            "its result 'o1' is not computed",
        ),
        (
            (
                "LSTM",
                14,
                (SIGNAL, *(np.zeros((1, 20, n), np.float32) for n in (1, 2))),
                {"hidden_size": 5},
                1,
            ),
            "a state of 2 for hidden_size=5: ONNX's operator has no projection",
        ),
        (
            ("com.microsoft.MultiHeadAttention", 17, (MATRIX[None],) * 3, {"num_heads": 2}, 1),
            "ONNX Runtime fused it from simpler operators",
        ),
        (
            ("GroupNormalization", 21, (IMAGE, MATRIX[0], MATRIX[0]), {"num_groups": 2}, 1),
            "these inputs and attributes are not supported (IndexError: shape mismatch: objects cannot be "
            "broadcast to a single shape ((2, 2, 5, 5), (1, 4, 1, 1)))",
        ),
    ],
)
def test_refusals_name_the_node(tmp_path, case, reason):
    path = tmp_path / "m.onnx"
    save(path, *case)
    with pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    name = case[0].rpartition(".")[2]
    assert error.value.message == f"ONNX operator {name}: {reason}"
    assert "node 'the_node'" in str(error.value.where)
    assert error.value.hint


def test_text_is_not_computed_with(tmp_path):
    words = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [2], ["a", "b"])
    nodes = [
        onnx.helper.make_node("Gather", ["words", "i"], ["w"]),
        onnx.helper.make_node("Unique", ["w"], ["y"], name="the_node"),
    ]
    path = tmp_path / "m.onnx"
    write(path, nodes, [("i", np.int64, (2,))], [("y", np.int64, (2,))])
    model = onnx.load(path)
    model.graph.initializer.append(words)
    onnx.save(model, path)
    with pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    assert error.value.message == "ONNX operator Unique: input 'w' is text"


def test_a_value_that_two_nodes_compute(tmp_path):
    nodes = [onnx.helper.make_node(o, ["x"], ["y"], name=o) for o in ("Relu", "Abs")]
    path = write(tmp_path / "m.onnx", nodes, [("x", np.float32, (2,))], [("y", np.float32, (2,))])
    with pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    assert error.value.message == "'y' is computed twice"


def test_an_opset_of_the_future(tmp_path):
    nodes, known = [onnx.helper.make_node("Relu", ["x"], ["y"])], onnx.defs.onnx_opset_version()
    path = write(
        tmp_path / "m.onnx",
        nodes,
        [("x", np.float32, (2,))],
        [("y", np.float32, (2,))],
        None,
        {"": known + 70},
    )
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert error.value.message == f"m.onnx is of opset {known + 70}; the installed onnx knows {known}"

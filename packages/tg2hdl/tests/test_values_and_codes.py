"""Outputs of quantized models: values as the file declares them, or codes; against numpy's own quantization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")

import tg2hdl  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import write  # noqa: E402
from tg2hdl_ir.errors import InputError  # noqa: E402

F = np.float32
RNG = np.random.default_rng(5)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: object) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes)


def quantizer_file(path: Path, scale: float, zero: np.generic) -> Path:
    """A file with a float output, and the integer codes of it."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    values = {"s": np.array(scale, F), "z": np.array(zero)}
    outputs = [("y", F, (2, 8)), ("q", values["z"].dtype, (2, 8))]
    return write(path, nodes, [("x", F, (2, 8))], outputs, values, {"": 17})


@pytest.mark.parametrize("zero", [np.int8(0), np.int8(-7), np.uint8(131), np.uint8(0)])
def test_a_file_gives_what_it_declares(tmp_path: Path, zero: np.generic) -> None:
    scale = F(RNG.uniform(0.02, 0.2))
    x = (3 * RNG.standard_normal((2, 8))).astype(F)
    limits = np.iinfo(zero.dtype)
    codes = np.clip(np.rint(x / scale) + int(zero), limits.min, limits.max).astype(zero.dtype)
    values = (codes.astype(F) - F(zero)) * scale
    path = quantizer_file(tmp_path / "q.onnx", scale, zero)
    accelerator = tg2hdl.compile(path, x)
    with accelerator.session("amaranth") as session:
        runs = [
            accelerator.golden(x),
            accelerator.golden({"x": x}),
            accelerator.golden(codes),
            accelerator.reference(x),
            accelerator.simulate(x, engine="amaranth").output,
            session.run(x).output,
            session.run_batch([x, {"x": x}])[1].output,
        ]
    for found in runs:
        assert list(found) == ["y", "q"]
        assert (found["y"].dtype, found["q"].dtype) == (F, zero.dtype)
        np.testing.assert_array_equal(found["y"], values)
        np.testing.assert_array_equal(found["q"], codes)
        assert not any(a.different for a in accelerator.check(found, x))
    result = accelerator.simulate(x, engine="amaranth", codes=True)
    for found in (
        result.output,
        result.codes,
        accelerator.golden(x, codes=True),
        accelerator.reference(x, codes=True),
    ):
        np.testing.assert_array_equal(found["y"], codes)
        assert found["y"].dtype == zero.dtype
        assert not any(a.different for a in accelerator.check(found, x))
    y = accelerator.outputs[0]
    assert y.is_quantized
    assert (y.name, str(y.dtype), F(y.scale), y.zero_point, y.offset) == ("y", "fp32", scale, zero, 0)
    assert not accelerator.outputs[1].is_quantized
    assert accelerator.inputs[0].name == "x"
    assert F(accelerator.inputs[0].scale) == scale


def test_a_device_gives_what_the_file_declares(tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 8)).astype(F)
    path = quantizer_file(tmp_path / "q.onnx", 0.05, np.int8(3))
    uart = tg2hdl.CompileOptions(ports=("uart",))
    for options in ({}, {"codes": True}):
        accelerator = tg2hdl.compile(path, x, options=uart, **options)
        folder = accelerator.build(tmp_path / f"build{len(options)}", vectors=1)
        with tg2hdl.connect(f"simulate:{folder}") as device:
            assert device.gives_codes == accelerator.gives_codes == bool(options)
            for codes in (None, True, False):
                want = accelerator.golden(x, codes=codes)
                for found in (device(x, codes=codes), device.run([x], codes=codes)[0]):
                    assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in want.items()}
                    np.testing.assert_array_equal(found["y"], want["y"])
                    np.testing.assert_array_equal(found["q"], want["q"])
                np.testing.assert_array_equal(
                    device.dequantize(found)["y"], accelerator.golden(x, codes=False)["y"]
                )


def test_check_finds_a_difference_of_one_code(tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 8)).astype(F)
    accelerator = tg2hdl.compile(quantizer_file(tmp_path / "q.onnx", 0.05, np.int8(3)), x)
    for codes, step in ((False, F(0.05)), (True, np.int8(1))):
        found = accelerator.golden(x, codes=codes)
        found["y"] = found["y"].copy()
        found["y"][1, 2] += step
        values, integers = accelerator.check(found, x)
        assert (values.different, integers.different) == (1, 0)
        assert not values.agrees


def test_a_quantized_model_in_python_gives_codes_unless_asked() -> None:
    tinygrad = pytest.importorskip("tinygrad")
    weights = tinygrad.Tensor(RNG.standard_normal((16, 5)).astype(F))
    samples = RNG.standard_normal((24, 1, 16)).astype(F)
    q = tg2hdl.quantize(lambda x: (x @ weights).relu(), list(samples))
    x = samples[3]
    for accelerator in (tg2hdl.compile(q, x), tg2hdl.compile(q, x, codes=False)):
        codes = q.reference(*q.quantize_input(x))
        found = accelerator.golden(x)
        np.testing.assert_array_equal(found, codes if accelerator.gives_codes else q(x))
        np.testing.assert_array_equal(accelerator.golden(x, codes=False), q(x))
        np.testing.assert_array_equal(accelerator.golden(x, codes=True), codes)
        assert not accelerator.check(found, x)[0].different
        assert q.dequantize(found).dtype == F
        np.testing.assert_array_equal(q.dequantize(found), q(x))
        np.testing.assert_array_equal(q.dequantize(q.dequantize(found)), q(x))


def test_imported_models_and_their_files(tmp_path: Path) -> None:
    path = quantizer_file(tmp_path / "q.onnx", 0.05, np.int8(3))
    x = RNG.standard_normal((2, 8)).astype(F)
    q = tg2hdl.integer_model(OnnxModel(path))
    values = tg2hdl.compile(path, x).golden(x)
    assert tg2hdl.compile(q, x).golden(x)["y"].dtype == np.int8
    np.testing.assert_array_equal(q.dequantize(tg2hdl.compile(q, x).golden(x))["y"], values["y"])
    assert tg2hdl.compile(path, x, codes=True).golden(x)["y"].dtype == np.int8
    assert (q.input_names, q.output_names) == (("x",), ("y", "q"))


def test_inputs_by_name() -> None:
    def model(b, a):
        return b - a * 2

    one, two = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)
    accelerator = tg2hdl.compile(model, {"a": two, "b": one})
    want = one - 2 * two
    for given in ({"a": two, "b": one}, {"arr_1": two, "arr_0": one}):
        np.testing.assert_array_equal(accelerator.golden(given), want)
        np.testing.assert_array_equal(accelerator.simulate(given).output, want)
        np.testing.assert_array_equal(accelerator.reference(given), want)
        assert accelerator.check(want, given)[0].agrees
        assert accelerator.report(given)
    with pytest.raises(InputError) as error:
        accelerator.golden({"c": two, "b": one})
    assert str(error.value) == (
        "bad input: the dict of inputs: 'c' is not an input of the model\n"
        "  at: the dict of inputs\n  note: it has c, b\n  hint: name the arrays as the inputs: b, a"
    )
    with pytest.raises(InputError, match="the dict of inputs: no array for input 'a'"):
        accelerator.golden({"b": one})
    with pytest.raises(InputError, match="'arr_0' is not an input"):
        accelerator.golden({"arr_0": one, "arr_1": two, "arr_2": two})
    with pytest.raises(InputError, match="the dict of example inputs: 'A' is not an input"):
        tg2hdl.compile(model, {"A": two, "b": one})


def test_names_go_before_numbers() -> None:
    accelerator = tg2hdl.compile(
        lambda arr_1, arr_0: arr_1 - arr_0, np.zeros(1, np.int32), np.zeros(1, np.int32)
    )
    five, two = np.array([5], np.int32), np.array([2], np.int32)
    assert accelerator.golden({"arr_0": two, "arr_1": five}).tolist() == [3]

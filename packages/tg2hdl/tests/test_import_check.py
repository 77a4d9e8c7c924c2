"""The importer's own check: faults put into the lowering are caught, and the layer is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")

import tg2hdl  # noqa: E402
from tg2hdl.cli import cli  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import write  # noqa: E402
from tg2hdl_ir.errors import ValidationError  # noqa: E402
from tg2hdl_quant.graph import codes, imported, sums  # noqa: E402
from tg2hdl_quant.graph.builder import IntegerBuilder  # noqa: E402

F = np.float32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two convolutions, a sum of both, a maximum, a matrix product that is an output without a quantizer."""
    rng = np.random.default_rng(0)
    node = onnx.helper.make_node
    arrays: dict[str, Any] = {"flat": np.array([1, -1])}
    nodes = []

    def quantizer(op: str, x: str, y: str, scale: Any, zero: Any, **attributes: int) -> str:
        arrays[f"{y}_s"], arrays[f"{y}_z"] = np.asarray(scale, F), np.asarray(zero)
        nodes.append(node(op, [x, f"{y}_s", f"{y}_z"], [y], name=y, **attributes))
        return y

    def codes(x: str, name: str, scale: float, zero: int) -> str:
        quantizer("QuantizeLinear", x, name, scale, np.uint8(zero))
        return quantizer("DequantizeLinear", name, f"{name}_d", scale, np.uint8(zero))

    def weights(name: str, shape: tuple[int, ...], scale: Any) -> str:
        arrays[name] = rng.integers(-127, 128, shape).astype(np.int8)
        steps = np.asarray(scale, F)
        axis = {"axis": 0} if steps.ndim else {}
        return quantizer("DequantizeLinear", name, f"{name}_d", steps, np.zeros(steps.shape, np.int8), **axis)

    x = codes("x", "xq", 0.031, 120)
    per = np.linspace(0.002, 0.009, 6)
    arrays["b"] = rng.integers(-30000, 30000, 6).astype(np.int32)
    w = weights("w", (6, 2, 3, 3), per)
    b = quantizer("DequantizeLinear", "b", "b_d", F(0.031) * per.astype(F), np.zeros(6, np.int32), axis=0)
    nodes.append(node("Conv", [x, w, b], ["c"], name="c", pads=[1] * 4))
    one = codes("c", "conv_q", 0.0613, 101)
    nodes.append(node("Conv", [x, weights("v", (6, 2, 1, 1), 0.0071)], ["e"], name="e"))
    two = codes("e", "side_q", 0.0277, 90)
    nodes.append(node("Add", [one, two], ["s"], name="s"))
    total = codes("s", "sum_q", 0.0711, 77)
    nodes.append(node("MaxPool", [total], ["m"], name="m", kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(node("Reshape", [codes("m", "max_q", 0.0711, 77), "flat"], ["r"], name="r"))
    nodes.append(node("MatMul", ["r", weights("u", (54, 4), 0.01)], ["y"], name="y"))
    return write(tmp_path / "net.onnx", nodes, [("x", F, (1, 2, 6, 6))], [("y", F, (1, 4))], arrays, {"": 17})


def changed(module: Any, name: str, wrap: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(module, name, wrap(getattr(module, name)))

    return apply


def wrong_zero_point(original: Any) -> Any:
    def to_codes(builder: Any, total: Any, quantizer: Any, *rest: Any) -> Any:
        if rest[2] == "conv_q":
            quantizer = replace(quantizer, zero=quantizer.zero + 1)
        return original(builder, total, quantizer, *rest)

    return to_codes


def swapped_scales(original: Any) -> Any:
    def to_codes(builder: Any, total: Any, quantizer: Any, *rest: Any) -> Any:
        terms = total.terms
        if len(terms) == 2:
            one, two = terms
            terms = (replace(one, scale=two.scale), replace(two, scale=one.scale))
        elif terms and terms[0].scale.size > 1:
            terms = (replace(terms[0], scale=np.flip(terms[0].scale)),)
        return original(builder, replace(total, terms=terms), quantizer, *rest)

    return to_codes


def staircase(**changes: int) -> Any:
    def wrap(original: Any) -> Any:
        def by_staircase(builder: Any, term: Any, found: Any, *rest: Any) -> Any:
            new = {n: getattr(found, n) + d for n, d in changes.items()}
            return original(builder, term, replace(found, **new), *rest)

        return by_staircase

    return wrap


def dropped_bias(original: Any) -> Any:
    return lambda builder, total, where: original(builder, replace(total, offset=np.zeros(())), where)


def wrong_plane(original: Any) -> Any:
    def fit_plane(*arguments: Any) -> Any:
        factors, added, shift = original(*arguments)
        return factors[::-1], added, shift

    return fit_plane


def forgotten_zero(original: Any) -> Any:
    def plus(self: Any, number: int, added: Any, where: str, narrowest: int = 8) -> int:
        return original(self, number, added * 0 if where == "layer conv_q_d" else added, where, narrowest)

    return plus


def wrong_clip(original: Any) -> Any:
    return lambda self, number, low, high, reach: original(self, number, low, high // 2, reach)


def clipped_too_low(original: Any) -> Any:
    """A code that the sums of random inputs do not reach."""

    def to_codes(builder: Any, total: Any, quantizer: Any, low: int, high: int, name: str, *rest: Any) -> Any:
        return original(builder, total, quantizer, low, high - (name == "sum_q"), name, *rest)

    return to_codes


def flipped_weights(original: Any) -> Any:
    def contraction(self: Any, number: int, a: Any, b: Any) -> Any:
        w = self._builder.nodes[b.node]
        if w.op == "const":
            b = replace(b, node=self._builder.const(np.flip(w.arg, -1), w.dtype))
        return original(self, number, a, b)

    return contraction


FAULTS = {
    "a zero point that is one off": (changed(imported, "to_codes", wrong_zero_point), "conv_q"),
    "scales of the wrong operands": (changed(imported, "to_codes", swapped_scales), "conv_q"),
    "a shift that is one off": (changed(codes, "by_staircase", staircase(shift=1)), "side_q"),
    "a factor that is one off": (changed(codes, "by_staircase", staircase(factor=1)), "side_q"),
    "a bias that is dropped": (changed(codes, "_with_offset", dropped_bias), "conv_q"),
    "factors of a sum that are swapped": (changed(codes, "_fit_plane", wrong_plane), "sum_q"),
    "a zero point that is not subtracted": (changed(IntegerBuilder, "plus", forgotten_zero), "sum_q"),
    "a bound that is wrong": (changed(IntegerBuilder, "clipped", wrong_clip), "side_q"),
    "a code that is clipped": (changed(imported, "to_codes", clipped_too_low), "sum_q"),
    "weights in the wrong order": (changed(sums.IntegerForms, "_contraction", flipped_weights), "conv_q"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_lowering_is_caught_and_its_layer_named(
    fault: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, layer = FAULTS[fault]
    apply(monkeypatch)
    with pytest.raises(ValidationError, match=f"layer '{layer}'") as caught:
        tg2hdl.integer_model(OnnxModel(path))
    assert f"node '{layer}' of the file" in str(caught.value)
    assert 'validate="off" skips this check' in str(caught.value)
    tg2hdl.integer_model(OnnxModel(path), validate="off")


def test_without_a_fault_nothing_is_caught(path: Path) -> None:
    report = tg2hdl.integer_model(OnnxModel(path), validate="full").report
    assert report.is_exact, str(report)
    assert report.warnings == ()


def test_an_output_without_a_quantizer_is_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = imported.ImportLowering._output

    def output(self: Any, number: int) -> Any:
        return replace(original(self, number), scale=np.asarray(0.5))

    monkeypatch.setattr(imported.ImportLowering, "_output", output)
    with pytest.raises(ValidationError) as caught:
        tg2hdl.integer_model(OnnxModel(path))
    assert str(caught.value) == (
        "compiler bug: tg2hdl made wrong integers of model net: 12 of 16 values of output 0 are not those of the file, "
        "first -16105 instead of -22.9013\n  at: output 0, made by y (MatMul)\n"
        "  note: element 0, codes 'uniform' before it\n"
        "  hint: report it with the file; keep_float=True computes its float operations, "
        'validate="off" skips this check'
    )


def test_compile_and_the_command_can_leave_the_check_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    changed(codes, "_with_offset", dropped_bias)(monkeypatch)
    with pytest.raises(ValidationError):
        tg2hdl.compile(path)
    tg2hdl.compile(path, validate="off")
    found = CliRunner().invoke(cli, ["compile", str(path), "-o", str(path.parent / "out.v")])
    assert isinstance(found.exception, ValidationError)
    given = ["compile", str(path), "-o", str(path.parent / "out.v"), "--validate", "off"]
    assert CliRunner().invoke(cli, given).exit_code == 0

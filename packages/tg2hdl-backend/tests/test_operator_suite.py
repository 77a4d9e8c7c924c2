"""The suite for operators of ONNX files: built-in ones pass, faulty ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import OnnxOperatorDef, hookimpl, registry

pytest.importorskip("onnx")

from tg2hdl_backend.testing.onnx_operators import check_onnx_operator

X = np.array([[1, -2, 3], [4, 5, -6]], np.int32)


def test_built_in_operators_pass():
    def built_in(name):
        return registry().onnx_operator(name, "", 17)

    check_onnx_operator(built_in("Max"), [X, X[::-1].copy()], np.maximum(X, X[::-1]))
    check_onnx_operator(built_in("Pad"), [X, np.array([0, 1, 1, 0])], np.pad(X, ((0, 1), (1, 0))))


def plugin(build, **fields):
    definition = OnnxOperatorDef("Twice", build, domain="com.example", **fields)
    return definition, type("Plugin", (), {"tg2hdl_onnx_operators": hookimpl(lambda self: [definition])})()


FAULTY = {
    "with inputs [0]: output 0 is 3 where 2 is expected": (lambda node, x: x * 3, {}, 2 * X),
    "with inputs [0]: ONNX operator Twice: the result 'y0' is fp32 where ONNX says int32": (
        lambda node, x: x.float() * 2,
        {},
        2 * X,
    ),
    "with inputs [0]: output 0 has shape (3, 2), expected (2, 3)": (lambda node, x: x.T * 2, {}, 2 * X),
    "it has no input that depends on data, so that nothing is left for hardware": (
        lambda node, x: x,
        {"constants": (0,)},
        X,
    ),
}


@pytest.mark.parametrize("text", FAULTY)
def test_faulty_operators_are_named(text):
    build, fields, expected = FAULTY[text]
    definition, made = plugin(build, **fields)
    with registry().extended(made, distribution="acme"), pytest.raises(AssertionError) as caught:
        check_onnx_operator(definition, [X], expected)
    assert str(caught.value).startswith("ONNX operator com.example:Twice-1")
    assert str(caught.value).endswith(text)

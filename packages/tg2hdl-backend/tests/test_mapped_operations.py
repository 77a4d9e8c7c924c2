"""Operations of tinygrad that plugins map: to an op of their own, and the text of each refusal."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tg2hdl_backend import capture
from tg2hdl_ir import OpDef, PluginError, TinygradOpDef, evaluate_program, hookimpl, registry


def plugin(**hooks):
    """A plugin object whose hooks return lists."""
    made = {}
    for name, found in hooks.items():
        made[name] = hookimpl(lambda found=found: found)
        made[name].__name__ = name
    return SimpleNamespace(**made)


def same(types):
    return types[0] if len(set(types)) == 1 else None


def fused(operands, types, result):
    """Rounded once: the product of two float32 is exact in float64, and the sums here are too."""
    a, b, c = (x.astype(np.float64) for x in operands)
    return (a * b + c).astype(np.float32)


FUSED = plugin(
    tg2hdl_ops=[OpDef("myext.fma", 3, same, fused)],
    tg2hdl_tinygrad_ops=[TinygradOpDef("MULACC", "myext.fma")],
)


def test_an_operation_becomes_an_op_of_the_plugin_while_it_is_registered():
    x = np.array([1 + 2.0**-20, 3.0, -5.25], np.float32)

    def model(x):
        return x * x - 1

    def text():
        return "\n".join(call.kernel.format() for call in capture(model, x).program.calls)

    before = text()
    assert "myext.fma" not in before
    with registry().extended(FUSED, distribution="myext"):
        assert "myext.fma" in text()
        captured = capture(model, x)
        found = evaluate_program(captured.program, captured.bind(x))
    output = captured.program.buffers[captured.outputs[0].buffer].name
    np.testing.assert_array_equal(found[output], (x.astype(np.float64) ** 2 - 1).astype(np.float32))
    assert text() == before


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (
            TinygradOpDef("FDVI", "div"),
            "tinygrad op 'FDVI' of plugin {}: tinygrad has no scalar operation of this name",
        ),
        (
            TinygradOpDef("LOAD", "div"),
            "tinygrad op 'LOAD' of plugin {}: tinygrad has no scalar operation of this name",
        ),
        (TinygradOpDef("ADD", "sub"), "tinygrad op 'ADD' of plugin {}: it is 'add' of the IR already"),
    ],
)
def test_what_cannot_be_mapped_is_refused(definition, text):
    name = "myext:SimpleNamespace.0"
    refused = plugin(tg2hdl_tinygrad_ops=[definition])
    with registry().extended(refused, distribution="myext"), pytest.raises(PluginError) as caught:
        capture(lambda x: x + 1, np.zeros(2, np.int32))
    assert str(caught.value) == (
        f"plugin: {text.format(repr(name))}\n  hint: upgrade the plugin, or disable it with --no-plugin {name}"
    )


def test_an_op_that_nothing_registers_is_a_problem_of_the_plugin():
    known = len(registry().problems)
    with registry().extended(
        plugin(tg2hdl_tinygrad_ops=[TinygradOpDef("FDIV", "myext.divide")]), distribution="m"
    ):
        (problem,) = registry().problems[known:]
        assert problem.reason == "tinygrad op 'FDIV' is for op 'myext.divide', which nothing registers"

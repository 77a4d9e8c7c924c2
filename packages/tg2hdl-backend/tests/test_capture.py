"""Capture of whole models."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from tinygrad import Tensor, TinyJit, Variable, nn
from tinygrad.helpers import GlobalCounters

from tg2hdl_backend import capture, example_values
from tg2hdl_backend.testing import compare_with_interpreter
from tg2hdl_backend.tinygrad_adapter.model_inputs import spec_of
from tg2hdl_ir import DType, InputError, UnsupportedError, evaluate_program

X = np.arange(8, dtype=np.float32).reshape(1, 8)


def golden(captured, *inputs):
    program = captured.program
    named = captured.bind(*inputs)
    results = evaluate_program(program, named, captured.var_vals)
    return captured.restore([results[program.buffers[n].name] for n in program.outputs])


def roles(captured) -> dict[str, str]:
    return {b.name: b.role for b in captured.program.buffers}


class Net:
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def test_weights_are_found_and_named():
    net = Net()
    captured = capture(net, X)
    assert roles(captured) == {
        "x": "input",
        "output": "output",
        "temp6": "temporary",
        "first.weight": "weight",
        "first.bias": "weight",
        "second.weight": "weight",
        "second.bias": "weight",
    } or set(roles(captured).values()) == {"input", "output", "temporary", "weight"}
    assert {n for n, r in roles(captured).items() if r == "weight"} == {
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    }
    assert captured.inputs[0].name == "x"
    assert captured.outputs[0].shape == (1, 2)
    assert captured.outputs[0].dtype == DType.FP32
    assert captured.program.name == "Net"


def test_nothing_runs_and_no_tensor_changes():
    net = Net()
    before = [t.uop for t in nn.state.get_parameters(net)]
    kernels = GlobalCounters.kernel_count
    capture(net, X)
    assert GlobalCounters.kernel_count == kernels
    assert [t.uop for t in nn.state.get_parameters(net)] == before


def test_result_equals_numpy():
    weight = np.arange(24, dtype=np.float32).reshape(8, 3)
    w, b = Tensor(weight), Tensor.ones(3)
    captured = capture(lambda x: (x @ w + b).relu(), X)
    np.testing.assert_array_equal(golden(captured, X), np.maximum(X @ weight + 1, 0))


def test_closure_and_global_weights_get_their_names():
    w = Tensor(np.ones((8, 2), np.float32))
    assert roles(capture(lambda x: x @ w, X)) == {"x": "input", "output": "output", "w": "weight"}


def test_structure_of_several_outputs_is_kept():
    captured = capture(lambda x: {"a": x.sum(1), "b": (x.max(), [x * 2])}, X)
    result = golden(captured, X)
    assert list(result) == ["a", "b"]
    assert result["a"].shape == (1,)
    assert result["b"][0] == 7
    np.testing.assert_array_equal(result["b"][1][0], X * 2)
    assert [s.name for s in captured.outputs] == ["output_a", "output_b0", "output_b10"]


def test_views_and_unchanged_inputs_are_copied():
    captured = capture(lambda x: (x, x.reshape(8)[2:5]), X)
    same, part = golden(captured, X)
    np.testing.assert_array_equal(same, X)
    np.testing.assert_array_equal(part, X[0, 2:5])


def test_constant_output():
    captured = capture(lambda x: Tensor([1.0, 2.0]) * 3, X)
    assert golden(captured, X).tolist() == [3, 6]


def test_realize_inside_the_model_is_only_recorded():
    captured = capture(lambda x: (x + 1).realize().sum(), X)
    assert [c.kernel.name for c in captured.program.calls] == ["E_8", "r_8"]
    assert golden(captured, X) == 36


def test_jitted_models_are_captured_through_the_function_inside():
    captured = capture(TinyJit(lambda x: (x * 2).realize()), X)
    np.testing.assert_array_equal(golden(captured, X), X * 2)


def test_constant_kernels_are_folded_on_request():
    w = Tensor(np.arange(24, dtype=np.float32).reshape(3, 8))

    def model(x: Tensor) -> Tensor:
        return x @ w.T.contiguous()

    folded, unfolded = capture(model, X), capture(model, X, fold=False)
    assert len(folded.program.calls) == len(unfolded.program.calls) - 1
    np.testing.assert_array_equal(golden(folded, X), golden(unfolded, X))


def test_symbolic_bound_takes_its_value_at_run_time():
    captured = capture(lambda x, n: x[0, :n].sum(), X, Variable("n", 1, 8).bind(3))
    assert captured.var_vals == {"n": 3}
    assert golden(captured, X) == 3
    captured.var_vals["n"] = 5
    assert golden(captured, X) == 10


def test_reading_a_buffer_as_another_type():
    result = compare_with_interpreter(lambda x: x.bitcast("uint32") + 1, X)
    np.testing.assert_array_equal(result.outputs[0], X.view(np.uint32) + 1)


def test_training_step_returns_the_updated_weights():
    w = (
        Tensor(np.ones((8, 1), np.float32), requires_grad=True)
        if _has_requires_grad()
        else Tensor(np.ones((8, 1), np.float32))
    )

    def step(x: Tensor) -> Tensor:
        loss = (x @ w).sum()
        loss.backward()
        return w - w.grad * 0.5

    np.testing.assert_allclose(golden(capture(step, X), X)[:, 0], 1 - X[0] * 0.5)


def _has_requires_grad() -> bool:
    import inspect

    return "requires_grad" in inspect.signature(Tensor).parameters


def _no_examples(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def _looks_at_data(x: Tensor) -> Tensor:
    return x * x.sum().item()


def _bad_shapes(x: Tensor) -> Tensor:
    return x @ Tensor.zeros(3, 3)


ERRORS = {
    "missing example": (
        lambda: capture(_no_examples, X),
        "bad input: no example input for y\n"
        "  at: model _no_examples(x: 'Tensor', y: 'Tensor') -> 'Tensor'\n"
        "  hint: pass one example per parameter: an array or Tensor of the right shape and dtype",
    ),
    "a class": (
        lambda: capture(type("Net", (), {"__call__": lambda self, x: x}), X),
        "bad input: the model is the class Net, not an object of it\n"
        "  hint: make one: model = Net(), whose __call__ takes the Tensors",
    ),
    "too many examples": (
        lambda: capture(lambda x: x, X, X),
        "bad input: 2 example inputs for a model that takes 1\n"
        "  at: model <lambda>(x)\n"
        "  hint: pass one example per parameter",
    ),
    "dtype": (
        lambda: capture(lambda x: x, np.zeros(3, complex)),
        "bad input: example input 'x': no hardware type for numpy dtype complex128\n"
        "  at: input 'x'\n"
        "  hint: pass a numpy array or a Tensor of a bool, integer or float type, with a constant shape",
    ),
    "empty": (
        lambda: capture(lambda x: x, np.zeros((0, 3), np.float32)),
        "bad input: example input 'x' is empty: shape (0, 3)\n"
        "  at: input 'x'\n"
        "  hint: pass an example with at least one element",
    ),
    "data dependent": (
        lambda: capture(_looks_at_data, X),
        "bad input: the model looks at the data of a tensor while it is compiled\n"
        "  at: model _looks_at_data\n"
        "  hint: replace .item(), .numpy(), .tolist() and Python conditions on tensors by tensor operations "
        "such as Tensor.where",
    ),
    "failing model": (
        lambda: capture(_bad_shapes, X),
        "bad input: the model failed on the example inputs: RuntimeError: cannot dot (1, 8) and (3, 3)\n"
        "  at: model _bad_shapes\n"
        "  note: example input of shape (1, 8), dtype dtypes.float\n"
        "  hint: run it in tinygrad with inputs of these shapes and dtypes first",
    ),
    "no tensor": (
        lambda: capture(lambda x: 5, X),
        "bad input: the model returns int, not a Tensor\n"
        "  at: model <lambda>\n"
        "  hint: return a Tensor, or a list, tuple or dict of Tensors",
    ),
    "not callable": (
        lambda: capture(5, X),
        "bad input: a model of type int cannot be called\n"
        "  hint: pass a function of Tensors, or an object with __call__",
    ),
    "a path": (
        lambda: capture(lambda x: x + 1, X).bind("report.html"),
        "bad input: input 'x' is a str, not an array\n"
        "  at: input 'x'\n"
        "  hint: read a file with numpy.load; report().save(path) writes a report",
    ),
    "wrong shape": (
        lambda: capture(lambda x: x + 1, X).bind(np.zeros((2, 8), np.float32)),
        "bad input: input 'x' has shape (2, 8), the model was compiled for (1, 8)\n"
        "  at: input 'x'\n"
        "  hint: pass this shape, or compile again with an example input of the new one",
    ),
    "wrong dtype": (
        lambda: capture(lambda x: x + 1, X).bind(X.astype(np.int32)),
        "bad input: input 'x' has dtype int32, the model was compiled for float32\n"
        "  at: input 'x'\n"
        "  hint: convert it with .astype('float32')",
    ),
    "missing input": (
        lambda: capture(lambda x: x + 1, X).bind(),
        "bad input: 0 inputs for a model of 1\n  at: model <lambda>\n  hint: pass x (1, 8) fp32",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case):
    action, text = ERRORS[case]
    with pytest.raises(InputError) as error:
        action()
    assert str(error.value) == text


def test_importing_the_package_probes_no_device():
    program = (
        "import os; before = dict(os.environ); import tg2hdl_backend\n"
        "from tinygrad.device import Device; from tinygrad.helpers import DEV\n"
        "print(Device._opened_devices, repr(DEV.device), dict(os.environ) == before)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DEV"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "set() '' True\n"


def test_a_refusal_names_the_line():
    pytest.importorskip("tg2hdl_fp32", reason="makes the FP8 values")

    from tg2hdl_top import compile_program

    def model(x: Tensor) -> Tensor:
        return x.cast("fp8e4m3").contiguous().sin()

    captured = capture(model, X)
    kernel = captured.program.calls[1].kernel
    line = f"test_capture.py:{model.__code__.co_firstlineno + 1}"
    assert kernel.where == f"kernel E_8, made by sin ({line})"
    with pytest.raises(UnsupportedError) as error:
        compile_program(captured.program)
    assert str(error.value).splitlines()[:2] == [
        "unsupported: no hardware computes sin(fp8_e4m3) -> fp8_e4m3",
        f"  at: {kernel.where}",
    ]


def test_lines_are_those_of_the_inputs_and_weights():
    w = {name: Tensor(np.ones((8, 8), np.float32)) for name in "qk"}

    def model(x: Tensor) -> Tensor:
        y = x.layernorm()
        y = ((y @ w["q"]).relu() + y @ w["k"]).contiguous()
        return y.layernorm().softmax()

    captured = capture(model, np.ones((2, 8), np.float32))
    first = model.__code__.co_firstlineno
    lines = re.compile(r"test_capture.py:(\d+)")
    sources = [call.source for call in captured.program.calls]
    found = [(source, [int(n) - first for n in lines.findall(source)]) for source in sources]
    assert [lines for _, lines in found[:2]] == [[1], [1]]
    assert not any("softmax" in source for source, lines in found if lines != [3])
    assert all("softmax (" in source and lines == [3] for source, lines in found[-4:])
    assert [3] in [lines for source, lines in found if source.startswith("layernorm")]


def test_gradients_of_the_user_stay():
    net, x = Net(), Tensor(X)
    parameters = nn.state.get_parameters(net)

    def step(x):
        net(x).sum().backward()
        return parameters[0].grad

    first = golden(capture(step, X), X)
    assert all(p.grad is None for p in parameters)
    np.testing.assert_array_equal(golden(capture(step, X), X), first)
    net(x).sum().backward()
    kept = [p.grad for p in parameters]
    capture(step, X)
    assert all(p.grad is k for p, k in zip(parameters, kept, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "bool"])
def test_contents_of_example_tensors(dtype):
    filled, empty = Tensor([1, 0]).cast(dtype), Tensor.empty(2, dtype=dtype)
    variable = Variable("n", 1, 4).bind(2)
    found = example_values([filled, empty, empty + 1, Tensor.ones(2, dtype=dtype), variable, [3]])
    values = [None if value is None else value.astype(int).tolist() for value in found]
    assert values == [[1, 0], None, None, [1, 1], [3]]
    assert found[0].dtype == spec_of("x", filled).dtype.numpy()


def test_contents_of_short_floats():
    # Of the devices of tinygrad 0.13, the one for C computes no bfloat16 with an older clang.
    value = Tensor(np.array([0x3F80, 0xC000], np.uint16), device="PYTHON").bitcast("bfloat16")
    (found,) = example_values([value])
    assert (found.dtype.name, found.astype(float).tolist()) == ("bfloat16", [1, -2])


def test_an_example_that_tinygrad_cannot_compute(monkeypatch):
    monkeypatch.setattr(Tensor, "realize", lambda self: 1 / 0)
    with pytest.raises(InputError) as error:
        example_values([Tensor([1])])
    assert str(error.value) == (
        "bad input: tinygrad cannot compute an example input: ZeroDivisionError: division by zero\n"
        "  hint: give a numpy array in its place, or take random inputs"
    )

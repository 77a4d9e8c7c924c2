"""Errors of captured models by their full texts; those of operators and ONNX files are tested beside them."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tinygrad import Tensor, Variable, nn

from tg2hdl_backend import TensorFunction, capture, own_result, tensor_graph
from tg2hdl_backend.agreement import agreement
from tg2hdl_backend.tinygrad_adapter.contents import contents_of, single_buffer
from tg2hdl_backend.tinygrad_adapter.memory_views import MemoryView
from tg2hdl_backend.tinygrad_adapter.model_inputs import bound_values, spec_of
from tg2hdl_backend.tinygrad_adapter.pending import _evaluated
from tg2hdl_backend.tinygrad_adapter.program_builder import ProgramBuilder, copy_kernel
from tg2hdl_backend.tinygrad_adapter.symbolic import capture_into
from tg2hdl_backend.tinygrad_adapter.trace import _scheduled
from tg2hdl_ir import BufferMeta, DType, Tg2hdlError, UnsupportedError
from tg2hdl_ir.tensors import TensorGraph, TensorNode

X = np.arange(4, dtype=np.float32)


def fails(error):
    """A function that raises an error."""

    def call(*arguments, **options):
        raise error

    return call


def file_of_a_weight(folder, size):
    path = folder / "weights"
    path.write_bytes(bytes(size))
    disk = SimpleNamespace(device=f"DISK:{path}", is_allocated=lambda: False)
    contents_of(disk, 0, 16)


def lost_weight(device):
    contents_of(SimpleNamespace(device=device, is_allocated=lambda: False), 0, 16)


def folder_for_a_file(folder):
    (folder / "weights").mkdir()
    lost_weight(f"DISK:{folder}/weights")


def silent_device():
    contents_of(
        SimpleNamespace(
            device="NV", is_allocated=lambda: True, as_memoryview=fails(RuntimeError("no access"))
        ),
        0,
        16,
    )


def broken_kernel(x):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys.modules["tg2hdl_backend.tinygrad_adapter.linearize"],
            "to_program",
            fails(ValueError("no idea")),
        )
        capture(lambda x: x + 1, x)


def broken_device():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys.modules["tg2hdl_backend.tinygrad_adapter.own_result"],
            "_array",
            fails(RuntimeError("no device")),
        )
        own_result(lambda x: x + 1, X)


def update_that_waits():
    kernel = SimpleNamespace(variables=("n",), name="update")
    _evaluated(
        [SimpleNamespace(kernel=kernel, accesses=lambda: (set(), {0}))], SimpleNamespace(buffers=()), {0}
    )


def scheduled_copy():
    builder = object.__new__(ProgramBuilder)
    builder.steps = []
    call = SimpleNamespace(src=(SimpleNamespace(op=SimpleNamespace(name="CUSTOM")),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tg2hdl_backend.tinygrad_adapter.program_builder.get_call_arg_uops", lambda call: [])
        builder.add_calls([call])


def nested():
    with capture_into(object()), capture_into(object()):
        pass


def unknown_operation():
    nodes = (
        TensorNode("input", (), 0, (2,), DType.FP32),
        TensorNode("conv", (0,), None, (2,), DType.FP32),
    )
    TensorFunction(TensorGraph("g", nodes, (0,), (1,), ("x",)))(Tensor([1.0, 2.0]))


def copy_of_wide_elements():
    copy_kernel(
        BufferMeta(0, 4, DType.INT8, True), BufferMeta(1, 4, DType.INT32, False), DType.INT32, 0, 0, 4
    )


def not_scheduled(text):
    tensor = SimpleNamespace(linear_with_vars=fails(RuntimeError(text)))
    _scheduled(lambda x: x, [tensor])


class Counter:
    """A model that replaces a tensor of its own."""

    def __init__(self):
        self.total = Tensor.zeros(4).contiguous().realize()

    def __call__(self, x):
        self.total = self.total + x
        return self.total


class Reversed:
    """A model that updates its last elements by a reversed view."""

    def __init__(self):
        self.kept = Tensor.zeros(4).contiguous().realize()

    def __call__(self, x):
        self.kept.flip(0)[:2].assign(x[:2])
        return self.kept + x


CASES = {
    "shapes of results": (
        lambda: agreement(X, X[:2], DType.FP32),
        "bad input: a result of shape (4,) for a reference of shape (2,)\n"
        "  hint: reshape one of them: nothing is broadcast",
    ),
    "unknown variable": (
        lambda: capture(lambda x: x + 1, X).values({"n": 3}),
        "bad input: the model has no variable 'n'\n"
        "  at: model <lambda>\n"
        "  hint: bind one where the model is compiled: tinygrad.Variable(NAME, LOW, HIGH).bind(VALUE)",
    ),
    "several devices": (
        lambda: single_buffer(SimpleNamespace(buffer=None, device=("CPU:0", "CPU:1"))),
        "unsupported: a tensor that is spread over several devices\n"
        "  at: buffer ('CPU:0', 'CPU:1')\n"
        "  hint: keep the model on one device",
    ),
    "device of a weight": (
        silent_device,
        "bad input: a weight on device NV cannot be read: no access\n"
        "  at: buffer NV\n"
        "  hint: make the weights on another device, e.g. Tensor(array, device='CPU')",
    ),
    "lost file": (
        lambda folder: lost_weight(f"DISK:{folder}/weights"),
        "bad input: the file of a weight, weights, is not there\n"
        "  at: ~/weights\n"
        "  hint: restore the file, or call .realize() on the weights while it is there",
    ),
    "folder for a file": (
        folder_for_a_file,
        "bad input: the file of a weight, weights: [Errno 21] Is a directory: '~/weights'\n"
        "  at: ~/weights\n"
        "  hint: restore the file, or call .realize() on the weights while it is there",
    ),
    "short file": (
        lambda folder: file_of_a_weight(folder, 8),
        "bad input: the file of a weight, weights, has 8 bytes, 16 are needed\n"
        "  at: ~/weights\n"
        "  hint: restore the file, or call .realize() on the weights while it is there",
    ),
    "kernel that tinygrad refuses": (
        lambda: broken_kernel(X),
        "unsupported: tinygrad cannot compile kernel 'test': ValueError: no idea\n"
        "  at: kernel test\n"
        "  hint: write this part of the model in other operations, or try another version of tinygrad",
    ),
    "odd view": (
        lambda: MemoryView(0, 1, 3, DType.FP32).offset,
        "unsupported: a view of fp32 that starts at byte 1 of a buffer\n"
        "  at: 3 elements\n"
        "  hint: make the tensor contiguous first",
    ),
    "unbound variable": (
        lambda: bound_values([Variable("n", 1, 3)]),
        "bad input: an argument is not a bound Variable\n"
        "  hint: bind it to a value: Variable(NAME, LOW, HIGH).bind(VALUE)",
    ),
    "variable shape": (
        lambda: spec_of("x", Tensor.empty(8)[: Variable("n", 1, 3).bind(2)]),
        "bad input: example input 'x': its shape has a Variable\n"
        "  at: input 'x'\n"
        "  hint: pass a numpy array or a Tensor of a bool, integer or float type, with a constant shape",
    ),
    "device of a reference": (
        broken_device,
        "unsupported: tinygrad cannot run the model on its PYTHON device: RuntimeError: no device\n"
        "  at: model <lambda>\n"
        "  hint: compare with another reference",
    ),
    "update that waits": (
        update_that_waits,
        "unsupported: an update that depends on a variable waits for its tensor to be computed\n"
        "  at: kernel update\n"
        "  hint: call .realize() on the tensor before the model is compiled",
    ),
    "scheduled call": (
        scheduled_copy,
        "unsupported: no hardware for a scheduled CUSTOM\n"
        "  at: buffers []\n"
        "  hint: keep the model on one device and free of custom kernels",
    ),
    "copy of wide elements": (
        copy_of_wide_elements,
        "unsupported: copy of int32 into a buffer of int8\n"
        "  at: buffer \n"
        "  hint: write a tensor of its own and bitcast that",
    ),
    "capture in a capture": (
        nested,
        "bad input: a model cannot be compiled while TinyJit captures another one\n"
        "  hint: call the compiler outside of the jitted function",
    ),
    "unknown operation": (
        unknown_operation,
        "unsupported: tinygrad has no operation 'conv'\n"
        "  at: node conv\n"
        "  hint: use the operations of tg2hdl_ir.tensors; check_graph names all that do not fit",
    ),
    "update of a reversed tensor": (
        lambda: tensor_graph(Reversed(), X),
        "unsupported: an update in place of a part of a tensor that is not a slice\n"
        "  at: model Reversed\n"
        "  hint: assign to the whole tensor, or to a slice with constant bounds and step 1",
    ),
    "tensor without contents": (
        lambda: tensor_graph(lambda x: x * Tensor.empty(4), X),
        "unsupported: a tensor without contents\n"
        "  at: model <lambda>\n"
        "  hint: give each tensor of the model its contents: Tensor.empty has none",
    ),
    "devices of a model": (
        lambda: not_scheduled("all buffers must be on the same device"),
        "bad input: tinygrad cannot run the model: all buffers must be on the same device\n"
        "  at: model <lambda>\n"
        "  hint: move its tensors to one device: weight.to(Device.DEFAULT), also those of a file",
    ),
    "model that tinygrad refuses": (
        lambda: not_scheduled("assign target"),
        "bad input: tinygrad cannot run the model: assign target\n"
        "  at: model <lambda>\n"
        "  hint: run it in tinygrad first; call .realize() on each tensor that was changed before its "
        "next use",
    ),
    "realize in a model": (
        lambda: tensor_graph(lambda x: nn.Linear(4, 4).weight.realize() @ x, X),
        "unsupported: the model computes tensors while it runs\n"
        "  at: model <lambda>\n"
        "  hint: remove realize() from the model",
    ),
    "another tensor": (
        lambda: capture(Counter(), X),
        "bad input: the model puts another tensor in the place of total\n"
        "  at: model Counter\n"
        "  hint: update it in place: total.assign(...)",
    ),
    "empty output": (
        lambda: capture(lambda x: x[:0], X),
        "unsupported: an output of shape (0,)\n"
        "  at: model <lambda>\n"
        "  hint: return tensors of a constant shape with at least one element",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path, make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path) if make.__code__.co_argcount else make()
    assert str(caught.value).replace(str(tmp_path), "~") == text


def test_operation_without_a_node():
    with pytest.raises(UnsupportedError) as caught:
        tensor_graph(lambda x: x.bitcast("int32"), X)
    # tinygrad 0.13 also notes the method.
    assert str(caught.value).replace(", made by bitcast", "") == (
        "unsupported: BITCAST of int32\n  at: model <lambda>\n"
        "  hint: take the operation out of the model, or compile the float model"
    )

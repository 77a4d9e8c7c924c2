"""Errors by their full texts; those of parser, verifier and plugins are tested beside their features."""

import json
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    KernelIR,
    LoopIR,
    Registry,
    Tg2hdlError,
    evaluate,
)
from tg2hdl_ir.limits import system_error
from tg2hdl_ir.opt import rewrite_text
from tg2hdl_ir.records import read_record, signed, write_record
from tg2hdl_ir.tensors import TensorGraph, TensorNode, evaluate_graph
from tg2hdl_ir.tensors.check import check_graph
from tg2hdl_ir.typed import made_of

INPUT = TensorNode("input", (), 0, (2,), DType.INT32)
ZERO = IRConst(0, DType.INT32)
AGAIN = "hint: compile the model again, or copy the file again"


def graph(*nodes, names=("x",), outputs=(0,), name="g"):
    return TensorGraph(name, (INPUT, *nodes), (0,), outputs, names)


def record(value=None, objects=(), form=1):
    return read_record(json.dumps(signed({"format": form, "objects": list(objects), "value": value})))


def kernel(*items):
    return KernelIR((BufferMeta(0, 4, DType.INT32, True),), LoopIR.from_items(items), name="k")


def load_of_another_loop():
    load = IRBufLoad(0, ZERO, DType.INT32)
    first, second = IRCounter(4, 0, 0), IRCounter(4, 0, 1)
    evaluate(
        kernel(
            LoopIR.from_items((load,), counter=first, axis_type="loop"),
            LoopIR.from_items((IRBufStore(0, second, load, DType.INT32),), counter=second, axis_type="loop"),
        ),
        {},
    )


def late_disable():
    registry = Registry([("tg2hdl-ir", EntryPoint("ir", "tg2hdl_ir.plugin", "tg2hdl"))])
    registry.units()
    registry.disable("other")


CASES = {
    "storage of wide integers": (
        lambda: DType.from_name("int65").numpy(),
        "unsupported: no numpy type stores int65\n  hint: use one of bf16, bool, fp16, fp32, fp64, fp8_e4m3, fp8_e5m2, "
        "int16, int32, int64, int8, uint16, uint32, uint64, uint8 at the borders of the design",
    ),
    "name of a dtype": (
        lambda: DType.from_name(8),
        "unsupported: 8 is not a name of a dtype\n  hint: give e.g. 'int8'",
    ),
    "dtype of tinygrad": (
        lambda: DType.from_tinygrad("complex"),
        "unsupported: no hardware type for tinygrad dtype complex\n  hint: cast to one of bf16, bool, fp16, fp32, "
        "fp64, fp8_e4m3, fp8_e5m2, int16, int32, int64, int8, uint16, uint32, uint64, uint8",
    ),
    "load of another loop": (
        load_of_another_loop,
        "invalid IR: IRBufLoad is used outside the loop in which it executes\n  at: kernel k\n"
        "  hint: keep its value in a register, or compute it in the loop that uses it",
    ),
    "kernel without a loop": (
        lambda: rewrite_text(kernel(IRBufStore(0, ZERO, ZERO, DType.INT32)).format(), ["split-axis"]),
        "bad input: kernel k has no loop\n  hint: give a kernel with a loop",
    ),
    "late disable": (
        late_disable,
        "plugin: plugins are loaded already\n  hint: disable them before the first lookup",
    ),
    "format of a record": (
        lambda: record(form=2),
        "bad input: a record of format 2, expected 1\n"
        "  hint: write it again with this version, or read it with the version that wrote it",
    ),
    "class of another package": (
        lambda: record(objects=[["os:system", {}]]),
        "bad input: a record that cannot be read: ValueError: class 'os:system' is not of tg2hdl_ir, tg2hdl_lower, "
        f"tg2hdl_top\n  {AGAIN}",
    ),
    "no class of records": (
        lambda: record(objects=[["tg2hdl_ir.verifier:verify", {}]]),
        "bad input: a record that cannot be read: ValueError: 'tg2hdl_ir.verifier:verify' is not a class of records\n"
        f"  {AGAIN}",
    ),
    "fields of a record": (
        lambda: record(objects=[["tg2hdl_ir.nodes:IRConst", {"value": 1}]]),
        "bad input: a record that cannot be read: ValueError: tg2hdl_ir.nodes:IRConst has the fields "
        f"['dtype', 'value'], not ['value']\n  {AGAIN}",
    ),
    "graph without a name": (
        lambda: check_graph(graph(name="")),
        "bad input: a graph is named '', and its inputs ['x']\n"
        "  hint: give the graph and each of its inputs a name",
    ),
    "names of inputs": (
        lambda: check_graph(graph(names=("x", "y"))),
        "bad input: 1 inputs with the names ['x', 'y']\n  at: graph g\n"
        "  hint: give each input one name of its own",
    ),
    "outputs of a graph": (
        lambda: check_graph(graph(outputs=(7,))),
        "bad input: inputs and outputs [7] are not among the 1 nodes\n  at: graph g\n"
        "  hint: name one output or more, by the numbers of their nodes",
    ),
    "graph without outputs": (
        lambda: check_graph(graph(outputs=())),
        "bad input: a graph without outputs\n  at: graph g\n"
        "  hint: name one output or more, by the numbers of their nodes",
    ),
    "unknown operation": (
        lambda: evaluate_graph(
            graph(TensorNode("conv", (0,), None, (2,), DType.INT32), outputs=(1,)),
            [np.zeros((1, 2), np.int32)],
        ),
        "unsupported: a node of the unknown operation 'conv' cannot be evaluated\n  at: node conv\n"
        "  hint: use the operations of tg2hdl_ir.tensors; check_graph names all that do not fit",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: write_record(3j),
            TypeError,
            "3j of type complex cannot be written: records have dataclasses, enumerations, containers, arrays, "
            "numbers and text",
        ),
        (lambda: made_of(BufferMeta, [3]), ValueError, "a BufferMeta is a mapping, not list"),
        (
            lambda: made_of(IRConst, {"of": 3}),
            ValueError,
            "a IRConst has the fields ['dtype', 'value'], not ['of']",
        ),
    ],
)
def test_text_of_an_error_that_its_caller_completes(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == text


def test_text_of_memory_that_ends(monkeypatch):
    monkeypatch.setattr("tg2hdl_ir.limits.memory_limit", lambda: None)
    assert str(system_error(MemoryError("an array of 3 GB"))) == (
        "error: not enough memory: an array of 3 GB\n  hint: end other programs, or make the model smaller"
    )

"""Graphs, dataclasses and records from files of strangers."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tg2hdl_ir import DType, InputError
from tg2hdl_ir.records import read_record, signed, write_record
from tg2hdl_ir.tensors import TensorGraph, TensorNode
from tg2hdl_ir.tensors.check import check_graph
from tg2hdl_ir.typed import made_of

INT = DType.from_name("int32")
NODES = (
    TensorNode("input", (), 0, (2, 3), INT),
    TensorNode("const", (), np.ones((1, 3), np.int32), (1, 3), INT),
    TensorNode("ADD", (0, 1), None, (2, 3), INT),
    TensorNode("permute", (2,), (1, 0), (3, 2), INT),
    TensorNode("pad", (3,), ((1, 0), (0, 0)), (4, 2), INT),
    TensorNode("sum", (4,), (0,), (2,), INT),
)
GRAPH = TensorGraph("g", NODES, (0,), (5,), ("x",))


def test_a_right_graph_passes():
    check_graph(GRAPH)


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (2, {"op": "__import__"}, "node 2 ('__import__') does not fit: there is no such operation"),
        (2, {"sources": (0, 2)}, "node 2 ('ADD') does not fit: the operands are (0, 2)"),
        (2, {"sources": (0,)}, "node 2 ('ADD') does not fit: 1 operands, not 2"),
        (2, {"shape": (3, 3)}, "node 2 ('ADD') does not fit: the shape is (3, 3), not (2, 3)"),
        (2, {"dtype": DType.from_name("int8")}, "node 2 ('ADD') does not fit: the type is int8, not int32"),
        (1, {"shape": (3,)}, "node 1 ('const') does not fit: its array has another type"),
        (0, {"shape": (1 << 20, 1 << 20)}, "node 0 ('input') does not fit: the shape is (1048576, 1048576)"),
        (3, {"arg": (1, 1)}, "node 3 ('permute') does not fit: the axes are (1, 1)"),
        (4, {"arg": ((1, 0.5), (0, 0))}, "node 4 ('pad') does not fit: the pairs are ((1, 0.5), (0, 0))"),
        (5, {"arg": (2,)}, "node 5 ('sum') does not fit: the axes are (2,)"),
        (0, {"arg": 1}, "1 input nodes, and the inputs are [('input', 1)]"),
    ],
)
def test_a_node_that_does_not_fit_is_named(number, change, message):
    nodes = tuple(replace(n, **change) if k == number else n for k, n in enumerate(NODES))
    with pytest.raises(InputError) as caught:
        check_graph(replace(GRAPH, nodes=nodes))
    assert caught.value.message == message


@dataclass(frozen=True)
class Inner:
    name: str
    bits: int | None = None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    share: float


def test_a_dataclass_takes_values_of_its_types_only():
    right = {"inner": [{"name": "a", "bits": 3}, {"name": "b"}], "share": 1}
    assert made_of(Outer, right) == Outer((Inner("a", 3), Inner("b")), 1)
    for wrong in (
        [],
        {"inner": []},
        right | {"more": 1},
        right | {"share": "1"},
        right | {"share": True},
        right | {"inner": [3]},
        right | {"inner": [{"name": "a", "bits": 2.5}]},
    ):
        with pytest.raises(ValueError, match=r"Outer|Inner|share|bits|inner"):
            made_of(Outer, wrong)


def test_a_record_that_was_changed_is_refused():
    record = json.loads(write_record(NODES[3]))
    assert read_record(json.dumps(record)).arg == (1, 0)
    changed = json.loads(json.dumps(record).replace("[1, 0]", "[0, 1]"))
    assert changed != record
    with pytest.raises(InputError) as caught:
        read_record(json.dumps(changed))
    assert str(caught.value) == (
        "bad input: a record that was changed or damaged: its checksum is wrong\n"
        "  hint: compile the model again, or copy the file again"
    )
    assert read_record(json.dumps(signed(changed))).arg == (0, 1)
    for text in (
        "[" * 100_000,
        "null",
        '{"format": 1}',
        "{}",
        "[]",
        '{"format": 1, "objects": 1, "value": 1}',
    ):
        with pytest.raises(InputError, match="a record"):
            read_record(text)

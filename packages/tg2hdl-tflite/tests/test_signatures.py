"""Files of several signatures: the one that is chosen is compiled, with its own names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import Network, Subgraph, run_golden, run_micro

X = np.array([[[-128, 5, 127]]], np.int8)


def scaled(net: Subgraph) -> tuple[int, int]:
    x = net.tensor((1, 3), "INT8", scale=0.5, zero_point=3, name="scale_x:0")
    w = net.constant(np.array([[1, -2, 3], [4, 5, 6]], np.int8), scale=0.25)
    y = net.tensor((1, 2), "INT8", scale=0.5, zero_point=-7, name="scale_y:0")
    net.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions", version=4)
    return x, y


def counted(net: Subgraph) -> tuple[int, int]:
    """The input plus the one before it, by a variable that CALL_ONCE of this graph sets."""
    first = net.network.subgraph("NoOp")
    handle = first.tensor((), "RESOURCE", name="memory")
    start = first.constant(np.array([[1, 2, 3]], np.int8), scale=0.5)
    first.operator(
        "VAR_HANDLE",
        [],
        [handle],
        "VarHandleOptions",
        SharedName=first.network.builder.CreateString("memory"),
    )
    first.operator("ASSIGN_VARIABLE", [handle, start], [])
    x = net.tensor((1, 3), "INT8", scale=0.5, name="count_x:0")
    here = net.tensor((), "RESOURCE", name="memory")
    before = net.tensor((1, 3), "INT8", scale=0.5, name="before")
    y = net.tensor((1, 3), "INT8", scale=1.0, name="count_y:0")
    number = net.network.graphs.index(first)
    net.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=number)
    net.operator(
        "VAR_HANDLE", [], [here], "VarHandleOptions", SharedName=net.network.builder.CreateString("memory")
    )
    net.operator("READ_VARIABLE", [here], [before])
    net.operator("ADD", [x, before], [y], "AddOptions", version=2)
    net.operator("ASSIGN_VARIABLE", [here, x], [])
    return x, y


def both(first: str = "scale") -> bytes:
    """A file of two signatures, in either order of their graphs."""
    net = Network()
    graphs: dict[str, Subgraph] = {first: net}
    other = "count" if first == "scale" else "scale"
    graphs[other] = net.subgraph(other)
    ends = {key: {"scale": scaled, "count": counted}[key](graph) for key, graph in graphs.items()}
    for key, (x, y) in ends.items():
        graphs[key].inputs, graphs[key].outputs = [x], [y]
        net.signature(key, net.graphs.index(graphs[key]), {"samples": x}, {f"{key}_codes": y})
    return net.finish([ends[first][0]], [ends[first][1]])


def load(folder: Path, data: bytes, signature: str | None = None) -> TfliteModel:
    path = folder / "net.tflite"
    path.write_bytes(data)
    return TfliteModel(path, signature=signature)


def test_names_and_scales_are_those_of_the_signature(tmp_path: Path) -> None:
    for key, scales, size in (("scale", ((0.5, 3), (0.5, -7)), 2), ("count", ((0.5, 0), (1.0, 0)), 3)):
        model = load(tmp_path, both(), key)
        assert model.signatures == ("scale", "count")
        assert (model.input_names, model.output_names) == (("samples",), (f"{key}_codes",))
        assert model.scales == dict(zip(("samples", f"{key}_codes"), scales, strict=True))
        assert {s.name: s.shape for s in model.inputs} == {"samples": (1, 3)}
        assert run_golden(both(), X, signature=key)[0][0].shape == (1, size)
    assert load(tmp_path, both()).output_names == ("scale_codes",)
    assert load(tmp_path, both("count")).output_names == ("count_codes",)


@pytest.mark.parametrize("key", ["scale", "count"])
def test_codes_are_those_of_the_graph(key: str) -> None:
    """TFLM runs the first graph, so that its file has the graphs in the other order."""
    pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")
    inputs = np.concatenate([X, X[..., ::-1], X // 2])
    wanted = run_micro(both(key), inputs)
    found = run_golden(both("count" if key == "scale" else "scale"), inputs, signature=key)
    np.testing.assert_array_equal(np.array(found), np.array(wanted))


def test_a_signature_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, both(), "train")
    assert str(caught.value) == (
        "bad input: net.tflite has no signature 'train'\n  hint: choose one of: 'scale', 'count'"
    )
    net = Network()
    x, y = scaled(net)
    with pytest.raises(InputError) as caught:
        load(tmp_path, net.finish([x], [y]), "serving_default")
    assert str(caught.value) == (
        "bad input: net.tflite has no signature 'serving_default'\n"
        "  hint: leave it out: the file has no signatures"
    )


def test_a_signature_of_a_graph_that_is_missing(tmp_path: Path) -> None:
    net = Network()
    x, y = scaled(net)
    net.signature("lost", 3, {"x": x}, {"y": y})
    with pytest.raises(InputError) as caught:
        load(tmp_path, net.finish([x], [y]))
    assert str(caught.value).replace(str(tmp_path), "~") == (
        "bad input: net.tflite is damaged: signature 'lost' names graph 3 of 1\n"
        "  at: ~/net.tflite\n  hint: copy or export the file again"
    )


def test_outputs_that_a_signature_leaves_out_or_names_twice(tmp_path: Path) -> None:
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5, name="x")
    y, z = (net.tensor((1, 3), "INT8", scale=0.5, name=name) for name in "yz")
    for end in (y, z):
        net.operator("RELU", [x], [end], version=2)
    net.signature("all", 0, {"x": x}, {"second": z, "first": y})
    net.signature("one", 0, {"x": x}, {"third": z, "fourth": z})
    data = net.finish([x], [y, z])
    assert load(tmp_path, data).output_names == ("first", "second")
    assert load(tmp_path, data, "one").output_names == ("third", "fourth")


def test_the_commands_take_a_signature(tmp_path: Path) -> None:
    testing, cli = pytest.importorskip("click.testing"), pytest.importorskip("tg2hdl.cli").cli
    path = tmp_path / "net.tflite"
    path.write_bytes(both())
    np.save(tmp_path / "x.npy", X[0])
    given = ["simulate", str(path), "--data", str(tmp_path / "x.npy"), "--signature"]
    run = testing.CliRunner().invoke(cli, [*given, "count"])
    assert run.exit_code == 0, run.output
    # Halves away from zero: (-128 + 1) / 2, (5 + 2) / 2, (127 + 3) / 2.
    assert run.output.splitlines()[-1] == "[[-64   4  65]]"
    wrong = testing.CliRunner().invoke(cli, [*given, "train"])
    assert "has no signature 'train'" in str(wrong.exception)

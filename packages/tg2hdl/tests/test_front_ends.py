"""Which front end reads a file, and the text of each refusal; a front end in one file is in examples/plugins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.model_file import front_end_of, load_model_file
from tg2hdl_backend import TensorSpec
from tg2hdl_ir import (
    DType,
    FrontEndDef,
    InputError,
    PluginError,
    Registry,
    ToolMissingError,
    hookimpl,
    registry,
)

X = np.array([1, -2], np.float32)


def front_end(name: str, load=lambda path, name, examples: (lambda x: x * 3, (X,)), **more) -> FrontEndDef:
    return FrontEndDef(name, f"files of {name}", more.pop("suffixes", (".mine",)), load, **more)


@pytest.fixture
def extended():
    """Registers front ends until the test ends."""
    contexts = []

    def register(*found: FrontEndDef, distribution: str = "myext") -> None:
        plugin = SimpleNamespace(tg2hdl_frontends=hookimpl(lambda: list(found)))
        plugin.tg2hdl_frontends.__name__ = "tg2hdl_frontends"
        contexts.append(registry().extended(plugin, distribution=distribution))
        contexts[-1].__enter__()

    yield register
    for context in reversed(contexts):
        context.__exit__(None, None, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mine").write_bytes(b"MINE")
    (tmp_path / "model.py").write_text("def model(x): return x\n")
    return tmp_path


def refused(kind: type[Exception], call, *arguments, **options) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_a_file_that_nothing_reads_lists_the_front_ends(folder: Path) -> None:
    installed = any(".tflite" in f.suffixes for f in registry().front_ends())
    assert refused(InputError, tg2hdl.compile, "net.mine") == (
        "bad input: no front end reads net.mine\n  at: net.mine\n"
        "  note: .npz: models of tg2hdl quantize\n"
        '  note: .onnx: ONNX files; pip install "tg2hdl[onnx]"\n'
        "  note: .py: Python files\n"
        f"  note: .tflite: {'TFLite files; ' if installed else ''}"
        'pip install "tg2hdl[tflite]"\n'
        "  hint: give a file of one of these, or install a plugin that reads it"
    )


def test_a_front_end_that_is_not_installed_is_named(
    folder: Path, extended, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "net.tflite").write_bytes(b"\0\0\0\0TFL3")
    found = Registry.front_ends
    monkeypatch.setattr(
        Registry, "front_ends", lambda self: tuple(f for f in found(self) if f.name != "tflite")
    )
    assert refused(ToolMissingError, tg2hdl.compile, "net.tflite") == (
        "missing tool: reading net.tflite needs the package tg2hdl-tflite\n  at: net.tflite\n"
        '  hint: pip install "tg2hdl[tflite]"'
    )
    extended(front_end("mine", needs=("absent_package",), install="pip install mine[all]"))
    assert refused(ToolMissingError, tg2hdl.compile, "net.mine") == (
        "missing tool: reading net.mine needs the package absent_package\n  at: net.mine\n"
        "  hint: pip install mine[all]"
    )


def test_the_suffix_decides_and_the_first_bytes_where_it_does_not(folder: Path, extended) -> None:
    extended(
        front_end("one", sniff=lambda head: head == b"MINE"),
        front_end("two", sniff=lambda head: head == b"TWO"),
        front_end("three", suffixes=(".three",), sniff=lambda head: head == b"3"),
    )
    for name, content, expected in (
        ("net.mine", b"MINE", "one"),
        ("net.MINE", b"TWO", "two"),
        ("a.three", b"MINE", "three"),
        ("without", b"3", "three"),
    ):
        (folder / name).write_bytes(content)
        assert front_end_of(Path(name)).name == expected
    assert (tg2hdl.compile("net.mine").golden(X) == X * 3).all()


def test_two_front_ends_for_a_file_are_an_error(folder: Path, extended) -> None:
    extended(front_end("one", sniff=lambda head: True))
    extended(front_end("two", sniff=lambda head: True), distribution="other")
    text = refused(PluginError, tg2hdl.compile, "net.mine")
    assert text.startswith("plugin: net.mine is read by several front ends: one of myext, two of other\n"), (
        text
    )
    assert "hint: disable one of them: --no-plugin other:" in text


def test_built_in_formats_are_recognized_without_a_suffix(folder: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the file")
    values = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), "model.bin")
    assert front_end_of(Path("model.bin")).name == "onnx"
    np.save("x.npy", np.ones((4, 2), np.float32))
    result = CliRunner().invoke(cli, ["quantize", "model.bin", "--samples", "x.npy", "-o", "q.npz"])
    assert result.exit_code == 0, result.output
    (folder / "q.npz").rename("q.bin")
    assert front_end_of(Path("q.bin")).name == "quantized"
    assert (tg2hdl.compile("q.bin", X).golden(X) != 0).any()


def test_options_go_to_the_front_end_that_has_them(folder: Path, extended) -> None:
    extended(front_end("mine", lambda p, n, e, gain=1: (lambda x: x * gain, (X,)), options=("gain",)))
    assert (tg2hdl.compile("net.mine", gain=4).golden(X) == X * 4).all()
    assert refused(InputError, tg2hdl.compile, "model.py", X, gain=4) == (
        "bad input: model.py: Python files have no option 'gain'\n  at: model.py\n"
        "  note: it is for files of mine\n  hint: leave it out; they have none"
    )
    assert refused(InputError, load_model_file, "net.mine", batch=2) == (
        "bad input: net.mine: files of mine have no option 'batch'\n  at: net.mine\n"
        "  note: it is for ONNX files\n  hint: leave it out; they have gain"
    )
    assert refused(InputError, tg2hdl.compile, lambda x: x, X, gain=4) == (
        "bad input: gain is for files, and the model is none\n"
        "  hint: leave it out; example inputs give the shapes of a Python model"
    )
    assert "has no option 'gian'" in refused(InputError, tg2hdl.compile, "net.mine", gian=4)


def test_names_are_for_files_with_several_models(folder: Path, extended) -> None:
    extended(front_end("mine"), front_end("many", suffixes=(".many",), has_names=True))
    assert refused(InputError, load_model_file, "net.mine:other") == (
        "bad input: net.mine has one model, which has no name\n  at: net.mine\n  hint: give net.mine"
    )
    (folder / "net.many").touch()
    assert load_model_file("net.many:other").label == "net_other"


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (
            lambda p, n, e: 3,
            "plugin: front end 'mine' of plugin 'myext:SimpleNamespace.0': load made int, not tuple\n",
        ),
        (lambda p, n, e: (3, None), "load gave (3, None), not a model and its example inputs\n"),
        (lambda p, n, e: 1 / 0, "load raised ZeroDivisionError: division by zero\n"),
    ],
)
def test_a_faulty_front_end_is_named(folder: Path, extended, load, text: str) -> None:
    extended(front_end("mine", load))
    assert text in refused(PluginError, tg2hdl.compile, "net.mine")


def test_a_suffix_is_a_tuple() -> None:
    plugin = SimpleNamespace(tg2hdl_frontends=hookimpl(lambda: [FrontEndDef("m", "files", ".mine", "a:b")]))
    plugin.tg2hdl_frontends.__name__ = "tg2hdl_frontends"
    with registry().extended(plugin, distribution="myext") as plugins:
        assert plugins.problems[-1].reason == "FrontEndDef 'm' has suffixes='.mine'"
        assert plugins.problems[-1].hint == "give a tuple of strings"


def test_a_model_that_brings_quantizers_becomes_integers(folder: Path, extended) -> None:
    class Model:
        is_quantized = True
        inputs = (TensorSpec("x", (2,), DType.FP32),)
        __name__ = "mine"

        def __call__(self, x):
            return x * 2

    extended(front_end("mine", lambda p, n, e: (Model(), (X,))))
    assert load_model_file("net.mine").model.in_float == (
        "all of it: model mine has no quantizers with known scales",
    )
    assert not hasattr(load_model_file("net.mine", keep_float=True).model, "in_float")


def test_what_is_quantized_is_not_quantized_again(folder: Path) -> None:
    samples = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    model = tg2hdl.quantize(lambda x: x * 2, samples)
    assert refused(InputError, tg2hdl.quantize, model, samples) == (
        f"bad input: model {model.__name__} is quantized already\n"
        "  hint: compile it, or quantize the float model"
    )

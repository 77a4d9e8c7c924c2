"""The suites for front ends, sections and commands: built-in ones pass, faulty ones are named."""

from __future__ import annotations

from dataclasses import replace

import click
import numpy as np
import pytest

import tg2hdl
from tg2hdl.testing import check_command, check_front_end, check_report_section
from tg2hdl_ir import CommandDef, FrontEndDef, ReportSection, hookimpl, registry

MODEL = "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.zeros(4, np.int8),)\n"


def front_end(name):
    return next(f for f in registry().front_ends() if f.name == name)


def test_python_files_pass(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    check_front_end(front_end("python"), tmp_path / "net.py")


def test_onnx_files_pass(tmp_path):
    pytest.importorskip("onnx")
    from onnx import helper

    from tg2hdl_backend.testing.onnx_files import write

    x = [("x", np.float32, [2])]
    path = write(tmp_path / "net.onnx", [helper.make_node("Relu", ["x"], ["y"])], x, [("y", np.float32, [2])])
    check_front_end(front_end("onnx"), path)


def test_quantized_files_pass(tmp_path):
    from tinygrad import Tensor

    from tg2hdl.quantized_file import save_quantized

    weight = Tensor(np.eye(4, 2, dtype=np.float32))
    samples = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
    save_quantized(tg2hdl.quantize(lambda x: x @ weight, samples), tmp_path / "net.npz")
    check_front_end(front_end("quantized"), tmp_path / "net.npz")


def loads(path, name, examples):
    contents = path.read_text()
    (number,) = contents.split()
    return lambda x: x * int(number), (np.zeros(2, np.int32),)


FRONT_ENDS = {
    "of a file that is cut at 0% it says: front end 'times' of plugin ": {},
    "suffix '.TIMES'": {"suffixes": (".times", ".TIMES")},
    "it takes an empty file for its own": {"sniff": lambda head: True},
    "options ['factor']": {"command_options": lambda: [click.Option(["--factor"])]},
}


@pytest.mark.parametrize("text", FRONT_ENDS)
def test_faulty_front_ends_are_named(text, tmp_path):
    made = replace(FrontEndDef("times", "factors", (".times",), loads), **FRONT_ENDS[text])
    plugin = type("Plugin", (), {"tg2hdl_frontends": hookimpl(lambda self: [made])})()
    (tmp_path / "net.times").write_text("12")
    with registry().extended(plugin, distribution="acme"), pytest.raises(AssertionError) as caught:
        check_front_end(made, tmp_path / "net.times")
    assert str(caught.value).startswith(f"front end times: {text}")


@pytest.mark.parametrize("section", registry().report_sections(), ids=lambda section: section.name)
def test_built_in_sections_pass(section):
    check_report_section(section)


SECTIONS = {
    "<td> is not closed": lambda context: "<td>5",
    "</p> inside of <b> ends no element": lambda context: "<p><b>5</p></b>",
    "<img> loads https://x.invalid/a.png, but a report needs no other file": lambda context: (
        '<img src="https://x.invalid/a.png">'
    ),
    "render gave int, not str": lambda context: 5,
    "it changes the figures": lambda context: str(context.facts.popitem()),
}


@pytest.mark.parametrize("text", SECTIONS)
def test_faulty_sections_are_named(text):
    with pytest.raises(AssertionError) as caught:
        check_report_section(ReportSection("mine", "Mine", SECTIONS[text]))
    assert str(caught.value) == f"section mine: {text}"


@pytest.mark.parametrize("definition", registry().commands(), ids=lambda definition: definition.name)
def test_built_in_commands_pass(definition):
    check_command(definition)


@click.command()
@click.option("--size")
def undocumented(size):
    """A command."""


COMMANDS = {
    "option --size has no help": ("It runs.", undocumented),
    "its description is not a sentence": ("runs", undocumented),
    "dict is not a click command": ("It runs.", dict()),
    "it has no help": ("It runs.", click.Command("x")),
}


@pytest.mark.parametrize("text", COMMANDS)
def test_faulty_commands_are_named(text):
    description, command = COMMANDS[text]
    with pytest.raises(AssertionError) as caught:
        check_command(CommandDef("mine", description, command))
    assert str(caught.value) == f"command mine: {text}"

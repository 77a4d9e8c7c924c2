"""Conformance suites for front ends, sections of the report and commands.

In the tests of a plugin::

    def test_my_front_end(tmp_path):
        (front_end,) = my_plugin.tg2hdl_frontends()
        check_front_end(front_end, write_example(tmp_path / "net.xyz"))
"""

from __future__ import annotations

import copy
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.testing import CliRunner

from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl.model_file import front_end_of, load_model_file
from tg2hdl.report.context import ReportContext
from tg2hdl.report.facts import gather_facts
from tg2hdl_backend import example_values
from tg2hdl_ir import CommandDef, FrontEndDef, InputError, ReportSection, Tg2hdlError, registry

__all__ = ["check_command", "check_front_end", "check_report_section"]

_HEADS = {"an empty file": b"", "text": b"some words\n", "zeros": bytes(64), "an archive": b"PK\x03\x04"}
_MODEL = """
import numpy as np
from tinygrad import Tensor

weight = Tensor(np.arange(-8, 24, dtype=np.int8).reshape(8, 4))
example_inputs = (np.zeros((1, 8), np.int8),)

def model(x):
    return (x.cast("int32") @ weight.cast("int32")).relu()
"""
"""Model on which report sections are tried."""
_VOID = {
    "br",
    "hr",
    "img",
    "input",
    "meta",
    "col",
    "path",
    "rect",
    "line",
    "circle",
    "polyline",
    "polygon",
    "use",
}


def check_front_end(front_end: FrontEndDef, path: Path, **options: Any) -> None:
    """Check a registered front end on a file of its format: suffixes, first bytes, options, damaged files, a design.

    Parameters
    ----------
    path : Path
        A valid file, whose suffix is one of the front end's.
    options
        Of the front end, that the file needs.

    Raises
    ------
    AssertionError
        Naming the front end and the first rule that it breaks.
    """
    label = f"front end {front_end.name}"
    for suffix in front_end.suffixes:
        assert suffix == suffix.lower() and suffix.startswith("."), f"{label}: suffix {suffix!r}"  # noqa: PT018
    reads = front_end_of(path)
    assert reads.name == front_end.name, f"{label}: {path.name} goes to the front end {reads.name}"
    front_end = reads  # its hook may have made another one, equal but for functions
    contents = path.read_bytes()
    if front_end.sniff is not None:
        for what, head in _HEADS.items():
            recognized = registry().call(front_end, "sniff", head)
            assert not recognized or contents.startswith(head[:4] or b"?"), (
                f"{label}: it takes {what} for its own"
            )
    if front_end.command_options is not None:
        names = {option.name for option in registry().make(front_end, "command_options", list)}
        assert names <= set(front_end.options), f"{label}: options {sorted(names - set(front_end.options))}"
    _refuses(label, path, "an unknown option", {"no_such_option": 1})
    file = load_model_file(str(path), **options)
    assert callable(file.model), f"{label}: the model cannot be called"
    examples = file.example_inputs
    assert examples is not None, f"{label}: neither the file nor the model says shapes and types of inputs"
    first, second = (compile_model_to_hardware(path, *examples, **options) for _ in range(2))
    known = zip(example_values(examples), first.inputs, strict=True)
    arrays = [np.zeros(spec.shape, spec.dtype.numpy()) if value is None else value for value, spec in known]
    for one, two in zip(_outputs(first.golden(*arrays)), _outputs(second.golden(*arrays)), strict=True):
        assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f"), f"{label}: a second reading differs"
    plugin = f"plugin {registry().plugin(front_end)!r}"
    for share in (0.0, 0.3, 0.9):
        error = _error_of(path, contents[: int(len(contents) * share)], options)
        assert plugin not in error, f"{label}: of a file that is cut at {share:.0%} it says: {error}"


def _error_of(path: Path, contents: bytes, options: dict[str, Any]) -> str:
    """Message of the error for other contents; empty where they are a model, too."""
    damaged = path.with_name(f"damaged{path.suffix}")
    damaged.write_bytes(contents)
    try:
        load_model_file(str(damaged), **options)
    except Tg2hdlError as error:
        return error.message
    finally:
        damaged.unlink()
    return ""


def _refuses(label: str, path: Path, what: str, options: dict[str, Any]) -> None:
    try:
        load_model_file(str(path), **options)
    except InputError:
        return
    raise AssertionError(f"{label}: it does not refuse {what}")


def _outputs(found: Any) -> list[Any]:
    return [np.asarray(array) for array in (found if isinstance(found, tuple | list) else [found])]


def check_report_section(section: ReportSection) -> str:
    """Check a section on a small design: HTML that is whole, offline and the same each time; returns it.

    Raises
    ------
    AssertionError
        Naming the section and the first rule that it breaks.
    """
    label = f"section {section.name}"
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "section.py").write_text(_MODEL)
        accelerator = compile_model_to_hardware(path, multipliers=2)
    x = np.arange(8, dtype=np.int8).reshape(1, 8)
    facts = gather_facts(accelerator, [x])
    kept = copy.deepcopy(facts)
    html = registry().call(section, "render", ReportContext(accelerator, facts))
    assert isinstance(html, str), f"{label}: render gave {type(html).__name__}, not str"
    assert facts == kept, f"{label}: it changes the figures"
    again = registry().call(section, "render", ReportContext(accelerator, facts))
    assert _without_ids(html) == _without_ids(again), f"{label}: a second call differs"
    compared = registry().call(section, "render", ReportContext(accelerator, facts, earlier=kept))
    for text in (html, compared):
        page = _Page()
        page.feed(str(text))
        page.close()
        assert not page.fault, f"{label}: {page.fault}"
        assert not page.open, f"{label}: <{page.open[-1]}> is not closed"
    return str(html)


def _without_ids(html: str) -> str:
    """Without the names that charts get for the page that they are in."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\bchart\d+\b", "", html)


class _Page(HTMLParser):
    """Open elements, and the first fault."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fault = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, and the files that it loads."""
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            outside = (value or "").strip().startswith(("http:", "https:", "//", "file:"))
            if (outside and name in ("src", "srcset", "data", "poster", "action")) or (
                outside and tag == "link"
            ):
                self.fault = self.fault or f"<{tag}> loads {value}, but a report needs no other file"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without contents."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """The end of an element must be that of the innermost one."""
        if tag in _VOID:
            return
        if not self.open or self.open[-1] != tag:
            inside = f" inside of <{self.open[-1]}>" if self.open else ""
            self.fault = self.fault or f"</{tag}>{inside} ends no element"
        else:
            self.open.pop()


def check_command(definition: CommandDef) -> None:
    """Check a command: its help, and its answers to wrong usage.

    Raises
    ------
    AssertionError
        Naming the command and the first rule that it breaks.
    """
    label = f"command {definition.name}"
    command = registry().factory(definition, "command")
    assert isinstance(command, click.Command), f"{label}: {type(command).__name__} is not a click command"
    assert definition.description.endswith("."), f"{label}: its description is not a sentence"
    _check_help(label, command)
    runner = CliRunner()
    for arguments, status in ((["--help"], 0), (["--no-such-option"], 2)):
        found = runner.invoke(command, arguments, prog_name=definition.name)
        assert found.exit_code == status, f"{label}: {arguments[0]} ends with {found.exit_code}, not {status}"


def _check_help(label: str, command: click.Command) -> None:
    assert command.help, f"{label}: it has no help"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{label}: option {parameter.opts[0]} has no help"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, f"{label} {name}: it is listed, and not there"
            _check_help(f"{label} {name}", inner)

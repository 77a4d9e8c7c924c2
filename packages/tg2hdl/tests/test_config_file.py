"""``tg2hdl.toml``: options of a project, which the command line overrides."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir import InputError


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A function that writes the file, into a folder above the working directory."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    def write(text: str) -> Path:
        (tmp_path / "tg2hdl.toml").write_text(text)
        return tmp_path / "tg2hdl.toml"

    return write


@pytest.fixture
def given(monkeypatch):
    """A function that returns the options with which a command would run."""

    def run(*arguments: str) -> dict:
        found: dict = {}
        made = cli.get_command(
            click.Context(cli),
            arguments[-2] if arguments[0] == "tpu" else next(a for a in arguments if not a.startswith("-")),
        )
        monkeypatch.setattr(made, "callback", lambda **options: found.update(options))
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
        return found

    return run


def test_options_come_from_a_folder_above_and_the_command_line_wins(project, given):
    project(
        '[compile]\nmultipliers = 16\nfloat-order = "relaxed"\nshare-units = true\nunit = ["add=a", "mul=b"]\n'
    )
    found = given("compile", "net.py", "--float-order", "strict")
    assert (found["multipliers"], found["float_order"], found["share_units"]) == (16, "strict", True)
    assert found["units"] == ("add=a", "mul=b")
    assert given("simulate", "net.py")["multipliers"] is None
    assert given("--no-config", "compile", "net.py")["multipliers"] is None


def test_a_table_serves_all_commands_of_models_and_that_of_a_command_goes_before_it(project, given):
    project(
        '[model]\nmultipliers = 16\ninput = "int8:1x4"\nbatch = 2\n[explain]\nmultipliers = 4\nvariants = false\n'
    )
    explain, simulate = given("explain", "net.py"), given("simulate", "net.py")
    assert (explain["multipliers"], explain["variants"], explain["file_options"]["batch"]) == (4, False, 2)
    assert (simulate["multipliers"], simulate["inputs"]) == (16, ("int8:1x4",))
    assert given("quantize", "net.py", "--samples", "x.npy")["bits"] == 8
    assert given("cache") == {"json_file": None}


def test_commands_of_a_group_have_tables_of_their_own(project):
    pytest.importorskip("tg2hdl_tpu")
    project('[tpu.build]\nlanes = 3\n[plugins]\nlist = { kind = "sequencer" }\n')
    assert "overlap" in CliRunner().invoke(cli, ["plugins", "list"], catch_exceptions=False).output
    with pytest.raises(InputError, match="lanes is 3"):
        CliRunner().invoke(cli, ["tpu", "build", "--no-place"], catch_exceptions=False)


REFUSED = {
    "a table of no command": (
        "[compil]\nmultipliers = 16\n",
        "bad input: 'compil' is not a table of a command\n  at: {path}\n"
        "  hint: write options into one of the tables [model], [bench], [build], [cache], ",
    ),
    "outside of the tables": (
        "multipliers = 16\n",
        "bad input: 'multipliers' is outside of the tables\n  at: {path}\n  hint: write options into one of ",
    ),
    "an unknown option": (
        "[compile]\nmultiplier = 16\n",
        "bad input: [compile] has the unknown option 'multiplier'\n  at: {path}\n"
        "  hint: known: batch, codes, dim, family, fit, fix, float-order, fold-batchnorm, input, json, keep-float, ",
    ),
    "an option that not all commands have": (
        "[model]\nboard = 'ulx3s-85f'\n",
        "bad input: [model] has the unknown option 'board'\n  at: {path}\n  hint: known: batch, codes, ",
    ),
    "a value of another type": (
        "[compile]\nmultipliers = 2.5\n",
        "bad input: multipliers = 2.5: '2.5' is not a valid integer range.\n  at: {path}, [compile]\n"
        "  hint: Hardware multipliers; kernels share them.  [default: 1]",
    ),
    "a flag that is a text": (
        "[compile]\nshare-units = 'yes'\n",
        "bad input: share-units = 'yes': it is true or false\n  at: {path}, [compile]\n  hint: ",
    ),
    "true for a number": (
        "[compile]\nmultipliers = true\n",
        "bad input: multipliers = True: it takes a text or a number\n  at: {path}, [compile]\n  hint: ",
    ),
    "a list of one value": (
        "[compile]\nmultipliers = [1, 2]\n",
        "bad input: multipliers = [1, 2]: it takes a text or a number\n  at: {path}, [compile]\n  hint: ",
    ),
    "a name that no plugin registers": (
        "[compile]\nfamily = 'ecp6'\n",
        "bad input: family 'ecp6' is unknown\n  at: {path}, [compile]\n  hint: did you mean ecp5? choose ",
    ),
    "no TOML": (
        "[compile\n",
        "bad input: tg2hdl.toml cannot be read: Expected ']' at the end of a table declaration (at line 1, column 9)\n"
        "  at: {path}\n  hint: correct it, or leave it out with --no-config",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused(case, project):
    text, expected = REFUSED[case]
    path = project(text)
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(cli, ["compile", "net.py"], catch_exceptions=False)
    assert str(caught.value).startswith(expected.format(path=path))


def _page() -> Path | None:
    pages = (root / "docs/reference/configuration.md" for root in Path(__file__).parents)
    return next((page for page in pages if page.exists()), None)


@pytest.mark.skipif(_page() is None, reason="needs the documentation beside the package")
def test_the_file_of_the_page_is_taken(project, given):
    (block,) = re.findall(r"^```toml\n(.*?)^```$", _page().read_text(), re.MULTILINE | re.DOTALL)
    project(block)
    assert given("compile", "net.py")["multipliers"] == 16
    assert given("simulate", "net.py")["multipliers"] == 16
    assert given("build", "net.py")["board"] == "ulx3s-85f"
    assert given("explain", "net.py")["variants"] is False


@pytest.mark.skipif(_page() is None, reason="needs the documentation beside the package")
def test_the_page_has_every_variable_of_the_environment():
    packages = _page().parents[2] / "packages"
    sources = "".join(path.read_text() for path in packages.glob("*/src/**/*.py"))
    variables = set(re.findall(r'"(TG2HDL_[A-Z_]+)"', sources)) - {"TG2HDL_HOOK_API", "TG2HDL_REGISTERS_H"}
    assert len(variables) > 5
    missing = {name for name in variables if f"`{name}`" not in _page().read_text()}
    assert missing == set()

"""``tg2hdl plugins new``: a complete plugin project with tests."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path

import click

from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_files

__all__ = ["NEXT_STEPS", "new_plugin"]

NEXT_STEPS = "cd {folder} && pip install -e '.[test]' && pytest\ntg2hdl plugins show {name}"
"""Commands after the project is written, a line each."""

_FILES = {
    "pyproject.toml": "pyproject.toml.in",
    "README.md": "README.md.in",
    "src/tg2hdl_NAME/plugin.py": "plugin.py.in",
    "src/tg2hdl_NAME/golden.py": "golden.py.in",
    "src/tg2hdl_NAME/hardware.py": "hardware.py.in",
    "src/tg2hdl_NAME/rewrite.py": "rewrite.py.in",
    "tests/test_NAME.py": "test.py.in",
}


@click.command(
    "new", epilog="\b\nExamples:\n  tg2hdl plugins new gelu\n  tg2hdl plugins new gelu -o ~/src/gelu"
)
@click.argument("name")
@click.option("-o", "--output", metavar="FOLDER", help="Where to write.  [default: tg2hdl-NAME]")
def new_plugin(name: str, output: str | None) -> None:
    """Write a plugin project: an op, its hardware, the rewrite that finds it, and tests of all three.

    NAME is in lower case: it becomes the package `tg2hdl_NAME` and the namespace of its ops.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError(f"{name!r} is not a name for a plugin", hint="use lower-case letters, digits and _")
    folder = Path(output or f"tg2hdl-{name}")
    try:
        empty = not any(folder.iterdir())
    except FileNotFoundError:
        empty = True
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}", hint="give another folder with -o"
        ) from error
    if not empty:
        raise InputError(f"the folder {folder} is not empty", hint="give another one with -o")
    templates = files("tg2hdl") / "plugin_template"
    contents = {
        place.replace("NAME", name): (templates / template).read_text().replace("NAME", name)
        for place, template in _FILES.items()
    }
    contents[f"src/tg2hdl_{name}/__init__.py"] = f'"""The plugin {name} of tg2hdl."""\n'
    contents[f"src/tg2hdl_{name}/py.typed"] = ""
    write_files(folder, contents)
    click.echo(f"wrote {folder}; next:")
    for line in NEXT_STEPS.format(folder=folder, name=name).splitlines():
        click.echo(f"  {line}")

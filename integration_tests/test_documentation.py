"""Tables, links and metadata of the pages; `bare_machine.py` runs their blocks and commands."""

import importlib
import importlib.metadata
import inspect
import io
import re
import tomllib
from contextlib import redirect_stdout
from enum import Enum

import pytest
from environments import ROOT

import tg2hdl

FILES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/README.md"),
    }
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path, language):
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def test_readme_shows_the_two_commands_and_hatch_knows_them():
    text = "\n".join(blocks(ROOT / "README.md", "console"))
    scripts = tomllib.loads((ROOT / "hatch.toml").read_text())["envs"]["default"]["scripts"]
    assert re.findall(r"hatch run (\w+)$", text, re.MULTILINE) == ["demo", "test"]
    assert scripts["demo"].startswith("tg2hdl demo")
    assert "pytest" in scripts["test"]


PRINTED = re.compile(
    r"^```python\n(.*?)^```$(?:(?!^```).)*(?:^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("page", ["slow", "too-large"])
def test_pages_show_what_their_blocks_print(page):
    """The block `text` after a block of Python is its output."""
    text = (ROOT / f"docs/howto/{page}.md").read_text()
    variables, shown = {"__name__": "__main__"}, 0
    for program, expected in PRINTED.findall(text):
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(program, "page.py", "exec"), variables)
        if expected:
            assert output.getvalue() == expected
            shown += 1
    assert shown == text.count("```text")


def test_every_public_name_of_the_front_door_is_on_a_page_of_the_reference():
    pages = "".join(path.read_text() for path in ROOT.glob("docs/reference/*.md"))
    assert [
        name for name in tg2hdl.__all__ if not re.search(rf"tg2hdl\w*\.([a-z_]+\.)*{name}\b", pages)
    ] == []


def test_table_of_packages_is_complete():
    names = {folder.name for folder in (ROOT / "packages").iterdir()}
    linked = set(re.findall(r"\]\(packages/([\w-]+)\)", (ROOT / "README.md").read_text()))
    assert linked == names


def parameters(made):
    """Names of the parameters of a function or class, but for those that collect others."""
    collecting = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    found = inspect.signature(made).parameters.values()
    return [p.name for p in found if p.name not in ("self", "cls") and p.kind not in collecting]


def documented(made):
    """Names in the Parameters section of a function, or of a class and its bases."""
    found = set()
    for each in made.__mro__ if inspect.isclass(made) else (made,):
        text = (
            inspect.cleandoc(each.__dict__.get("__doc__") or "")
            if inspect.isclass(each)
            else inspect.getdoc(each)
        )
        _, _, section = (text or "").partition("Parameters\n----------\n")
        section = re.split(r"\n\n\w+\n-+\n", section)[0]
        for line in re.findall(r"^\S.*", section, re.MULTILINE):
            found |= {name.strip("* ") for name in line.split(" :")[0].split(",")}
    return found


def of_face(package):
    """Functions, classes and their methods that a module exports and its package defines, by name."""
    face, package = importlib.import_module(package), package.partition(".")[0]
    for name in face.__all__:
        made = getattr(face, name)
        if not (inspect.isfunction(made) or inspect.isclass(made)) or not made.__module__.startswith(package):
            continue
        if not (inspect.isclass(made) and issubclass(made, (Exception, Enum))):
            yield name, made
        for method, value in vars(made).items() if inspect.isclass(made) else ():
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}", function


FACES = [
    *sorted(folder.name.replace("-", "_") for folder in (ROOT / "packages").iterdir()),
    "tg2hdl_ir.plugins.descriptors",
]


@pytest.mark.parametrize("module", FACES)
def test_parameters_of_all_exported_names_are_documented(module):
    missing = {}
    for name, made in of_face(module):
        names = parameters(made)
        if len(names) > 1 and (lacking := set(names) - documented(made)):
            missing[name] = sorted(lacking)
    assert missing == {}


def test_relative_links_lead_somewhere():
    missing = []
    for path in FILES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text()):
            if not (path.parent / target).exists():
                missing.append(f"{path.relative_to(ROOT)}: {target}")
    assert missing == []


@pytest.mark.parametrize("folder", sorted((ROOT / "packages").iterdir()), ids=lambda f: f.name)
def test_package_has_what_every_package_has(folder):
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert metadata["license"] == "BSD-2-Clause"
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert metadata["dynamic"] == ["version"]
    assert importlib.metadata.version(folder.name) == newest
    assert (folder / "src" / folder.name.replace("-", "_") / "py.typed").exists()
    assert list((folder / "tests").glob("test_*.py"))

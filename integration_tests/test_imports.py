"""No module imports itself through others, not even inside a function; the tinygrad adapter is a leaf."""

from __future__ import annotations

import ast
import graphlib
from functools import cache
from pathlib import Path

import pytest
from environments import ROOT

ADAPTER = "tg2hdl_backend.tinygrad_adapter"
# Functions of two modules that call each other by the nature of what they do: blocks within blocks.
MUTUAL = {
    ("tg2hdl_ir.golden.execute", "tg2hdl_ir.golden.recurrence"),
    ("tg2hdl_backend.onnx.graph", "tg2hdl_backend.onnx.control"),
}


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    sources = (ROOT / "packages").glob("*/src")
    return {module_name(p, source): p for source in sources for p in source.rglob("*.py")}


@cache
def imports(name: str) -> frozenset[str]:
    """Modules of this repository that a module imports anywhere in its text, but for type checkers alone."""
    path = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(path.read_text())
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    unread = {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if node in unread:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            named = {f"{base}.{alias.name}" for alias in node.names}
            found |= {full if full in modules() else base for full in named}
    return frozenset(found & modules().keys()) - {name}


@pytest.mark.parametrize("package", sorted({name.partition(".")[0] for name in modules()}))
def test_no_import_circle(package):
    graph = {name: set(imports(name)) for name in modules() if name.partition(".")[0] == package}
    for one, other in MUTUAL:
        assert one not in modules() or other in imports(one), (
            f"{one} does not import {other} any more: remove it"
        )
        graph.get(one, set()).discard(other)
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail("import circle: " + " -> ".join(error.args[1]))


def test_the_adapter_is_a_leaf():
    inside = {name for name in modules() if name == ADAPTER or name.startswith(f"{ADAPTER}.")}
    assert inside
    outside = {
        (name, imported)
        for name in inside
        for imported in imports(name)
        if imported.startswith("tg2hdl_backend") and imported not in inside
    }
    assert outside == set()

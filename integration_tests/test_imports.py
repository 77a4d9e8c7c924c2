"""No module imports itself through others, not inside a function or for annotations; the tinygrad adapter is a leaf.

A package imports another one through its face, or through a public module, which docs/architecture.md lists.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "packages").glob("*/src"))
FACES = {source / source.parent.name.replace("-", "_") / "__init__.py" for source in SOURCES}
ADAPTER = "tg2hdl_backend.tinygrad_adapter"


@cache
def modules() -> dict[str, Path]:
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Those of a module, and of the stub that lists the names of a package."""
    trees = [parsed(p) for p in (path, path.with_suffix(".pyi")) if p.exists()]
    return [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]


def imports(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return {module for module in found if module in known and module != name}


def circles(graph: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Groups of modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        stack = list(graph[start])
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(graph[node])
        return seen

    reach = {name: reached(name) for name in graph}
    found = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted(found, key=sorted)


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}, "g": set()}
    assert circles(graph) == [frozenset("abc"), frozenset("ef")]


def test_imports_in_functions_and_of_types_count(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f():\n    import b\nif TYPE_CHECKING:\n    from c import d\n")
    assert imports("a", path, dict.fromkeys("abcd", path)) == {"b", "c"}


def test_no_module_imports_itself_through_others():
    known = modules()
    assert len(known) > 200
    assert circles({name: imports(name, path, known) for name, path in known.items()}) == []


def test_the_adapter_is_a_leaf():
    known = modules()
    inside = {name: path for name, path in known.items() if f"{name}.".startswith(f"{ADAPTER}.")}
    assert inside
    outside = {
        (name, imported)
        for name, path in inside.items()
        for imported in imports(name, path, known)
        if imported.startswith("tg2hdl_backend") and imported not in inside
    }
    assert outside == set()


def distribution(path: Path) -> str:
    return path.as_posix().partition("/packages/")[2].partition("/")[0]


@cache
def face(package: str) -> set[str]:
    """Public names of a package; none of a module."""
    return set(import_module(package).__all__) if modules().get(package) in FACES else set()


def imported_modules(path: Path, known: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Modules of other packages that a module imports, and names that it imports from them."""
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            found = [(node.module or "", alias.name) for alias in node.names if not node.level]
        for module, inner in found:
            if f"{module}.{inner}" in known and inner not in face(module):
                module, inner = f"{module}.{inner}", ""
            if module in known and distribution(known[module]) != distribution(path):
                yield module, inner


def public_modules() -> set[str]:
    """Those of the table in docs/architecture.md."""
    rows = re.findall(
        r"^\| `(tg2hdl\w*)` \| (`.*`) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.M
    )
    assert len(rows) > 5
    return {f"{package}.{module}" for package, cell in rows for module in re.findall(r"`([\w.]+)`", cell)}


def test_imports_of_modules_and_of_names_are_found(tmp_path):
    paths = {"a": "a/a.py", "a.x": "a/x.py", "b": "b/b.py", "b.c": "b/c.py"}
    known = {name: tmp_path / "packages" / path for name, path in paths.items()}
    known["a"].parent.mkdir(parents=True)
    known["a"].write_text(
        "import b.c\ndef f():\n    from b import c, d\nfrom a.x import y\nfrom . import b\n"
    )
    assert list(imported_modules(known["a"], known)) == [("b.c", ""), ("b.c", ""), ("b", "d")]


def test_other_packages_are_imported_through_their_faces_or_public_modules():
    known, listed, used, wrong = modules(), public_modules(), set(), []
    for name, path in known.items():
        for module, inner in imported_modules(path, known):
            package, _, below = module.partition(".")
            if not below:
                continue
            public = {p for p in listed if f"{module}.".startswith(f"{p}.")}
            used |= public
            if inner in face(package) or not public:
                wrong.append(f"{name}: {module} {inner}")
    assert wrong == [], "import the name from the package, or add the module to docs/architecture.md"
    assert listed - used == set(), "modules in docs/architecture.md that no other package imports"

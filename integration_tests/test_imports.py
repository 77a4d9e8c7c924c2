"""No module imports itself through others, not inside a function or for annotations; the tinygrad adapter is a leaf."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "packages").glob("*/src"))
ADAPTER = "tg2hdl_backend.tinygrad_adapter"


def modules() -> dict[str, Path]:
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
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


def declared(tree: ast.Module) -> set[tuple[str, str, str]]:
    """Module, name and name in the package of all that a type checker sees imported."""
    (block,) = (n for n in tree.body if isinstance(n, ast.If))
    return {
        (node.module or "", alias.name, alias.asname or alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_names_that_load_late_are_those_that_type_checkers_see():
    found = 0
    for name, path in modules().items():
        tree = ast.parse(path.read_text())
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "lazy_names"]
        if not calls or not any(isinstance(n, ast.If) for n in tree.body):
            continue
        table = ast.literal_eval(calls[0].args[1])
        late = {
            (f"{name if module.startswith('.') else ''}{module}", *(inner.partition(" as ")[::2]))
            for module, names in table.items()
            for inner in names
        }
        assert {(m, n, a or n) for m, n, a in late} == declared(tree), name
        found += 1
    assert found == 10

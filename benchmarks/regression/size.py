"""Lines of source and tests by package, and the files that a program passes through on its path to hardware.

    python benchmarks/regression/size.py               of the working tree
    python benchmarks/regression/size.py COMMIT        of the working tree, beside those of a commit

Beside a commit, source is told apart by its functions and classes: those that both have by the same name in the same
package, those that are gone, and new ones; their docstrings are counted by themselves.

The path is that of a program with one kernel through `compile_program`: every file of the packages in which a function
is called with the program or one rewritten from it (a `ProgramIR`) as an argument, in the order of the first call; and
how many files are entered with the program or one of its kernels (a `KernelIR`).  A return is a call in a file that had
been left for another one.

Functions without parameters described are those with two or more parameters and without a *Parameters* section, among
the functions and the methods of the classes in `__all__`.  A command does not count, whose docstring is its help, nor a
method that overrides one with this section, nor one type of an overloaded method.

A name that a package imports from another one comes through its face where the package itself is named, not one of its
modules; it is of the face where it is in the package's `__all__`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = """
program gemv
  m0 x: int32[16] input
  m1 w: int32[64,16] weight
  m2 y: int32[64] output
  call 0(m2, m1, m0)
  return m2

kernel gemv
  b0 out: int32[64] output
  b1 w: int32[1024]
  b2 x: int32[16]
  r0: int32
  RANGE i0 < 64 loop
    SET r0 = 0:int32
    RANGE i1 < 16 reduce
      %0 = mul int32 i0, 16:int32
      %1 = add int32 %0, i1
      %2 = LOAD int32 b1[%1]
      %3 = LOAD int32 b2[i1]
      %4 = mul int32 %2, %3
      %5 = GET int32 r0
      %6 = add int32 %5, %4
      SET r0 = %6
    END i1
    %7 = GET int32 r0
    STORE int32 b0[i0] = %7
  END i0
"""


def count_lines(root: Path) -> dict[str, tuple[int, int]]:
    """Lines of Python in the source and in the tests of each package."""
    found = {}
    for package in sorted(p for p in (root / "packages").iterdir() if (p / "src").is_dir()):
        source, tests = (
            sum(len(f.read_text().splitlines()) for f in (package / part).rglob("*.py"))
            for part in ("src", "tests")
        )
        found[package.name] = source, tests
    return found


def count_definitions(root: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """Lines of the functions and classes of each package, by name: without docstrings, and of these."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for package in sorted(p for p in (root / "packages").iterdir() if (p / "src").is_dir()):
        lines = found[package.name] = {}
        for file in (package / "src").rglob("*.py"):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    length, text = _length(node), _docstring_lines(node)
                    code, texts = lines.get(node.name, (0, 0))
                    lines[node.name] = code + length - text, texts + text
    return found


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _docstring_lines(definition: ast.FunctionDef | ast.ClassDef) -> int:
    nodes = [n for n in ast.walk(definition) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return sum(_length(n.body[0]) for n in nodes if ast.get_docstring(n, clean=False) is not None)


def public_names(tree: ast.Module) -> set[str]:
    """Names in `__all__` of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {str(n.value) for n in ast.walk(node.value) if isinstance(n, ast.Constant)}
    return set()


def names_of_stub(path: Path) -> set[str]:
    """Names that a type stub imports for its package."""
    return (
        {line.split()[-1] for line in path.read_text().splitlines() if " as " in line}
        if path.exists()
        else set()
    )


def count_undescribed(root: Path) -> dict[str, tuple[int, int]]:
    """Public functions and methods with two or more parameters, and those without a section about them."""
    trees = {p: ast.parse(p.read_text()) for p in (root / "packages").glob("*/src/**/*.py")}
    classes = {n.name: n for tree in trees.values() for n in tree.body if isinstance(n, ast.ClassDef)}

    def is_described(node: ast.FunctionDef, owner: ast.ClassDef | None) -> bool:
        if "Parameters\n" in (ast.get_docstring(node) or ""):
            return True
        if owner is None:
            return any("click" in ast.unparse(d) for d in node.decorator_list)
        if any(ast.unparse(d) == "overload" for d in node.decorator_list):
            return True
        for base in owner.bases:
            parent = classes.get(ast.unparse(base).partition("[")[0].rpartition(".")[2])
            if parent is not None and parent is not owner:
                same = [m for m in parent.body if isinstance(m, ast.FunctionDef) and m.name == node.name]
                if is_described(same[0] if same else node, parent):
                    return True
        return False

    found = {p.name: [0, 0] for p in sorted((root / "packages").iterdir()) if (p / "src").is_dir()}
    for path, tree in trees.items():
        count, public = found[path.relative_to(root / "packages").parts[0]], public_names(tree)
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name not in public:
                continue
            owner = node if isinstance(node, ast.ClassDef) else None
            for function in [node] if owner is None else owner.body:
                if not isinstance(function, ast.FunctionDef) or (owner and function.name[0] == "_"):
                    continue
                a = function.args
                names = [
                    x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs) if x.arg not in ("self", "cls")
                ]
                if len(names) > 1:
                    count[0] += 1
                    count[1] += not is_described(function, owner)
    return {name: (all_of, without) for name, (all_of, without) in found.items()}


def count_structure(root: Path) -> dict[str, Any]:
    """Sizes of files, classes whose name another module's class has, and imports from other packages."""
    sources = list(root.glob("packages/*/src/*/"))
    faces = {
        source.name: public_names(ast.parse(face.read_text())) | names_of_stub(source / "__init__.pyi")
        for source in sources
        if (face := source / "__init__.py").exists()
    }
    sizes, classes = [], []
    through, of_face, total = 0, 0, 0
    for source in sources:
        for file in source.rglob("*.py"):
            text = file.read_text()
            sizes.append(len(text.splitlines()))
            tree = ast.parse(text)
            classes += [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
            for node in ast.walk(tree):
                if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                    continue
                package = node.module.partition(".")[0]
                if package not in faces or package == source.name:
                    continue
                total += len(node.names)
                through += len(node.names) * (node.module == package)
                of_face += sum(name.name in faces[package] for name in node.names)
    return {
        "files": len(sizes),
        "median": statistics.median(sizes),
        "below_60": sum(n < 60 for n in sizes),
        "above_500": sum(n > 500 for n in sizes),
        "repeated_classes": sorted({name for name in classes if classes.count(name) > 1}),
        "imported": total,
        "through_faces": through,
        "of_faces": of_face,
    }


def follow_program() -> dict[str, Any]:
    """Files that the program enters, and returns to files, in the packages that this process imports."""
    import numpy as np

    from tg2hdl_ir import KernelIR, ProgramIR, parse_program
    from tg2hdl_top import CompileOptions, compile_program

    program = parse_program(PROGRAM, {"w": np.ones((64, 16), np.int32)})
    stays: list[str] = []
    with_kernels: list[str] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or f"{os.sep}packages{os.sep}" not in code.co_filename:
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if code.co_name.startswith("__"):
            return
        given = [frame.f_locals.get(name) for name in names]
        for found, kinds in ((stays, ProgramIR), (with_kernels, (ProgramIR, KernelIR))):
            if any(isinstance(value, kinds) for value in given) and found[-1:] != [code.co_filename]:
                found.append(code.co_filename)

    sys.setprofile(watch)
    try:
        compile_program(program, CompileOptions(multipliers=4))
    finally:
        sys.setprofile(None)
    files, all_files = dict.fromkeys(stays), dict.fromkeys(with_kernels)
    return {
        "files": [Path(*Path(file).parts[-2:]).as_posix() for file in files],
        "returns": len(stays) - len(files),
        "with_kernels": len(all_files),
        "returns_with_kernels": len(with_kernels) - len(all_files),
    }


def measure(root: Path) -> dict[str, Any]:
    """Lines and path of a checkout, whose packages are imported in a process of their own."""
    sources = os.pathsep.join(str(p / "src") for p in sorted((root / "packages").iterdir()))
    result = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--follow"],
        env={**os.environ, "PYTHONPATH": sources},
        capture_output=True,
        text=True,
    )
    path = json.loads(result.stdout) if not result.returncode else {"error": result.stderr.strip()[-300:]}
    return {
        "lines": count_lines(root),
        "definitions": count_definitions(root),
        "undescribed": count_undescribed(root),
        "structure": count_structure(root),
        "path": path,
    }


def print_table(now: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Markdown: one row for each package; figures of the commit first."""
    columns = [m for m in (before, now) if m is not None]
    print("| package |" + "".join(f" source {w} | tests {w} |" for w in ("before", "now")[-len(columns) :]))
    print("|---|" + "---|---|" * len(columns))
    packages = sorted(set().union(*(m["lines"] for m in columns)))
    for package in packages:
        cells = (m["lines"].get(package, (0, 0)) for m in columns)
        print(f"| {package} |" + "".join(f" {source:,} | {tests:,} |" for source, tests in cells))
    totals = ([sum(pair) for pair in zip(*m["lines"].values(), strict=True)] for m in columns)
    print("| all |" + "".join(f" {source:,} | {tests:,} |" for source, tests in totals))
    for name, measured in (("before", before), ("now", now)):
        if measured is not None:
            path = measured["path"]
            print(f"\nfiles on the path of the program, {name}: ", end="")
            if "error" in path:
                print(f"not measured: {path['error']}")
            else:
                print(f"{len(path['files'])}, {path['returns']} returns ({', '.join(path['files'])})")
                print(
                    f"with its kernels: {path['with_kernels']} files, {path['returns_with_kernels']} returns"
                )
            s = measured["structure"]
            print(
                f"files, {name}: {s['files']}, median {s['median']:g} lines, {s['below_60']} below 60, "
                f"{s['above_500']} above 500"
            )
            repeated = ", ".join(s["repeated_classes"])
            print(f"class names of several modules, {name}: {len(s['repeated_classes'])} ({repeated})")
            print(
                f"names imported from other packages, {name}: {s['imported']:,}, "
                f"{s['through_faces']:,} through faces, {s['of_faces']:,} of faces"
            )
            counts = measured["undescribed"]
            total, without = map(sum, zip(*counts.values(), strict=True))
            listed = ", ".join(f"{package} {n}" for package, (_, n) in counts.items() if n)
            print(f"functions without parameters described, {name}: {without:,} of {total:,} ({listed})")


def print_definitions(
    now: dict[str, dict[str, tuple[int, int]]], before: dict[str, dict[str, tuple[int, int]]]
) -> None:
    """Markdown: lines of functions and classes that stayed, are gone, and are new."""
    columns = ("same name, before", "now", "gone", "new")
    for title, part in (("code", 0), ("docstrings", 1)):
        print(f"\n| {title} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        total = [0] * len(columns)
        for package, lines in now.items():
            earlier = before.get(package, {})
            row = [
                sum(earlier[n][part] for n in earlier if n in lines),
                sum(lines[n][part] for n in lines if n in earlier),
                sum(earlier[n][part] for n in earlier if n not in lines),
                sum(lines[n][part] for n in lines if n not in earlier),
            ]
            total = [a + b for a, b in zip(total, row, strict=True)]
            print(f"| {package} | {' | '.join(f'{n:,}' for n in row)} |")
        print(f"| all | {' | '.join(f'{n:,}' for n in total)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        print(json.dumps(follow_program()))
        return
    before = None
    if arguments.commit:
        with tempfile.TemporaryDirectory() as directory:
            archive = subprocess.run(
                ["git", "archive", arguments.commit, "packages"], cwd=ROOT, check=True, capture_output=True
            )
            subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
            before = measure(Path(directory))
    now = measure(ROOT)
    print_table(now, before)
    if before is not None:
        print_definitions(now["definitions"], before["definitions"])


if __name__ == "__main__":
    main()

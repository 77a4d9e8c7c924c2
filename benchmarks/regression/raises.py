"""Errors that are raised, and which of their texts no test names.

    python benchmarks/regression/raises.py                     counts by package
    python benchmarks/regression/raises.py tg2hdl-lower        also the errors without a test, by file and line

An error is a call of a class whose name ends with Error, or of the registry's `fault`, with literal text in it.  Its
texts are the message, the hint and each note.  A test names a text if one of its strings has all literal pieces of the
text, in order.  Assertions are left out: no program reaches them.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_VALUE = "\0"
"""Stands for a value between the literal pieces of a text."""


@dataclass(frozen=True)
class Error:
    """An error in the source, and its texts, with a placeholder for each value in them."""

    path: Path
    line: int
    name: str
    texts: tuple[str, ...]


def texts_of(node: ast.expr) -> list[str]:
    """The literal texts of an expression, with a placeholder for each value in them: several of a tuple or a choice."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(v.value if isinstance(v, ast.Constant) else _VALUE for v in node.values)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = texts_of(node.left) or [_VALUE], texts_of(node.right) or [_VALUE]
        return [first + second for first in left for second in right]
    if isinstance(node, ast.IfExp):
        return texts_of(node.body) + texts_of(node.orelse)
    if isinstance(node, ast.Tuple):
        return [text for element in node.elts for text in texts_of(element)]
    return []


def errors_of(path: Path) -> Iterator[Error]:
    """Errors of a source file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "AssertionError" or not (name.endswith("Error") or name == "fault"):
            continue
        given = node.args[:1] if name != "fault" else node.args[1:2]
        given += [k.value for k in node.keywords if k.arg in ("hint", "notes")]
        texts = [text for value in given for text in texts_of(value) if text.replace(_VALUE, "").strip()]
        if texts:
            yield Error(path, node.lineno, name, tuple(texts))


@cache
def tested_texts() -> tuple[str, ...]:
    """All strings of all tests, without the backslashes of regular expressions, and all expected outputs."""
    folders = [*ROOT.glob("packages/*/tests"), ROOT / "integration_tests", ROOT / "examples"]
    found: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            tree = ast.parse(path.read_text())
            found |= {text.replace("\\", "") for node in ast.walk(tree) for text in _string(node)}
        for suffix in ("expect", "txt"):
            found |= {path.read_text() for path in folder.rglob(f"*.{suffix}")}
    return tuple(found)


def _string(node: ast.AST) -> list[str]:
    return texts_of(node) if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) else []


def untested(error: Error) -> list[str]:
    """Texts of an error that no test names."""
    return [text for text in error.texts if not _is_named(text)]


@cache
def _is_named(text: str) -> bool:
    pieces = [piece.replace("\\", "") for piece in text.split(_VALUE)]
    longest = max(pieces, key=len)
    pattern = re.compile(".*?".join(map(re.escape, pieces)), re.DOTALL)
    return any(longest in tested and pattern.search(tested) for tested in tested_texts())


def main(packages: Iterable[str] = ()) -> None:
    """Print counts of all packages, and the errors without tests of those that are named."""
    print(f"{'package':18}{'errors':>8}{'untested':>10}")
    for folder in sorted((ROOT / "packages").iterdir()):
        errors = [error for path in sorted(folder.glob("src/**/*.py")) for error in errors_of(path)]
        left = [(error, texts) for error in errors if (texts := untested(error))]
        print(f"{folder.name:18}{len(errors):8}{len(left):10}")
        if folder.name in packages:
            for error, texts in left:
                print(f"  {error.path.relative_to(ROOT)}:{error.line} {error.name}")
                print(*(f"    {text.replace(_VALUE, '...')}" for text in texts), sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", nargs="*")
    main(parser.parse_args().package)

"""The front end of Python files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tg2hdl_ir import InputError, Tg2hdlError

__all__ = ["load_file", "run_file"]


def load_file(path: Path, name: str, examples: object) -> tuple[Callable[..., Any], tuple[Any, ...] | None]:
    """Run a file and take its model and ``example_inputs``: `FrontEndDef.load`.

    Parameters
    ----------
    path : Path
    name : str
        Of the function or object in the file.
    examples : object
        Not used: the file has its own.

    Raises
    ------
    InputError
        For a file that cannot be run, or that does not define the name.
    """
    module = run_file(path)
    if not hasattr(module, name):
        found = ", ".join(sorted(n for n, v in vars(module).items() if _is_candidate(v, module.__name__)))
        raise InputError(
            f"{path.name} defines no {name!r}",
            where=str(path),
            hint=f"name one of: {found}, as in {path.name}:NAME"
            if found
            else "define a function `model(x)` in it",
        )
    model = getattr(module, name)
    if not callable(model):
        raise InputError(
            f"{name!r} in {path.name} is of type {type(model).__name__}, which cannot be called",
            where=str(path),
            hint="name a function of Tensors, or an object with __call__",
        )
    declared: Any = getattr(module, "example_inputs", None)
    if declared is not None and not isinstance(declared, tuple | list):
        raise InputError(
            f"example_inputs in {path.name} is of type {type(declared).__name__}",
            where=str(path),
            hint="make it a tuple with one array per parameter of the model",
        )
    return model, None if declared is None else tuple(declared)


def run_file(path: Path) -> ModuleType:
    """Run a Python file as a module, with its folder on the import path meanwhile.

    Raises
    ------
    InputError
        When it fails; the line is named.
    """
    name = f"tg2hdl_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(
            f"{path.name} is not a Python file", where=str(path), hint="give a file that ends in .py"
        )
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Tg2hdlError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too
        raise InputError(
            f"{path.name} failed: {type(error).__name__}: {error}",
            where=f"{path}, line {_line_in(error, path)}",
            hint=f"run it with Python first: python {path}",
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _line_in(error: BaseException, path: Path) -> int | str:
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    line: int | str = "?"
    frame = error.__traceback__
    while frame is not None:
        if Path(frame.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _is_candidate(value: Any, module: str) -> bool:
    """Whether a value looks like a model: a function of the file, or an object of a class of the file."""
    if isinstance(value, type):
        return False
    home = getattr(value, "__module__", None) or type(value).__module__
    return callable(value) and module in (home, type(value).__module__)

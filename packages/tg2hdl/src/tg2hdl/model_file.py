"""Models in Python and ONNX files: what ``tg2hdl compile FILE[:NAME]`` reads."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tg2hdl.quantization import integer_model
from tg2hdl.quantized_file import load_quantized
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, Tg2hdlError, ToolMissingError, UnsupportedError

__all__ = ["ModelFile", "load_model_file", "parse_input", "run_file"]

_SPEC = re.compile(r"(?P<path>.+?)(?::(?P<name>[A-Za-z_]\w*))?$")
_INPUT = re.compile(r"(?P<dtype>\w+):(?P<shape>\d+(x\d+)*|scalar)$")


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model from a file.

    Parameters
    ----------
    path : Path
    name : str
        Name of the model in the file.
    model : callable
    example_inputs : tuple or None
        What the file calls ``example_inputs``, or zeros for the inputs of an ONNX graph; None without.
    """

    path: Path
    name: str
    model: Callable[..., Any]
    example_inputs: tuple[Any, ...] | None = None

    @property
    def label(self) -> str:
        """Name for files and reports: the file's, and the model's unless that is ``model``."""
        return self.path.stem if self.name == "model" else f"{self.path.stem}_{self.name}"


def load_model_file(
    spec: str,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    fixed: Mapping[str, Any] | None = None,
    keep_float: bool = False,
    examples: Sequence[Any] | Mapping[str, Any] = (),
    limit: int | None = None,
) -> ModelFile:
    """Run a Python file and take its model, or read an ONNX file.

    An ONNX file with quantizers becomes a model of integers; what has no integer form, such as a quantizer whose scale
    is an input, stays in float and is named by ``in_float`` of the model's report, or of the model.

    Parameters
    ----------
    spec : str
        ``FILE`` or ``FILE:NAME``; the name is ``model`` unless given.  ONNX files end in ``.onnx``.
    batch : int, optional
        Size of the first dimension of an ONNX file's inputs, where it is symbolic.
    dims : mapping of str to int, optional
        Sizes of symbolic dimensions of an ONNX file, by name or by ``INPUT.AXIS``, which goes first.
    fixed : mapping of str to array, optional
        Inputs of an ONNX file that become constants.
    keep_float : bool
        Leave the quantizers of an ONNX file the float operations that they are defined by.
    examples : arrays, or mapping of str to array
        Example inputs in their order or by name, whose shapes give sizes to the symbolic dimensions of an ONNX file.
    limit : int, optional
        Most elements of a result in an ONNX file, 2**28 unless given; a trip of a loop or a node of a function counts
        as 4096.

    Raises
    ------
    InputError
        For a file that is missing or fails, a name that is not in it or cannot be called, or
        ``example_inputs`` that is not a tuple or list; or a symbolic dimension without a size.
    """
    match = _SPEC.match(spec)
    if match is None:
        raise InputError("no model file given", hint="give FILE or FILE:NAME, e.g. model.py:model")
    path, name = Path(match["path"]), match["name"] or "model"
    if not path.is_file():
        raise InputError(
            f"no file {str(path)!r}",
            hint="name a model, e.g. net.onnx or model.py:model",
        )
    if path.suffix == ".npz":
        quantized = load_quantized(path)
        examples = tuple(np.zeros(s.shape, s.dtype.numpy()) for s in quantized.inputs)
        return ModelFile(path, "model", quantized, examples)
    if path.suffix == ".onnx":
        return _load_onnx(path, batch, dims, fixed, keep_float, examples, limit)
    if batch is not None or dims or fixed or limit is not None:
        raise InputError(
            f"{path.name} is no ONNX file, which --batch, --dim, --fix and --limit are for",
            where=str(path),
            hint="give the shapes of a Python model with --input or `example_inputs`",
        )
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
    return ModelFile(path, name, model, None if declared is None else tuple(declared))


def _load_onnx(
    path: Path,
    batch: int | None,
    dims: Mapping[str, int] | None,
    fixed: Mapping[str, Any] | None,
    keep_float: bool,
    examples: Sequence[Any] | Mapping[str, Any],
    limit: int | None,
) -> ModelFile:
    if importlib.util.find_spec("onnx") is None:
        raise ToolMissingError(
            f"reading {path.name} needs the package onnx",
            where=str(path),
            hint='pip install "tg2hdl[onnx]"',
        )
    from tg2hdl_backend import OnnxModel

    given = {} if limit is None else {"limit": limit}
    model = OnnxModel(path, batch=batch, dims=dims, fixed=fixed, examples=examples, **given)
    if keep_float or not _has_quantizers(model.operators):
        return ModelFile(path, "model", model, model.example_inputs())
    if "DynamicQuantizeLinear" in model.operators:
        model.in_float = ("all of it: DynamicQuantizeLinear computes scales from the data of each run",)
        return ModelFile(path, "model", model, model.example_inputs())
    try:
        quantized = integer_model(model)
    except (InputError, UnsupportedError) as error:
        # Float is what the file defines; the summary says why.
        model.in_float = model.float_quantizers or (f"all of it: {error.message}",)
        return ModelFile(path, "model", model, model.example_inputs())
    return ModelFile(
        path, "model", quantized, tuple(np.zeros(s.shape, s.dtype.numpy()) for s in quantized.inputs)
    )


def _has_quantizers(operators: Iterable[str]) -> bool:
    """Whether a file has codes."""
    known = (
        "DynamicQuantizeLinear",
        "QuantizeLinear",
        "DequantizeLinear",
        "QGemm",
        "Quant",
        "IntQuant",
        "BipolarQuant",
        "Trunc",
    )
    return any(o in known or o.startswith("QLinear") for o in operators)


def parse_input(text: str) -> np.ndarray:
    """Zeros of a shape and dtype given as ``DTYPE:AxBxC`` or ``DTYPE:scalar``.

    Raises
    ------
    InputError
        For another form, or a dtype that hardware has not.
    """
    match = _INPUT.match(text)
    if match is None:
        raise InputError(
            f"input {text!r} is not of the form DTYPE:SHAPE", hint="e.g. int8:1x784 or fp32:1x3x32x32"
        )
    name = _ALIASES.get(match["dtype"], match["dtype"])
    if name not in _DTYPES:
        raise InputError(f"input {text!r}: unknown dtype {name!r}", hint="known: " + ", ".join(_DTYPES))
    dtype = DType.from_name(name).numpy()
    shape: Sequence[int] = () if match["shape"] == "scalar" else [int(n) for n in match["shape"].split("x")]
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(
            f"input {text!r} has {math.prod(shape):,} elements", hint=f"give at most {_MOST_ELEMENTS:,}"
        )
    return np.zeros(shape, dtype=dtype)


_MOST_ELEMENTS = 1 << 28
"""Elements of an input; the largest FPGAs hold a tenth of it."""
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("fp16", "bf16", "fp32", "fp64", "fp8_e4m3", "fp8_e5m2"),
)
_ALIASES = {
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "float64": "fp64",
    "double": "fp64",
}


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
            hint=f"run it alone first: python {path}",
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

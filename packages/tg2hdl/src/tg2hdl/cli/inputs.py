"""Inputs of runs and samples, from files of numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tg2hdl.accelerator import Accelerator
from tg2hdl.cli.families import complete_file
from tg2hdl.model_file import ModelFile
from tg2hdl.random_inputs import random_inputs
from tg2hdl_backend import example_values
from tg2hdl_backend.arguments import in_input_order
from tg2hdl_host import UnfitInputError
from tg2hdl_host.arrays import read_numpy
from tg2hdl_ir import InputError

__all__ = ["in_order", "load_set", "read_arrays", "read_file", "run_inputs", "with_input_options"]


def with_input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--data``, ``--seed`` and ``--variable``, which `run_inputs` takes."""
    for option in (
        click.option(
            "--variable",
            "variables",
            multiple=True,
            metavar="NAME=VALUE",
            help="Value of a run-time variable, which the model was compiled with as a bound Variable.  "
            "[default: the value it was bound to]",
        ),
        click.option("--seed", type=click.IntRange(0), help="Random inputs of this seed."),
        click.option(
            "--data",
            multiple=True,
            metavar="FILE",
            help="Contents of an input (.npy), once per parameter; or of all inputs by name (.npz).  "
            "[default: the values of `example_inputs`]",
            shell_complete=complete_file,
        ),
    ):
        function = option(function)
    return function


def run_inputs(
    file: ModelFile,
    examples: tuple[Any, ...],
    accelerator: Accelerator,
    data: tuple[str, ...],
    seed: int | None,
    console: Console,
    variables: tuple[str, ...] = (),
) -> tuple[Any, ...]:
    """Inputs of a run, with the values of variables as one dict; says on `console` where they are from.

    They are those of ``--data``, or random where ``--seed`` is given, or the values of the file's ``example_inputs``.
    Where these are all zeros, which only give shapes, and where a tensor has no contents, they are random with seed 0.
    The file of ``--data`` may have values of variables too.

    Parameters
    ----------
    file : ModelFile
    examples : tuple of
    accelerator : Accelerator
    data : tuple of str
        Files of ``--data``.
    seed : int or None
        Of ``--seed``.
    console : Console
    variables : tuple of str, optional
        ``NAME=VALUE`` of ``--variable``.
    """
    if data and seed is not None:
        raise InputError(
            "--data cannot be combined with --seed, which is for random inputs", hint="leave one of them out"
        )
    values: dict[str, Any] = {}
    if data:
        arrays, values = _split(data[0], accelerator) if len(data) == 1 else (tuple(map(_one, data)), {})
        arrays = _typed(arrays, accelerator)
        _say_inputs(console, ", ".join(data))
    else:
        arrays = _example_arrays(file, examples, accelerator, seed, console)
    return _with_values(accelerator, arrays, values | dict(map(_named_value, variables)))


def _example_arrays(
    file: ModelFile,
    examples: tuple[Any, ...],
    accelerator: Accelerator,
    seed: int | None,
    console: Console,
) -> tuple[np.ndarray, ...]:
    """The example inputs, random where `seed` is given or they have no contents."""
    arrays = random_inputs(accelerator.captured.inputs, seed or 0)
    drawn = f"random, seed {seed or 0}"
    if seed is not None or examples is not file.declared:
        _say_inputs(console, drawn)
        return arrays
    declared = f"example_inputs of {file.path.name}"
    values = example_values(examples)
    known = [value for value in values if value is not None]
    if not any(map(np.any, known)):
        _say_inputs(console, f"{drawn} ({declared} has no values but zeros)")
        return arrays
    empty = "" if len(known) == len(values) else f"; {drawn} for tensors without contents"
    _say_inputs(console, declared + empty)
    return tuple(a if v is None else v for a, v in zip(arrays, values, strict=True))


def _say_inputs(console: Console, source: str) -> None:
    console.print(f"inputs: {source}", highlight=False, markup=False, soft_wrap=True)


def _named_value(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name, int(value, 0)
    except ValueError:
        raise InputError(
            f"--variable {text!r} is not of the form NAME=VALUE", hint="e.g. --variable pos=7"
        ) from None


def _split(path: str, accelerator: Accelerator) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
    """Arrays of the inputs in a file, and values of variables by name."""
    found = read_file(path)
    values: dict[str, Any] = {}
    if isinstance(found, dict):
        own = {name: found[name] for name in accelerator.captured.variables if name in found}
        found = {name: array for name, array in found.items() if name not in own}
        values = {name: array.item() if array.size == 1 else array for name, array in own.items()}
    return in_order(path, found, [spec.name for spec in accelerator.inputs]), values


def _with_values(
    accelerator: Accelerator, arrays: Sequence[np.ndarray], values: dict[str, Any]
) -> tuple[Any, ...]:
    """Arguments of a run: arrays, or all by name where variables have values."""
    if not values:
        return tuple(arrays)
    accelerator.bind(*arrays)
    accelerator.values(**values)
    return ({**{spec.name: a for spec, a in zip(accelerator.inputs, arrays, strict=True)}, **values},)


def load_set(path: str, accelerator: Accelerator) -> list[tuple[Any, ...]]:
    """Inputs of many runs, as `read_arrays` takes them; the first axis of each array counts the runs.

    The file may have values of variables too, an integer for each run.

    Parameters
    ----------
    path : str
        ``.npz`` with an array for each input by name, or ``.npy``.
    accelerator : Accelerator

    Raises
    ------
    InputError
        For other shapes or names.
    """
    specs = accelerator.inputs
    arrays, values = _split(path, accelerator)
    arrays = _typed(arrays, accelerator)
    shapes = [array.shape for array in arrays]
    fits = [s[1:] for s in shapes] == [tuple(spec.shape) for spec in specs]
    if not fits or len({shape[:1] for shape in shapes}) != 1 or not shapes[0][0]:
        wanted = ", ".join(f"{spec.name} {('runs', *spec.shape)}".replace("'", "") for spec in specs)
        raise InputError(
            f"{path} has the shapes {', '.join(map(str, shapes))}",
            where=accelerator.name,
            hint=f"give an array per input, whose first axis counts the runs: {wanted}",
        )
    runs = shapes[0][0]
    columns = {name: np.atleast_1d(column) for name, column in values.items()}
    for name, column in columns.items():
        if column.shape != (runs,):
            raise InputError(
                f"{path} has {column.shape} values of variable {name!r} for {runs} runs",
                where=accelerator.name,
                hint="give one integer for each run",
            )
    return [
        _with_values(accelerator, each, {name: column[n].item() for name, column in columns.items()})
        for n, each in enumerate(zip(*arrays, strict=True))
    ]


def read_arrays(path: str, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Arrays of a file in the order of a model's inputs.

    Parameters
    ----------
    path : str
        An ``.npz`` file with an array per input, see `in_input_order`, or an ``.npy`` file for a single input.
    names : sequence of str
        Of the inputs.

    Raises
    ------
    InputError
        For a file that is missing or not of numpy, or arrays that are not those of the inputs.
    """
    return in_order(path, read_file(path), names)


def in_order(
    path: str, found: dict[str, np.ndarray] | tuple[np.ndarray, ...], names: Sequence[str]
) -> tuple[np.ndarray, ...]:
    """The arrays that `read_file` read from `path`, in the order of the inputs.

    Parameters
    ----------
    path : str
        Named in errors.
    found : dict of str to ndarray or tuple of ndarray
    names : sequence of str
        Of the inputs.

    Raises
    ------
    InputError
        For other inputs.
    """
    if isinstance(found, dict):
        return in_input_order(found, names, path)
    if len(names) != 1:
        raise InputError(
            f"{path} has one array, the model has {len(names)} inputs",
            where=path,
            hint=f"write all with numpy.savez(FILE, {', '.join(f'{name}=...' for name in names)})"
            if names
            else "leave it out",
        )
    return found


def _typed(arrays: Sequence[np.ndarray], accelerator: Accelerator) -> tuple[np.ndarray, ...]:
    """Bytes without a type, as numpy's files have them for bfloat16 and float8, in the types of the inputs."""
    found = []
    for number, array in enumerate(arrays):
        dtype = (
            accelerator.inputs[number].code_dtype.numpy() if number < len(accelerator.inputs) else array.dtype
        )
        is_bytes = array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize
        found.append(array.view(dtype) if is_bytes and not array.dtype.names else array)
    return tuple(found)


def _one(path: str) -> np.ndarray:
    found = read_file(path)
    if isinstance(found, dict):
        raise InputError(
            f"{path} has arrays by name, and another file is given",
            where=path,
            hint="give one .npz file, or one .npy file per input",
        )
    return found[0]


def read_file(path: str) -> dict[str, np.ndarray] | tuple[np.ndarray, ...]:
    """The one array of an ``.npy`` file, or those of an ``.npz`` file by name.

    Raises
    ------
    InputError
        For a file that is missing or not of numpy.
    """
    if not Path(path).is_file():
        raise InputError(f"no file {path!r}", hint="give a file that numpy.save wrote")
    try:
        found = read_numpy(path)
        return found if isinstance(found, dict) else (found,)
    except UnfitInputError as error:
        raise InputError(error.message, hint=error.hint) from None

"""A front end: a matrix in a ``.csv`` file is a layer with these weights, and an option makes it wider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from tg2hdl_ir import FrontEndDef, InputError, hookimpl


class MatrixModel:
    """The model: tinygrad's tensors in and out."""

    output_names = ("y",)

    def __init__(self, path: Path, repeats: int) -> None:
        from tinygrad import Tensor

        from tg2hdl_backend import TensorSpec
        from tg2hdl_ir import DType

        text = path.read_text(errors="replace")
        try:
            weights = np.array(
                [line.split(",") for line in text.splitlines() if not line.startswith("#")], np.float32
            )
        except ValueError as error:
            raise InputError(
                f"{path.name} is not a matrix: {error}", where=str(path), hint="give rows of numbers"
            ) from None
        if weights.ndim != 2:
            raise InputError(f"{path.name} has no rows", where=str(path), hint="give rows of numbers")
        self.__name__ = path.stem
        self.inputs = (TensorSpec("x", (1, len(weights)), DType.FP32),)
        self.input_names = ("x",)
        self.weight = Tensor(np.tile(weights, repeats))

    def __call__(self, x: Any) -> Any:
        """The product with the matrix."""
        return x @ self.weight


def load(path: Path, name: str, examples: Any, repeats: int = 1) -> tuple[MatrixModel, None]:
    """The model, and its example inputs: none, since it declares shapes."""
    return MatrixModel(path, repeats), None


def command_options() -> list[click.Option]:
    """The option on the command line."""
    return [
        click.Option(["--repeats"], type=click.IntRange(1), help="How often to repeat a CSV file's columns.")
    ]


@hookimpl
def tg2hdl_frontends() -> list[FrontEndDef]:
    """For ``tg2hdl compile layer.csv --repeats 2`` and ``tg2hdl.compile("layer.csv", repeats=2)``."""
    return [
        FrontEndDef(
            "matrix",
            "matrices in CSV files",
            (".csv",),
            load,
            sniff=lambda head: head.startswith(b"# matrix"),
            options=("repeats",),
            command_options=command_options,
        )
    ]

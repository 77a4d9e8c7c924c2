"""``tg2hdl compile``: a model file to Verilog, RTLIL and a plan."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from tg2hdl.accelerator import Accelerator
from tg2hdl.cli.common import compile_file, kernel_table, output_folder, stage, with_model_options
from tg2hdl_backend import TensorSpec

__all__ = ["compile_command"]

_EPILOG = """\b
Examples:
  tg2hdl compile model.py                        the object `model`, shapes from `example_inputs`
  tg2hdl compile model.py:net --input int8:1x784 another name, and a shape
  tg2hdl compile net.onnx --batch 1              an ONNX file with a symbolic batch
  tg2hdl compile model.py --multipliers 16 --weights loadable -o build/fast
"""


@click.command("compile", epilog=_EPILOG)
@with_model_options
@click.option("-o", "--output", metavar="FOLDER", help="Where to write.  [default: build/NAME]")
def compile_command(
    output: str | None,
    **model_options: Any,
) -> None:
    """Compile a model to Verilog and RTLIL.

    FILE is a Python file that defines NAME (`model` unless given): a function of tinygrad Tensors, or an
    object with __call__; or it is an ONNX file. Writes Verilog, RTLIL, the plan as text and as JSON, and
    prints the cycles of each kernel.
    """
    console = Console()
    with stage(console, f"compiling {model_options['model']}"):
        file, _, accelerator = compile_file(**model_options)
    console.print(
        kernel_table(accelerator, f"{file.label}: {accelerator.predicted_cycles:,} cycles from start to done")
    )
    for kernel in accelerator.kernels:
        for note in kernel.notes:
            console.print(f"{kernel.name}: {note}", highlight=False)
    folder = output_folder(output, file.label)
    with stage(console, "writing"):
        accelerator.verilog(folder / f"{file.label}.v")
        accelerator.rtlil(folder / f"{file.label}.il")
        (folder / f"{file.label}.plan").write_text(accelerator.plan() + "\n")
        (folder / f"{file.label}.json").write_text(json.dumps(_summary(accelerator), indent=2) + "\n")
    for suffix in ("v", "il", "plan", "json"):
        console.print(f"wrote {folder / file.label}.{suffix}", highlight=False)


def _summary(accelerator: Accelerator) -> dict[str, object]:
    return {
        "name": accelerator.name,
        "predicted_cycles": accelerator.predicted_cycles,
        "inputs": [_tensor(s) for s in accelerator.captured.inputs],
        "outputs": [_tensor(s) for s in accelerator.captured.outputs],
        "kernels": [asdict(k) | {"ratio": k.ratio} for k in accelerator.kernels],
    }


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.dtype)}

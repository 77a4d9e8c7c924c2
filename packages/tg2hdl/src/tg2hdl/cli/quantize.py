"""``tg2hdl quantize``: a float model and samples to an integer model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tg2hdl.cli.common import ModelCommand, load_file, stage
from tg2hdl.cli.families import completes
from tg2hdl.cli.inputs import in_order, read_arrays, read_file
from tg2hdl.cli.output import consoles, with_json, write_json
from tg2hdl.model_file import ModelFile
from tg2hdl.quantization import first_samples, quantize
from tg2hdl.width_search import WidthSearch, search_widths
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_ir import FrontEndDef, InputError, registry
from tg2hdl_ir.files import write_file
from tg2hdl_quant.graph import ACTIVATIONS, REQUANTIZATIONS

__all__ = ["quantize_command"]

_EPILOG = """\b
Examples:
  tg2hdl quantize net.onnx --samples x.npz                       writes net.q.npz and net.q.json
  tg2hdl quantize net.onnx --samples x.npy --labels y.npy --weight-bits 4 -o net4.q.npz
  tg2hdl compile net.q.npz --multipliers 64                      integer hardware
  tg2hdl quantize net.onnx --samples x.npz -o net.q.onnx         a file that ONNX Runtime runs too
  tg2hdl quantize net.py --samples x.npy --search --plot f.html  accuracy against cost for widths by layer
"""


@click.command("quantize", cls=ModelCommand, epilog=_EPILOG)
@click.argument("model", metavar="FILE[:NAME]")
@click.option(
    "--samples",
    required=True,
    metavar="FILE",
    help="Inputs, the first axis counts samples: .npy, or .npz with one array per input, by name.",
)
@click.option(
    "--no-batch",
    is_flag=True,
    help="Samples are whole inputs: no batch axis of size 1 is put in front, as for recurrent states.",
)
@click.option(
    "--sequences",
    is_flag=True,
    help="Samples are the steps of one sequence, in order: the state of the model is carried from each to the next.",
)
@click.option("--labels", metavar="FILE", help="Correct class of each sample (.npy), for accuracies.")
@click.option("--bits", type=int, default=8, show_default=True, help="Width of activations and weights.")
@click.option("--weight-bits", type=int, help="Width of weights.  [default: --bits]")
@click.option(
    "--layer-bits",
    multiple=True,
    metavar="LAYER=BITS",
    help="Width of the weights of one layer; once per layer.",
)
@click.option(
    "--float",
    "float_layers",
    multiple=True,
    metavar="NAME",
    help="Compute a layer, or a method such as softmax, in float; once per name.",
)
@click.option("--allow-float", is_flag=True, help="Compute what has no integer form in float.")
@click.option("--per-tensor", is_flag=True, help="One scale for the weights of a layer.")
@click.option(
    "--group", type=int, help="A scale for each group of this many weights along the axis that is summed."
)
@click.option("--calibration", default="minmax", show_default=True, help="Method that chooses ranges.")
@click.option(
    "--requantization",
    type=click.Choice(REQUANTIZATIONS),
    help="Scales that are powers of two, or any.  [default: shift; multiplier below 6 bits]",
)
@click.option(
    "--rounding",
    metavar="NAME",
    shell_complete=completes("tg2hdl_roundings"),
    help="How sums become codes; `tg2hdl plugins list --kind rounding` shows all.  [default: half_up]",
)
@click.option(
    "--weight-rounding", default="nearest", show_default=True, help="Method that chooses codes of weights."
)
@click.option(
    "--activations",
    type=click.Choice(ACTIVATIONS),
    default="symmetric",
    show_default=True,
    help="affine: tensors with negative values have a zero point where only layers with weights read them.",
)
@click.option("--equalization", metavar="METHOD", help="Balance the channels between layers: cross-layer.")
@click.option(
    "--search", is_flag=True, help="Search widths of weights by layer, and print a table; writes no model."
)
@click.option(
    "--multipliers", type=click.IntRange(1), help="With --search: hardware multipliers of the designs."
)
@click.option("--plot", metavar="FILE", help="With --search: quality against costs, as HTML.")
@click.option(
    "-o", "--output", metavar="FILE", help="Quantized model, or the table as JSON.  [default: NAME.q.npz]"
)
@with_json
def quantize_command(
    model: str,
    samples: str,
    no_batch: bool,
    sequences: bool,
    file_options: dict[str, Any],
    labels: str | None,
    per_tensor: bool,
    layer_bits: tuple[str, ...],
    search: bool,
    multipliers: int | None,
    plot: str | None,
    output: str | None,
    json_file: str | None,
    **options: Any,
) -> None:
    """Quantize a float model to integers, calibrated on samples.

    FILE is a Python or an ONNX file or one that a plugin reads, as for `compile`. Prints what each layer and the whole
    cost, and writes a model that `tg2hdl compile` and `tg2hdl simulate` take: .npz, or from an ONNX file .onnx, with
    which ONNX Runtime gives the same results.
    """
    console, progress = consoles(json_file)
    options["layers"] = dict(_layer_width(text) for text in layer_bits)
    batched = not no_batch
    given = read_file(samples)
    if options["rounding"] is None:
        del options["rounding"]
    options["per_channel"] = not per_tensor
    targets = None if labels is None else read_arrays(labels, ["labels"])[0]
    if sequences and search:
        raise InputError(
            "--sequences cannot be combined with --search", hint="quantize with widths of your own"
        )
    if search:
        file, arrays = _loaded(model, samples, given, batched, file_options)
        found = _searched(progress, file, arrays, targets, multipliers, options | {"batched": batched})
        console.print(str(found), highlight=False, soft_wrap=True)
        if plot is not None:
            console.print(f"wrote {found.plot(plot)}", highlight=False)
        if output is not None:
            write_file(output, json.dumps(found.to_dict(), indent=2) + "\n")
            console.print(f"wrote {output}", highlight=False)
        write_json(json_file, found.to_dict())
        return
    if multipliers is not None or plot is not None:
        raise InputError(
            "--multipliers and --plot belong to --search", hint="tg2hdl compile has --multipliers"
        )
    form = _format_of(Path(output or "model.q.npz"))
    file, arrays = _loaded(model, samples, given, batched, file_options)
    target = Path(output or f"{file.label}.q.npz")
    with stage(progress, f"quantizing {file.label}"):
        if form.quantize is not None and form == file.front_end:
            if sequences:
                raise InputError(
                    f"--sequences cannot be combined with -o {target.name}",
                    hint="write a .npz file, which keeps the state",
                )
            arguments = (file.path, arrays, target, options, targets)
            own = {name: value for name, value in file_options.items() if name in form.options}
            report = registry().call(form, "quantize", *arguments, batched=batched, **own)
        elif form.write is not None:
            options |= {"batched": batched, "sequences": sequences}
            quantized = quantize(file.model, arrays, labels=targets, **options)
            report = quantized.report
            registry().call(form, "write", quantized, target)
        else:
            raise InputError(
                f"{target.name} can only be written from {form.description}, not from {file.path.name}",
                hint=f"write {target.with_suffix('.npz').name}, or export the model first",
            )
    write_file(target.with_suffix(".json"), json.dumps(report.to_dict(), indent=2) + "\n")
    console.print(str(report), highlight=False, soft_wrap=True)
    for path in (target, target.with_suffix(".json")):
        console.print(f"wrote {path}", highlight=False)
    write_json(json_file, report.to_dict())


def _format_of(target: Path) -> FrontEndDef:
    """The front end that writes a file."""
    written = [f for f in registry().front_ends() if f.write is not None or f.quantize is not None]
    for front_end in written:
        if target.suffix in front_end.suffixes:
            return front_end
    suffixes = sorted(suffix for front_end in written for suffix in front_end.suffixes)
    raise InputError(
        f"{target.name} does not end in {' or '.join(suffixes)}",
        hint=f"write {target.with_suffix('.npz').name}, which compile reads",
    )


def _loaded(
    model: str, path: str, given: Any, batched: bool, file_options: dict[str, Any]
) -> tuple[ModelFile, tuple[np.ndarray, ...]]:
    """The model, whose symbolic sizes are those of the samples unless given, and its samples in their order."""
    file = load_file(model, file_options, examples=first_samples(given, batched))
    return file, in_order(path, given, parameter_names(file.model, given))


def _searched(
    progress: Console,
    file: ModelFile,
    samples: tuple[np.ndarray, ...],
    labels: np.ndarray | None,
    multipliers: int | None,
    options: dict[str, Any],
) -> WidthSearch:
    if options["weight_bits"] is not None or options["layers"]:
        raise InputError("--search chooses widths itself", hint="leave out --weight-bits and --layer-bits")
    left_out = ("weight_bits", "layers", *(("requantization",) if options["requantization"] is None else ()))
    chosen = {name: value for name, value in options.items() if name not in left_out}
    with stage(progress, f"searching widths of {file.label}"):
        return search_widths(file.model, samples, labels=labels, multipliers=multipliers, **chosen)


def _layer_width(text: str) -> tuple[str, int]:
    name, equals, bits = text.rpartition("=")
    if not equals or not bits.isdecimal():
        raise InputError(
            f"--layer-bits {text} is not a width of a layer", hint="give e.g. --layer-bits fc1=4"
        )
    return name, int(bits)

"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tg2hdl.accelerator import Accelerator
from tg2hdl.cli.families import FAMILY, complete_file, complete_unit, completes
from tg2hdl.cli.table import Table
from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl.exploration.points import command_options
from tg2hdl.loaded_model import compile_options
from tg2hdl.model_file import ModelFile, load_model_file, parse_input
from tg2hdl.progress import step
from tg2hdl_backend.arguments import MissingSizes
from tg2hdl_ir import InputError, registry
from tg2hdl_lower.decisions import PREFERENCES
from tg2hdl_top import CompileOptions
from tg2hdl_top.options import VALIDATIONS

__all__ = [
    "ModelCommand",
    "compile_file",
    "kernel_table",
    "load_file",
    "model_of_file",
    "output_folder",
    "progress_bar",
    "say_fit",
    "say_float",
    "stage",
    "with_model_options",
    "with_workers",
]


_OPTIONS = (
    click.argument("model", metavar="FILE[:NAME]", shell_complete=complete_file),
    click.option(
        "--input",
        "inputs",
        metavar="DTYPE:SHAPE",
        multiple=True,
        help="Dtype and shape of an input, e.g. int8:1x784; once per parameter.  [default: `example_inputs`]",
    ),
    click.option(
        "--keep-float",
        is_flag=True,
        help="Compute the quantizers of a file in float, as they are defined, not in integers.",
    ),
    click.option(
        "--codes",
        is_flag=True,
        help="Outputs of a quantized model as codes, not as the values that they stand for.",
    ),
    click.option(
        "--multipliers",
        type=click.IntRange(1),
        help="Hardware multipliers; kernels share them.  [default: 1]",
    ),
    click.option(
        "--family",
        type=FAMILY,
        help="FPGA family to compile for: ecp5 uses the registers of its blocks, generic suits all; families of "
        "plugins too.  [default: generic]",
    ),
    click.option(
        "--unit",
        "units",
        metavar="OP=UNIT",
        multiple=True,
        shell_complete=complete_unit,
        help="Arithmetic unit of an op, e.g. add=fp32.add.fast; `tg2hdl plugins list --kind unit` shows them.",
    ),
    click.option(
        "--float-order",
        type=click.Choice(["strict", "relaxed"]),
        help="Float sums in the order of the program, or in trees where that is faster.  [default: strict]",
    ),
    click.option(
        "--prefer",
        type=click.Choice(list(PREFERENCES)),
        help="Figure to minimize, for at most a quarter more cycles in each decision: latency (cycles), "
        "multipliers, block-ram, area (LUTs).  [default: latency]",
    ),
    click.option(
        "--share-units",
        is_flag=True,
        help="Floating-point units shared by kernels: less area, one more cycle of latency in each.",
    ),
    click.option(
        "--fold-batchnorm",
        is_flag=True,
        help="Scales after float sums become part of the weights: fewer cycles, results change by rounding.",
    ),
    click.option(
        "--schedule",
        shell_complete=completes("tg2hdl_sequencers"),
        help="When kernels start: serial (one after the other), overlap (each as soon as its data is there), auto (one "
        "or the other), dataflow (also those of the next run), rows (each row of a stream by itself, with --port "
        "axi-stream), or a policy of a plugin.  [default: auto]",
    ),
    click.option(
        "--loop",
        is_flag=True,
        help="The design feeds its output back to its input by itself, run after run; for generate in Python.",
    ),
    click.option(
        "--port",
        "ports",
        metavar="NAME",
        multiple=True,
        shell_complete=completes("tg2hdl_ports"),
        help="Host port, several for different parts of the design; `tg2hdl plugins list --kind port` shows them.  "
        "[default: native]",
    ),
    click.option(
        "--weights",
        type=click.Choice(["rom", "loadable", "external"]),
        help="Weights as contents of read-only memories, written at run time, or in memory outside the chip as far as "
        "they do not fit.  [default: rom]",
    ),
    click.option(
        "--on-chip-bits",
        type=click.IntRange(1),
        help="Bits of memory on the chip, for --weights external; those of --part unless given.",
    ),
    click.option(
        "--memory-port",
        metavar="NAME",
        shell_complete=completes("tg2hdl_memory_ports"),
        help="Port to memory outside the chip; `tg2hdl plugins list --kind memory-port` shows them.  [default: axi4]",
    ),
    click.option(
        "--fit",
        metavar="PART-or-BOARD",
        help="Choose the options that take the fewest cycles on this part or board, as far as they are not given; "
        "`tg2hdl explore` shows the others.",
    ),
    click.option(
        "--validate",
        type=click.Choice(VALIDATIONS),
        help="Compare the design with the program that it was made of: auto (as much as takes little time), full, "
        "each (after each rewrite), off.  [default: auto]",
    ),
    click.option(
        "--validate-keep",
        metavar="FOLDER",
        help="Folder for both forms of a wrong rewrite, and the inputs that show it.",
    ),
)


def with_model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and options that choose and compile a model."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def with_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where tasks run."""
    function = click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Run them on a Dask cluster, tcp://host:8786 or tls://host:8786, in place of --workers.",
    )(function)
    return click.option(
        "--workers", default=1, show_default=True, metavar="N", help="Processes of this machine that work."
    )(function)


class ModelCommand(click.Command):
    """A command about a model file: takes the options of all front ends, and gets their values as `file_options`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own options first; one of a front end with the name of another is left out."""
        found = super().get_params(ctx)
        return [*found[:-1], *(option for option, _ in _file_options(found)), found[-1]]

    def shared_options(self) -> set[str]:
        """Names of the options that all commands about model files have, without dashes."""
        declared = click.command()(with_model_options(lambda: None)).params
        options = [
            p for p in (*declared, *(o for o, _ in _file_options(declared))) if isinstance(p, click.Option)
        ]
        return {max(option.opts, key=len).lstrip("-") for option in options}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        names = {name for _, name in _file_options(super().get_params(ctx))}
        ctx.params["file_options"] = {name: ctx.params.pop(name) for name in names}
        return super().invoke(ctx)


def _file_options(own: Iterable[click.Parameter]) -> Iterator[tuple[click.Parameter, str]]:
    """Options of the front ends with their names, which `own` do not have."""
    taken = {parameter.name for parameter in own}
    for front_end in registry().front_ends():
        if front_end.command_options is not None:
            for option in registry().make(front_end, "command_options", list):
                if option.name not in taken:
                    taken.add(option.name)
                    yield option, option.name


def compile_file(
    part: str | None = None, **model_options: Any
) -> tuple[ModelFile, tuple[Any, ...], Accelerator]:
    """Load and compile the model of a file; returns it, its example inputs and the accelerator."""
    file, examples, options = model_of_file(**model_options)
    accelerator = compile_model_to_hardware(
        file.model,
        *examples,
        options=options,
        name=file.label,
        part=part,
        codes=model_options["codes"],
        fit=model_options.get("fit"),
    )
    return file, examples, accelerator


def model_of_file(
    model: str,
    inputs: tuple[str, ...],
    file_options: Mapping[str, Any],
    multipliers: int | None,
    weights: str | None,
    family: str | None,
    float_order: str | None,
    prefer: str | None,
    share_units: bool,
    fold_batchnorm: bool,
    schedule: str | None,
    units: tuple[str, ...],
    keep_float: bool = False,
    codes: bool = False,
    ports: tuple[str, ...] = (),
    on_chip_bits: int | None = None,
    memory_port: str | None = None,
    memory: Any = None,
    validate: str | None = None,
    validate_keep: str | None = None,
    fit: str | None = None,
    loop: bool = False,
) -> tuple[ModelFile, tuple[Any, ...], CompileOptions]:
    """Load the model of a file; returns it, its example inputs and the options that it is compiled with.

    Parameters
    ----------
    model : str
        ``FILE`` or ``FILE:NAME``.
    inputs : tuple of str
        Shapes and types, as ``--input`` takes them.
    file_options : mapping of str to object
        Of the front end.
    multipliers : int or None
    weights : str or None
    family : str or None
    float_order : str or None
    prefer : str or None
    share_units : bool
    fold_batchnorm : bool
    schedule : str or None
    units : tuple of str
    keep_float, codes : bool, default False
        As of `tg2hdl.compile`; the rest are options of `CompileOptions`.
    ports : tuple of str, optional
    on_chip_bits : int, optional
    memory_port : str, optional
    memory : optional
    validate : str, optional
    validate_keep : str, optional
    fit : str, optional
    loop : bool, default False
    """
    file = load_file(model, file_options, keep_float, validate=validate or "auto")
    examples = tuple(parse_input(text) for text in inputs) if inputs else file.example_inputs
    if examples is None:
        raise InputError(
            f"no example input for {file.name!r} of {file.path.name}",
            where=str(file.path),
            hint="give --input DTYPE:SHAPE once per parameter, or define `example_inputs` in the file",
        )
    given: dict[str, Any] = {
        "weights": weights,
        "multipliers": multipliers,
        "target": family,
        "float_order": float_order,
        "prefer": prefer,
        "share_units": share_units or None,
        "fold_batchnorm": fold_batchnorm or None,
        "schedule": schedule,
        "units": dict(map(_unit, units)) or None,
        "ports": ports or None,
        "on_chip_bits": on_chip_bits,
        "memory_port": memory_port,
        "memory": memory,
        "validate": validate,
        "validate_keep": validate_keep,
        "loop": loop or None,
    }
    return file, examples, compile_options(None, **given)


def load_file(
    model: str,
    options: Mapping[str, Any],
    keep_float: bool = False,
    examples: Any = (),
    *,
    validate: str = "auto",
) -> ModelFile:
    """The model of a file; the hint for missing sizes names options of the command line.

    Parameters
    ----------
    model : str
        ``FILE`` or ``FILE:NAME``.
    options : mapping of str to object
        Of the front end.
    keep_float : bool, default False
        As of `tg2hdl.compile`.
    examples : optional
        Example inputs, for shapes that the file leaves open.
    validate : str, default "auto"
        As of `CompileOptions`.

    Raises
    ------
    InputError
        For a file that cannot be read, or whose sizes are missing.
    """
    try:
        return load_model_file(model, examples, keep_float, validate=validate, **options)
    except MissingSizes as error:
        rest = " ".join(f"--dim {name}=SIZE" for name in error.dims if name != error.first)
        hint = "give " + " ".join(filter(None, ["--batch 1" if error.first else "", rest]))
        if error.first:
            hint += (" or, in place of --batch, " if rest else " or ") + f"--dim {error.first}=SIZE"
        raise InputError(error.message, where=error.where, notes=error.notes, hint=hint) from error


def _unit(text: str) -> tuple[str, str]:
    """Op and unit of ``OP=UNIT``."""
    op, _, unit = text.partition("=")
    if not op or not unit:
        raise InputError(f"--unit {text!r} is not of the form OP=UNIT", hint="e.g. --unit add=fp32.add.fast")
    return op, unit


def kernel_table(accelerator: Accelerator, label: str) -> Table:
    """Table of the planned kernels, titled by the cycles of a run and those from one result to the next.

    Parameters
    ----------
    accelerator : Accelerator
    label : str
        Of the model.
    """
    cycles, interval = accelerator.predicted_cycles, accelerator.predicted_interval
    title = f"{label}: {cycles:,} cycles from start to done"
    title += f", {interval:,} from one result to the next" if interval < cycles else ""
    table = Table("kernel", "layer", title=title, title_justify="left")
    for column in ("steps", "II", "cycles", "multipliers", "MACs", "cycles x mult / MAC"):
        table.add_column(column, justify="right")
    for kernel, equal in groupby(accelerator.kernels):
        count = len(list(equal))
        ratio = "" if kernel.ratio is None else f"{kernel.ratio:.3f}"
        row = (kernel.steps, kernel.ii, kernel.cycles, kernel.multipliers, kernel.macs)
        name = kernel.name if count == 1 else f"{count} x {kernel.name}"
        table.add_row(name, kernel.layer, *(f"{n:,}" for n in row), ratio)
    return table


def say_float(console: Console, accelerator: Accelerator) -> None:
    """Name the nodes that a quantized model computes in float, a line each.

    Parameters
    ----------
    console : Console
        Of the results.
    accelerator : Accelerator
    """
    for name in accelerator.in_float:
        console.print(f"computed in float: {name}", highlight=False, markup=False)


def say_fit(console: Console, accelerator: Accelerator, name: str | None) -> None:
    """Name the options that were chosen to fit a part or a board.

    Parameters
    ----------
    console : Console
        Of the results.
    accelerator : Accelerator
    name : str or None
        Of the part or board; None prints nothing.
    """
    if name is not None:
        chosen = " ".join(command_options(accelerator.options)) or "no option"
        console.print(f"for {name}: {chosen}", highlight=False, markup=False)


def stage(console: Console, text: str) -> AbstractContextManager[Callable[[str], None]]:
    """Progress of a step of unknown length; yields a function that adds a message.  Quiet without a terminal.

    Parameters
    ----------
    console : Console
        Of the progress.
    text : str
        Of the step.
    """
    return step(text, console, delay=0)


@contextmanager
def progress_bar(console: Console, text: str, total: int) -> Iterator[Callable[..., None]]:
    """Bar over a known number of items; yields a function that advances it by one or more; quiet without a terminal.

    Parameters
    ----------
    console : Console
        Of the progress.
    text : str
        In front of the bar.
    total : int
        Items.
    """
    if not console.is_terminal:
        yield lambda count=1: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count=1: progress.advance(task, count)


def output_folder(folder: str | None, label: str) -> Path:
    """Folder for the files of a model; it is made with the first of them.

    Parameters
    ----------
    folder : str or None
        Given by the user.
    label : str
        Of the model.
    """
    return Path(folder) if folder else Path("build") / label

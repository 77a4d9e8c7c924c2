"""``tg2hdl demo``: the main job on real data."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

from tg2hdl.cli.common import progress_bar, stage
from tg2hdl.cli.families import ENGINE
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl.demo import DEMO_IMAGES, DEMO_MODELS, DemoModel, DemoResult, load_demo, run_images, write_files
from tg2hdl.demo_device import DeviceResult, run_on_device
from tg2hdl_host import HostError, connect
from tg2hdl_ir import SimulationError
from tg2hdl_top import CompileOptions, Loop

__all__ = ["demo"]

STORY, STORY_LENGTH = "There was once a ", 120
"""How the text begins, and its characters."""

_EPILOG = """\b
Examples:
  tg2hdl demo                            both models of the digits, all 360 test images
  tg2hdl demo --data mnist --images 60   MNIST: MLP and LeNet-5, trained, quantized to int8
  tg2hdl demo --data story               a language model writes, character by character
  tg2hdl demo --model int8 --images 20   quicker
  tg2hdl demo --engine amaranth --images 1
  tg2hdl demo --through uart --images 40 driver, serial line and design in one simulation
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--data",
    type=click.Choice([*DEMO_IMAGES, "story", "all"]),
    default="digits",
    show_default=True,
    help="8x8 digits; MNIST, whose networks are trained first (10 s or so); or a fairy tale by a small language model.",
)
@click.option(
    "--model",
    type=click.Choice(["all", *DEMO_MODELS]),
    default="all",
    show_default=True,
    help="Which of the two classifiers of `--data digits`.",
)
@click.option(
    "--images", default=360, show_default=True, help="Test images per model: up to 360, of MNIST 1000."
)
@click.option("--engine", type=ENGINE, default="auto", show_default=True, help="Simulation engine.")
@click.option(
    "--tinygrad-images",
    type=int,
    help="How many of them tinygrad's interpreter computes too: 5 unless given, of MNIST none (half a minute each).",
)
@click.option("-o", "--output", default="build/demo", show_default=True, help="Folder for the files.")
@click.option(
    "--through",
    type=click.Choice(["native", "uart"]),
    default="native",
    show_default=True,
    help="Host port: the design's own, or a serial line with the driver of boards.",
)
@with_json
def demo(
    data: str,
    model: str,
    images: int,
    engine: str,
    tinygrad_images: int | None,
    output: str,
    through: str,
    json_file: str | None,
) -> None:
    """Classify handwritten digits on simulated hardware.

    Two trained networks of examples/digits, one in int8 and one in float32, go from tinygrad to hardware; of MNIST an
    MLP and LeNet-5 in int8, against the float networks that they were quantized from; and `story` is a language model
    that writes a text, as `tg2hdl stories` does.
    Every test image is simulated clock cycle by clock cycle and compared bit for bit with the golden model,
    the first ones with tinygrad's own interpreter too.
    """
    console, progress = consoles(json_file)
    check_folder(output)
    if data == "story":
        given = click.get_current_context().get_parameter_source
        for option in ("model", "images", "tinygrad_images"):
            if given(option) is ParameterSource.COMMANDLINE:
                name = option.replace("_", "-")
                raise click.UsageError(
                    f"--data story has no use for --{name}; `tg2hdl stories` has more options"
                )
        _story(
            console, progress, engine, Path(output) / "story-uart" if through == "uart" else None, json_file
        )
        return
    results: list[DemoResult | DeviceResult] = []
    started = time.perf_counter()
    for name in [n for n, d in DEMO_MODELS.items() if data in (d, "all")] if model == "all" else [model]:
        with stage(progress, f"{name}: compiling the model"):
            loaded = load_demo(name, images, through)
        if through == "uart":
            results.append(_on_device(console, progress, loaded, Path(output) / f"{name}-uart"))
            continue
        with stage(progress, f"{name}: building the simulation") as report:
            session = loaded.accelerator.session(engine, runs=images, progress=report)
        compared = (5 if DEMO_MODELS[name] == "digits" else 0) if tinygrad_images is None else tinygrad_images
        with session, progress_bar(progress, f"{name}: simulating", images) as advance:
            result = run_images(loaded, session, tinygrad_images=compared, advance=advance)
        with stage(progress, f"{name}: writing files"):
            paths = write_files(loaded, result, Path(output))
        results.append(result)
        _print(console, result)
        console.print(
            "wrote " + ", ".join(str(path) for path in paths) + "\n", highlight=False, soft_wrap=True
        )
    console.print(f"All of it took {time.perf_counter() - started:.0f} s.")
    write_json(json_file, [asdict(result) for result in results])


def _story(
    console: Console, progress: Console, engine: str, folder: Path | None, json_file: str | None
) -> None:
    """Write a text with the small language model, through the driver of boards where there is a folder."""
    from tg2hdl.cli.stories import from_device, tell
    from tg2hdl.language import load_story
    from tg2hdl.language.teller import Teller

    model, tokenizer = load_story()
    options = CompileOptions(multipliers=16, host_state=False, loop=Loop(results=4))
    if folder is not None:
        options = replace(options, ports=("uart",), loop=Loop())
    with stage(progress, "story: compiling the model"):
        teller = Teller.of(model, tokenizer, context=model.context, options=options)
    if folder is not None:
        with stage(progress, "story: writing the design"):
            teller.accelerator.build(folder, vectors=0)
        from_device(console, tokenizer, f"simulate:{folder}", STORY, STORY_LENGTH, json_file)
        return
    tell(console, teller, model, tokenizer.encode(STORY), STORY_LENGTH, engine, 0.0, 0, json_file)


def _on_device(console: Console, progress: Console, loaded: DemoModel, folder: Path) -> DeviceResult:
    """Classify the images through the driver of boards and a simulated serial line."""
    name, images = loaded.accelerator.name, len(loaded.images)
    try:
        with stage(progress, f"{name}: building the simulation"):
            loaded.accelerator.build(folder, vectors=0)
            device = connect(f"simulate:{folder}")
        with device, progress_bar(progress, f"{name}: simulating", images) as advance:
            result = run_on_device(loaded, device, advance=advance)
    except HostError as error:
        raise SimulationError(error.message, where=error.stage, hint=error.hint) from None
    console.print(
        f"{name} through a serial line: {images} images, every bit as the golden model; "
        f"{result.cycles:,} cycles each, as predicted; "
        f"accuracy {result.hardware_accuracy:.2%}, float reference {result.reference_accuracy:.2%}; "
        f"{result.rate:.1f} images per second in simulation",
        highlight=False,
    )
    console.print(", ".join(f"{name} {count:,}" for name, count in result.counters.items()), highlight=False)
    return result


def _print(console: Console, result: DemoResult) -> None:
    table = Table("kernel", title=f"{result.name} on {result.engine}", title_justify="left")
    columns = ("predicted cycles", "simulated cycles", "multipliers", "MACs", "cycles x mult / MAC")
    for column in columns:
        table.add_column(column, justify="right")
    predicted, simulated = result.predicted_kernel_cycles, result.simulated_kernel_cycles
    for kernel, before, cycles in zip(result.kernels, predicted, simulated, strict=True):
        ratio = "" if kernel.ratio is None else f"{kernel.ratio:.3f}"
        numbers = (before, cycles, kernel.multipliers, kernel.macs)
        table.add_row(kernel.name, *(f"{n:,}" for n in numbers), ratio)
    table.add_row("one image", f"{result.predicted_cycles:,}", f"{result.cycles_per_image:,}")
    console.print(table)
    per_second = f"{result.cycles_per_second:,.0f} cycles per second"
    speed = f"{result.simulated_cycles:,} cycles in {result.seconds:.2f} s: {per_second}"
    reference, hardware = f"{result.reference_accuracy:.2%}", f"{result.hardware_accuracy:.2%}"
    golden, tinygrad, numpy = result.golden_images, result.tinygrad_images, result.numpy_images
    same = f"golden model {golden} of {result.images} images" + (
        f", numpy {numpy} of {numpy}" if numpy else ""
    )
    same += f", tinygrad {tinygrad} of {tinygrad}" if tinygrad else ""
    lines = Table.grid(padding=(0, 2))
    if saved := sum(kernel.cycles for kernel in result.kernels) - result.predicted_cycles:
        lines.add_row("overlap", f"{saved:,} cycles: a kernel starts before the previous one is done")
    for label, text in (
        ("accuracy", f"float reference {reference}, hardware {hardware}"),
        ("images", f"{result.images}"),
        ("same bits", same),
        (
            "host",
            f"{result.load_cycles} cycles to load an image, {result.readback_cycles} to read its result",
        ),
        ("simulation", speed),
    ):
        lines.add_row(label, text)
    console.print(lines, highlight=False)

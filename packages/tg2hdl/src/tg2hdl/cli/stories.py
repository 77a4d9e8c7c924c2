"""``tg2hdl stories``: a language model on simulated hardware, or on a board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tg2hdl.cli.common import stage
from tg2hdl.cli.families import ENGINE, FAMILY, complete_file, completes
from tg2hdl.cli.links import link_for, with_link
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl.language import (
    Checkpoint,
    Tokenizer,
    divergence,
    load_story,
    read_checkpoint,
    read_tokenizer,
)
from tg2hdl.language.teller import Teller, spoken, tokens_of
from tg2hdl_host import HostError, connect
from tg2hdl_ir import SimulationError
from tg2hdl_top import CompileOptions, Loop

__all__ = ["stories"]

_EPILOG = """\b
Examples:
  tg2hdl stories                         a small model of fairy tales that the package has
  tg2hdl stories --weights stories260K.bin --tokenizer tok512.bin --prompt "Once upon a time"
  tg2hdl stories --weights W --tokenizer T --golden --length 200 --temperature 0.8 --seed 1
  tg2hdl stories --weights W --tokenizer T --board ulx3s-85f -o build/stories
  tg2hdl stories --tokenizer T --device /dev/ttyUSB0 --prompt "Lily and Ben"
"""

PATIENCE = 600.0
"""Seconds that a simulation may take."""

CLOCK = 100.0
"""MHz for which tokens per second are shown where nothing was placed."""


@click.command(epilog=_EPILOG)
@click.option(
    "--weights",
    metavar="FILE",
    shell_complete=complete_file,
    help="Checkpoint of llama2.c, version 0.  [default: a small model of fairy tales, character by character]",
)
@click.option(
    "--tokenizer",
    "tokenizer_file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Tokenizer of llama2.c that belongs to it.",
)
@click.option("--prompt", default="There was once a ", show_default=True, help="How the text begins.")
@click.option(
    "--length", type=click.IntRange(2), default=120, show_default=True, help="Most tokens, with the prompt."
)
@click.option(
    "--temperature",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="0 takes the likeliest token, on the chip; otherwise tokens are drawn from the logits by the host.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the drawn tokens.")
@click.option(
    "--context",
    type=click.IntRange(2),
    help="Positions that the design keeps.  [default: 256, or fewer if the model has fewer]",
)
@click.option(
    "--bits",
    type=click.IntRange(2, 9),
    default=9,
    show_default=True,
    help="Bits of weights, a scale per row.",
)
@click.option(
    "--cache-bits",
    type=click.IntRange(2, 9),
    default=9,
    show_default=True,
    help="Bits of keys and values.",
)
@click.option(
    "--multipliers", type=click.IntRange(1), default=16, show_default=True, help="Hardware multipliers."
)
@click.option("--family", type=FAMILY, default="generic", show_default=True, help="FPGA family.")
@click.option(
    "--engine",
    type=ENGINE,
    default="auto",
    show_default=True,
    help="Simulation engine.",
)
@click.option(
    "--golden", is_flag=True, help="Compute the same bits without simulating the hardware: quicker."
)
@click.option(
    "--board", shell_complete=completes("tg2hdl_boards"), help="Build a bitstream for this board in -o."
)
@click.option(
    "--clock", type=float, help="Clock of the board in MHz.  [default: the fastest that the design reaches]"
)
@click.option("--baud", type=click.IntRange(9600), help="Serial line of the board.")
@with_link
@click.option(
    "-o", "--output", metavar="DIR", help="Write the folder of the device; no text is written then."
)
@click.option(
    "--device", metavar="DEVICE", help="Write the text with a device: /dev/ttyUSB0 or simulate:DIR."
)
@with_json
def stories(
    weights: str | None,
    tokenizer_file: str | None,
    prompt: str,
    length: int,
    temperature: float,
    seed: int,
    context: int | None,
    bits: int,
    cache_bits: int,
    multipliers: int,
    family: str,
    engine: str,
    golden: bool,
    board: str | None,
    clock: float | None,
    baud: int | None,
    link: str | None,
    output: str | None,
    device: str | None,
    json_file: str | None,
) -> None:
    """Let a language model on hardware write a text.

    Without files it is a small model of fairy tales, as in `tg2hdl demo --data story`.  A checkpoint of llama2.c is
    quantized to 9-bit weights and 16-bit activations, its decoding step compiled with the cache in block RAM, and the
    text printed as it comes from the simulated hardware or from a board; then cycles, tokens per second, and how far
    the integers are from the float model.
    """
    console, progress = consoles(json_file)
    engine = "golden" if golden else engine
    if (weights is None) != (tokenizer_file is None) and device is None:
        raise click.UsageError("--weights and --tokenizer belong together: give both, or none")
    if temperature and (device is not None or output is not None):
        raise click.UsageError(
            "--temperature cannot be combined with -o or --device, whose chip chooses the likeliest token"
        )
    model, tokenizer = load_story()
    if tokenizer_file is not None:
        tokenizer = read_tokenizer(tokenizer_file)
    if device is not None:
        from_device(console, tokenizer, device, prompt, length, json_file)
        return
    if board is not None and output is None:
        raise click.UsageError("--board goes with -o DIR")
    port = None
    if output is not None:
        check_folder(output)
        port = _link(link, board)
    elif link is not None:
        raise click.UsageError("--link goes with -o DIR")
    if weights is not None:
        model = read_checkpoint(weights)
    context = min(256, model.context) if context is None else context
    length = min(length, context)
    first = tokens_of(tokenizer, prompt, length)
    options = CompileOptions(
        multipliers=multipliers,
        target=family,
        ports=CompileOptions().ports if port is None else (port,),
        # A text reads only what it has stored, so that the host never resets the cache.
        host_state=False,
        # In a simulation few runs at a time, so that the text comes as it is written.
        loop=None if temperature else Loop(results=64 if output is not None else 4),
    )
    with stage(progress, f"compiling {'the small model' if weights is None else Path(weights).name}"):
        teller = Teller.of(
            model,
            tokenizer,
            context=context,
            bits=bits,
            cache_bits=cache_bits,
            gives_logits=temperature > 0,
            options=options,
        )
    if output is not None:
        _build(console, progress, teller, Path(output), board, clock, baud, tokenizer_file, json_file)
        return
    tell(console, teller, model, first, length, engine, temperature, seed, json_file)


def _link(wanted: str | None, board: str | None) -> str:
    if board is None:
        return link_for(wanted, None)
    from tg2hdl_synth.boards.bitstream import check_board

    return link_for(wanted, check_board(board))


def tell(
    console: Console,
    teller: Teller,
    model: Checkpoint,
    first: list[int],
    length: int,
    engine: str,
    temperature: float,
    seed: int,
    json_file: str | None,
) -> None:
    """Print a text as it comes, then the figures.

    Where no engine that is installed simulates the hardware in `PATIENCE`, the golden model computes the same bits.
    """
    if engine == "auto" and (seconds := teller.seconds(length)) > PATIENCE:
        Console(stderr=True).print(
            f"the hardware is not simulated, which would take about {seconds / 60:,.0f} minutes here: the golden model "
            'computes the same bits; pip install "tg2hdl\\[sim]" for a quick engine',
            highlight=False,
        )
        engine = "golden"
    tokens = list(first)

    def written() -> Iterator[int]:
        for token in teller.tokens(first, length, engine=engine, temperature=temperature, seed=seed):
            tokens.append(token)
            yield token

    text = _print_as_it_comes(console, spoken(teller.tokenizer, first, written()))
    _figures(console, teller, model, tokens, text, engine, json_file)


def _print_as_it_comes(console: Console, parts: Iterator[str]) -> str:
    text = ""
    for part in parts:
        text += part
        console.out(part, end="", highlight=False)
        console.file.flush()
    console.out("")
    return text


def _figures(
    console: Console,
    teller: Teller,
    model: Checkpoint,
    tokens: list[int],
    text: str,
    engine: str,
    json_file: str | None,
) -> None:
    cycles = teller.cycles()
    mean = sum(cycles) / len(cycles)
    nats, agreed = divergence(model, teller.numbers, tokens[:-1])
    accelerator = teller.accelerator
    blocks = accelerator.memory.block_rams
    rows = {
        "parameters": f"{model.size:,}",
        "tokens written": f"{len(tokens):,}, prompt included",
        f"cycles a token, mean of {len(cycles)} positions": f"{mean:,.0f}",
        "first, last position": f"{cycles[0]:,}, {cycles[-1]:,}",
        f"tokens per second at {CLOCK:.0f} MHz": f"{CLOCK * 1e6 / mean:,.0f}",
        "multipliers": f"{accelerator.options.multipliers}",
        "block RAMs": f"{blocks:,}",
        "divergence from float32, nats a token": f"{nats:.4f}",
        "same likeliest token as float32": f"{agreed:.1%}",
    }
    table = Table("", "", show_header=False, box=None)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print()
    console.print(table)
    if engine != "golden":
        console.print("every bit of the simulated hardware equals the golden model")
    write_json(
        json_file,
        {
            "text": text,
            "tokens": tokens,
            "cycles": cycles,
            "mean_cycles": mean,
            "multipliers": accelerator.options.multipliers,
            "block_rams": blocks,
            "divergence": nats,
            "agreement": agreed,
            "engine": engine,
        },
    )


def _build(
    console: Console,
    progress: Console,
    teller: Teller,
    folder: Path,
    board: str | None,
    clock: float | None,
    baud: int | None,
    tokenizer_file: str | None,
    json_file: str | None,
) -> None:
    from tg2hdl_top.ports import link_class

    with stage(progress, f"building for {board}" if board else "writing the folder") as report:
        teller.accelerator.build(folder, board=board, clock=clock, baud=baud, vectors=2, progress=report)
    cycles = teller.cycles()
    console.print(f"wrote {folder}", highlight=False)
    load = f"tg2hdl program {folder}, then " if board else ""
    kind = teller.accelerator.design.ports[0].kind
    device = link_class(kind).device if board else f"simulate:{folder}"
    tokenizer = "" if tokenizer_file is None else f"--tokenizer {tokenizer_file} "
    console.print(f"next: {load}tg2hdl stories {tokenizer}--device {device}", highlight=False, soft_wrap=True)
    write_json(json_file, {"folder": str(folder), "board": board, "mean_cycles": sum(cycles) / len(cycles)})


def from_device(
    console: Console, tokenizer: Tokenizer, device: str, prompt: str, length: int, json_file: str | None
) -> None:
    first = tokens_of(tokenizer, prompt, length)
    tokens = list(first)

    def written(results: Iterator[Any]) -> Iterator[int]:
        for result in results:
            token = int(result.item())
            if token == first[0]:
                return
            tokens.append(token)
            yield token

    try:
        with connect(device) as connected:
            results = connected.generate([[[t]] for t in first], stop=[[first[0]]], limit=length - len(first))
            text = _print_as_it_comes(console, spoken(tokenizer, first, written(results)))
    except HostError as error:
        raise SimulationError(error.message, where=error.stage, hint=error.hint) from None
    write_json(json_file, {"text": text, "tokens": tokens})

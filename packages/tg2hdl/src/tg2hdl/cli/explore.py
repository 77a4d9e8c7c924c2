"""``tg2hdl explore``: the best designs of a model on a part."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tg2hdl.cli.common import ModelCommand, load_file, model_of_file, stage, with_model_options, with_workers
from tg2hdl.cli.families import PART, complete_file, completes
from tg2hdl.cli.inputs import in_order, read_arrays, read_file
from tg2hdl.cli.output import check_file, consoles, with_json, write_json
from tg2hdl.exploration.exploration import Exploration
from tg2hdl.exploration.explore import opened_exploration
from tg2hdl.exploration.goals import LIMITS, check_limits, goal_named
from tg2hdl.exploration.part import part_of
from tg2hdl.loaded_model import load_model
from tg2hdl.quantization import first_samples
from tg2hdl.report.exploration import exploration_page
from tg2hdl_backend.tinygrad_adapter.model_inputs import parameter_names
from tg2hdl_ir import InputError, ToolMissingError

__all__ = ["explore"]

_EPILOG = """\b
Examples:
  tg2hdl explore model.py --board ulx3s-85f               the design with the fewest cycles that fits
  tg2hdl explore model.onnx --part ecp5-45k --goal smallest --rate 100    100 results a second
  tg2hdl explore model.py --part ecp5-45k --allow float_order --try schedule=auto,dataflow
  tg2hdl explore model.py --part ecp5-45k --samples x.npz --labels y.npy --bits 4,6,8 --max-loss 0.5
  tg2hdl explore model.py --part ecp5-45k --resume model.study.json       go on, on any machine
  tg2hdl explore model.py --part ecp5-45k --cluster tcp://host:8786       the workers of a Dask cluster
"""


@click.command(cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option("--part", type=PART, help="FPGA part.")
@click.option(
    "--board",
    shell_complete=completes("tg2hdl_boards"),
    help="Board, in place of its part; `tg2hdl plugins list --kind board` shows them.",
)
@click.option(
    "--goal",
    default="latency",
    show_default=True,
    help="latency (cycles), interval (cycles), fastest (us), area or smallest (LUTs), multipliers, block-ram.",
)
@click.option("--rate", type=float, metavar="N", help="Only designs with at least N results per second.")
@click.option(
    "--at-most",
    "limits",
    metavar="GOAL=N",
    multiple=True,
    help="Only designs with at most N, e.g. block-ram=40.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    shell_complete=completes("tg2hdl_dimensions"),
    help="What may change numbers: float_order, fold_batchnorm.",
)
@click.option(
    "--try",
    "values",
    metavar="NAME=A,B",
    multiple=True,
    shell_complete=completes("tg2hdl_dimensions"),
    help="Values of a dimension in place of the usual ones, e.g. multipliers=8,16; "
    "`tg2hdl plugins list --kind dimension` shows the dimensions.",
)
@click.option("--study", metavar="FILE.json", help="File of the results so far.  [default: NAME.study.json]")
@click.option(
    "--resume", metavar="FILE.json", shell_complete=complete_file, help="Continue the study in this file."
)
@click.option(
    "--samples",
    metavar="FILE",
    shell_complete=complete_file,
    help="Quantize the model by these inputs (.npy, or .npz by name): widths of weights become a choice. "
    "Half of them choose scales, the other half judges.",
)
@click.option("--labels", metavar="FILE", shell_complete=complete_file, help="Class of each sample (.npy).")
@click.option(
    "--bits", metavar="A,B", help="Widths of weights to choose from.  [default with --samples: 8,6,4]"
)
@click.option(
    "--max-loss", type=float, metavar="N", help="Only widths that lose at most N points of accuracy."
)
@with_workers
@click.option("--verify", default=0, metavar="N", help="Place and route the best N designs.")
@click.option("-o", "--output", metavar="FILE.html", help="The page.  [default: NAME.explore.html]")
@with_json
def explore(
    part: str | None,
    board: str | None,
    goal: str,
    rate: float | None,
    limits: tuple[str, ...],
    allow: tuple[str, ...],
    values: tuple[str, ...],
    study: str | None,
    resume: str | None,
    samples: str | None,
    labels: str | None,
    bits: str | None,
    max_loss: float | None,
    workers: int,
    cluster: str | None,
    verify: int,
    output: str | None,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Find the fastest design that fits a part, or the smallest that is fast enough.

    Prints the designs that no other one equals in cycles, interval, LUTs and block RAMs. Options that are given stay as
    they are. Cycles, intervals and block RAMs are those of the plan; LUTs and clock are estimates. Ctrl-C prints
    what is known; --resume goes on.
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_file(output, ".html", ".htm")
    name = _target(part, board, model_options.pop("fit"))
    wanted = check_limits({n: _number(n, text) for n, text in _pairs("--at-most", limits, LIMITS)})
    for limit, value in (("rate", rate), ("loss", max_loss)):
        if value is not None:
            wanted |= check_limits({limit: value})
    widths = _widths(bits)
    if samples is None and any(each is not None for each in (bits, labels, max_loss)):
        raise InputError(
            "--bits, --labels and --max-loss need --samples", hint="give inputs of the model: --samples x.npz"
        )
    space = {n: [_value(text) for text in texts.split(",")] for n, texts in _pairs("--try", values)}
    goal_named(goal), part_of(name)
    if study is not None:
        check_file(study, ".json")
    with stage(progress, f"exploring {model_options['model']}") as say:
        given = None
        if samples is not None:
            found: Any = read_file(samples)
            if not model_options["inputs"]:
                model_options["inputs"] = _inputs_of(model_options, samples, found)
            file, examples, options = model_of_file(**model_options)
            given = in_order(samples, found, parameter_names(file.model, found))
        else:
            file, examples, options = model_of_file(**model_options)
        loaded = load_model(file.model, examples, name=file.label, codes=model_options["codes"])
        path = Path(resume or study or f"{file.label}.study.json")
        with opened_exploration(
            loaded,
            options,
            name,
            goal=goal,
            limits=wanted,
            space=space,
            allow=allow,
            samples=given,
            labels=None if labels is None else read_arrays(labels, ["labels"])[0],
            bits=widths,
            study=path,
            resume=resume is not None,
            workers=workers,
            cluster=cluster,
            progress=say,
        ) as search:
            with suppress(KeyboardInterrupt):  # shows the results so far
                search.run()
                search.verify(verify)
            files = search.write_models(path.parent, file.label)
            exploration = search.found
        page = Path(output or f"{file.label}.explore.html")
        written, missing = [path, *files], ""
        if exploration.suitable and exploration.is_complete:
            try:
                written += exploration_page(exploration, model_options["model"], progress=say).save(page)
            except ToolMissingError as error:
                missing = f"no page: {error.hint}"
    _show(console, exploration, model_options["model"], board or name)
    for line in (*(f"wrote {each}" for each in written), *filter(None, [missing])):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    write_json(json_file, exploration.to_dict())
    if not exploration.is_complete:
        console.print(f"stopped; go on with --resume {path}", highlight=False, soft_wrap=True)
        raise click.exceptions.Exit(130)
    exploration.best  # noqa: B018  an error where nothing fits


def _show(console: Console, found: Exploration, model: str, name: str) -> None:
    console.print(found.format(console.width), highlight=False, markup=False, soft_wrap=True)
    if found.suitable:
        command = found.best.command(model)
        console.print(command, highlight=False, markup=False, soft_wrap=True)


def _widths(text: str | None) -> tuple[int, ...]:
    """The widths of --bits."""
    parts = [] if text is None else text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--bits {text} is not a list of widths", hint="give e.g. --bits 4,6,8")
    return tuple(map(int, parts))


def _inputs_of(options: dict[str, Any], samples: str, given: Any) -> tuple[str, ...]:
    """Dtypes and shapes of the inputs, of the first sample, for a file that does not say them."""
    file = load_file(options["model"], options["file_options"], examples=first_samples(given, True))
    if file.example_inputs is not None:
        return ()
    ordered = in_order(samples, given, parameter_names(file.model, given))
    return tuple(f"{a.dtype}:1x{'x'.join(map(str, a.shape[1:]))}" for a in ordered)


def _target(part: str | None, board: str | None, fit: str | None) -> str:
    """The one name that was given."""
    given = [name for name in (part, board, fit) if name is not None]
    if len(given) != 1:
        raise InputError(
            "an exploration needs a part or a board" if not given else "give a part or a board, not both",
            hint="e.g. --board ulx3s-85f, or --part ecp5-45k",
        )
    return given[0]


def _pairs(
    option: str, texts: tuple[str, ...], names: tuple[str, ...] = ("schedule",)
) -> list[tuple[str, str]]:
    found = [tuple(text.partition("=")[::2]) for text in texts]
    for text, (name, value) in zip(texts, found, strict=True):
        if not name or not value:
            raise InputError(
                f"{option} {text!r} is not of the form NAME=VALUE", hint=f"e.g. {option} {names[0]}=..."
            )
    return found  # type: ignore[return-value]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"limit {name}={text} is not a number", hint=f"give e.g. {name}=1000") from None


def _value(text: str) -> Any:
    """A number, true, false, none, a JSON text, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return None if text == "none" else text

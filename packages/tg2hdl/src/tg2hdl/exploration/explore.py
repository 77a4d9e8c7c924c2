"""Explore the designs of a model in one call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from tg2hdl.accelerator import Accelerator
from tg2hdl.exploration.exploration import Exploration
from tg2hdl.exploration.goals import GOALS, check_limits, goal_named
from tg2hdl.exploration.part import part_of
from tg2hdl.exploration.search import Search
from tg2hdl.exploration.space import space_of
from tg2hdl.exploration.study import Study, program_key
from tg2hdl.exploration.workers import runner_for
from tg2hdl.loaded_model import compile_options, load_model
from tg2hdl.progress import step
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir.collection import rare_collection
from tg2hdl_top import CompileOptions, compile_program

__all__ = ["explore", "fitted_options", "opened_search"]


def explore(
    model: Callable[..., Any] | str | PathLike[str],
    *example_inputs: Any,
    part: str,
    goal: str = "latency",
    limits: Mapping[str, float] = {},
    space: Mapping[str, Sequence[Any]] = {},
    allow: Collection[str] = (),
    options: CompileOptions | None = None,
    name: str | None = None,
    study: str | PathLike[str] | None = None,
    resume: bool = False,
    workers: int = 1,
    verify: int = 0,
    **model_options: Any,
) -> Exploration:
    """Find the designs of a model that are worth having on a part.

    Parameters
    ----------
    model, example_inputs
        As for `tg2hdl.compile`.
    part : str
        FPGA part, or a board.
    goal : {"latency", "interval", "fastest", "area", "smallest", "multipliers", "block-ram"}
        ``latency`` and ``interval`` are in clock cycles; ``fastest`` is in microseconds, and also looks at designs that
        are planned for the family of the part; ``area``, or ``smallest``, is in LUTs.
    limits : mapping of str to float
        The most of each goal, and the least ``rate`` (results per second at the expected clock).
    space : mapping of str to sequence
        Values of a dimension, in place of the usual ones; any field of `CompileOptions` can be one.
    allow : collection of str
        Dimensions that may change numbers: ``float_order``, ``fold_batchnorm``.
    options : CompileOptions, optional
        Options that differ from the defaults stay in all designs.
    name : str, optional
        Name of the design.
    study : path, optional
        File for the figures, written as they become known.
    resume : bool
        Whether to go on with this file.
    workers : int
        Processes that plan and estimate.
    verify : int
        Best designs that are placed and routed: their cells and clock are measured.
    model_options
        `codes`, `keep_float` and those of files, as for `tg2hdl.compile`.

    Returns
    -------
    Exploration
        ``.points``, ``.best``, ``.pareto``; prints as a table.

    Raises
    ------
    InputError
        For an unknown goal, limit, part, dimension or value, or a study of something else.

    Examples
    --------
    >>> import numpy as np
    >>> import tg2hdl
    >>> found = tg2hdl.explore(lambda x: (x * x).sum(), np.zeros(64, np.int8), part="ecp5-25k")
    >>> found.best.cycles < tg2hdl.compile(lambda x: (x * x).sum(), np.zeros(64, np.int8)).predicted_cycles
    True
    """
    options = compile_options(options)
    goal_named(goal), check_limits(limits), part_of(part)
    loaded = load_model(model, example_inputs, name=name, validate=options.validate, **model_options)
    with rare_collection(), step(f"exploring {loaded.label}") as say:
        say("kernels of the model")
        with opened_search(
            loaded.capture(),
            options,
            part,
            label=loaded.label,
            gives_codes=loaded.gives_codes,
            goal=goal,
            limits=limits,
            space=space,
            allow=allow,
            study=None if study is None else Path(study),
            resume=resume,
            workers=workers,
            progress=say,
        ) as search:
            search.run()
            return search.verify(verify)


def fitted_options(
    captured: CapturedProgram,
    options: CompileOptions,
    part: str,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> CompileOptions:
    """The options of the design with the fewest cycles that fits a part or a board; those given stay.

    Parameters
    ----------
    captured : CapturedProgram
    options : CompileOptions
        Those that differ from the defaults stay.
    part : str
        FPGA part or board.
    progress : callable, optional
        Called with a message before each design is planned.

    Raises
    ------
    CapacityError
        When none fits; with the needs of the smallest one.
    """
    with opened_search(captured, options, part, label=captured.program.name, progress=progress) as search:
        chosen = search.run(every=False).best.options
    return replace(chosen, validate=options.validate, validate_keep=options.validate_keep)


@contextmanager
def opened_search(
    captured: CapturedProgram,
    options: CompileOptions,
    part: str,
    *,
    label: str,
    gives_codes: bool = True,
    goal: str = "latency",
    limits: Mapping[str, float] = {},
    space: Mapping[str, Sequence[Any]] = {},
    allow: Collection[str] = (),
    study: Path | None = None,
    resume: bool = False,
    workers: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Search]:
    """A search over the designs of a captured model; parameters as of `explore`."""
    chosen, limits, target = goal_named(goal), check_limits(limits), part_of(part)
    program, values = captured.program, captured.var_vals
    needs_clock = (
        chosen.needs_clock or "rate" in limits or any(GOALS[n].needs_clock for n in limits if n in GOALS)
    )
    base = replace(options, validate="auto", validate_keep=None)
    if base.weights == "external" and base.on_chip_bits is None:
        base = replace(base, on_chip_bits=target.bram * target.bram_bits)
    found = space_of(program, target, base, given=space, allow=allow, families=needs_clock)
    key = program_key(program, values)
    figures = Study.resumed(study, key, target.name) if study and resume else Study(study, key, target.name)

    def compiled(wanted: CompileOptions) -> Accelerator:
        wanted = replace(wanted, validate=options.validate, validate_keep=options.validate_keep)
        return Accelerator(captured, compile_program(program, wanted), gives_codes)

    runner = runner_for(program, values, target.name, workers)
    try:
        yield Search(label, found, figures, runner, chosen.name, limits, compiled, progress)
    finally:
        runner.close()

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
from tg2hdl.exploration.figures import PointChoice, PointPlanner
from tg2hdl.exploration.goals import GOALS, check_limits, goal_named
from tg2hdl.exploration.part import part_of
from tg2hdl.exploration.runner import PointRunner
from tg2hdl.exploration.search import Search
from tg2hdl.exploration.space import space_of
from tg2hdl.exploration.study import Study, program_key
from tg2hdl.exploration.variants import WidthVariant, quantized_variants, samples_key
from tg2hdl.loaded_model import LoadedModel, compile_options, load_model
from tg2hdl.progress import step
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import InputError
from tg2hdl_ir.collection import rare_collection
from tg2hdl_ir.content_cache import content_key
from tg2hdl_ir.workers import Workers
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.validation.validate import validated

__all__ = ["explore", "fitted_options", "opened_exploration"]

WIDTHS = (8, 6, 4)
"""Widths of weights that are tried for samples without widths (bits)."""


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
    cluster: str | None = None,
    verify: int = 0,
    samples: Any = None,
    labels: Any = None,
    bits: Sequence[int] = (),
    **model_options: Any,
) -> Exploration:
    """Find the best designs of a model on a part: the Pareto front of its figures.

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
        The most of each goal, the least ``rate`` (results per second at the expected clock), and the largest ``loss``
        of accuracy (percentage points).
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
    cluster : str, optional
        Address of a Dask scheduler whose workers plan and estimate, ``tcp://host:8786`` or ``tls://host:8786``.
    verify : int
        Best designs that are placed and routed: their cells and clock are measured.
    samples : array, tuple of arrays, or mapping of str to array, optional
        As for `tg2hdl.quantize`: the model becomes integers, with widths of weights by layer.  Half of the samples
        choose the scales, the other half judges.
    labels : array of int, optional
        Correct class of each sample; without them the answers of the float model count as right.
    bits : sequence of int
        Widths of weights to choose from (bits); 8, 6 and 4 unless given.
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
    loaded = load_model(model, example_inputs, name=name, validate=options.validate, **model_options)
    with rare_collection(), step(f"exploring {loaded.label}") as say:
        say("kernels of the model")
        with opened_exploration(
            loaded,
            options,
            part,
            goal=goal,
            limits=limits,
            space=space,
            allow=allow,
            samples=samples,
            labels=labels,
            bits=bits,
            study=None if study is None else Path(study),
            resume=resume,
            workers=workers,
            cluster=cluster,
            progress=say,
        ) as search:
            search.run()
            return search.verify(verify)


@contextmanager
def opened_exploration(
    loaded: LoadedModel,
    options: CompileOptions,
    part: str,
    *,
    goal: str,
    limits: Mapping[str, float],
    space: Mapping[str, Sequence[Any]],
    allow: Collection[str],
    samples: Any,
    labels: Any,
    bits: Sequence[int],
    study: Path | None,
    resume: bool,
    workers: int,
    cluster: str | None,
    progress: Callable[[str], None],
) -> Iterator[Search]:
    """The search of an exploration; parameters as of `explore`.

    Parameters
    ----------
    loaded : LoadedModel
    options : CompileOptions
    part : str
    goal, limits, space, allow, samples, labels, bits, study, resume, workers, cluster, progress
        As of `explore`.
    """
    goal_named(goal), check_limits(limits), part_of(part)
    if samples is None and (bits or labels is not None):
        raise InputError("widths of weights need samples", hint="give samples, and labels for the accuracy")
    if samples is None and "loss" in (*limits, goal):
        raise InputError(
            "nothing changes the accuracy of the model as it is", hint="give samples, and widths of weights"
        )
    given = tuple(bits) or WIDTHS
    captured = loaded.capture()
    with Workers(workers, cluster, progress) as pool:
        if samples is None:
            figures = opened_study(study, resume, captured, part)
            variants = [WidthVariant(captured, loaded.gives_codes)]
        else:
            figures = opened_study(study, resume, captured, part, samples_key(samples, labels, given))
            try:
                variants = quantized_variants(
                    loaded.model,
                    samples,
                    labels,
                    given,
                    name=loaded.label,
                    most_loss=limits.get("loss"),
                    gives_codes=loaded.gives_codes,
                    known=figures.widths,
                    progress=progress,
                )
            finally:
                figures.save()
        with _opened_search(
            variants,
            options,
            part,
            label=loaded.label,
            goal=goal,
            limits=limits,
            space=space,
            allow=allow,
            study=figures,
            workers=pool,
            progress=progress,
        ) as search:
            yield search


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
    model = [WidthVariant(captured)]
    with _opened_search(model, options, part, label=captured.program.name, progress=progress) as search:
        chosen = search.run(every=False).best.options
    return replace(chosen, validate=options.validate, validate_keep=options.validate_keep)


@contextmanager
def _opened_search(
    variants: Sequence[WidthVariant],
    options: CompileOptions,
    part: str,
    *,
    label: str,
    goal: str = "latency",
    limits: Mapping[str, float] = {},
    space: Mapping[str, Sequence[Any]] = {},
    allow: Collection[str] = (),
    study: Study | None = None,
    workers: Workers | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Search]:
    """A search over the designs of the variants of a model; parameters as of `explore`."""
    chosen, limits, target = goal_named(goal), check_limits(limits), part_of(part)
    programs = {v.name: (v.captured.program, v.captured.var_vals) for v in variants}
    needs_clock = (
        chosen.needs_clock or "rate" in limits or any(GOALS[n].needs_clock for n in limits if n in GOALS)
    )
    base = replace(options, validate="auto", validate_keep=None)
    if base.weights == "external" and base.on_chip_bits is None:
        base = replace(base, on_chip_bits=target.bram * target.bram_bits)
    first = variants[0].captured.program
    found = space_of(first, target, base, given=space, allow=allow, families=needs_clock)
    key = content_key(*(f"{name} {program_key(*program)}" for name, program in programs.items()))
    runner = PointRunner(PointPlanner(programs, target.name), workers or Workers(), key)
    by_name = {variant.name: variant for variant in variants}

    def compiled(choice: PointChoice) -> Accelerator:
        wanted = choice.options
        if wanted.validate != "off":
            wanted = replace(wanted, validate=options.validate, validate_keep=options.validate_keep)
        planned = replace(choice, options=replace(wanted, validate="auto", validate_keep=None))
        variant, design = by_name[choice.bits], runner.design(planned)
        program = variant.captured.program
        if design is None:
            made = compile_program(program, wanted)
        else:
            made = validated(program, wanted, lambda *_: design)
        return Accelerator(variant.captured, made, variant.gives_codes)

    figures = Study(None, key, target.name) if study is None else study
    try:
        yield Search(label, found, figures, runner, chosen.name, limits, variants, compiled, progress)
    finally:
        runner.close()


def opened_study(
    path: Path | None, resume: bool, captured: CapturedProgram, part: str, further: str = ""
) -> Study:
    """The study of a program, and of `further`: samples and widths; that of the file where it goes on.

    Raises
    ------
    InputError
        For a file that is not a study, or one of something else.
    """
    key, name = program_key(captured.program, captured.var_vals), part_of(part).name
    key = content_key(key, further) if further else key
    return Study.resumed(path, key, name) if path and resume else Study(path, key, name)

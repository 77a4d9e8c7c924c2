"""The levelized engine: generated C, compiled to a shared library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tg2hdl_ir.content_cache import content_key
from tg2hdl_sim import compiler as cc
from tg2hdl_sim.collection import paused_collection
from tg2hdl_sim.levelized.emit import emit
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.program import build_program
from tg2hdl_sim.levelized.wave import find_wave
from tg2hdl_sim.model import Elaboration
from tg2hdl_sim.native import CompiledEngine
from tg2hdl_sim.sources import generator_digest, source, sources_digest
from tg2hdl_sim.version import __version__

__all__ = ["generate", "open_levelized", "recipe"]

FLAGS = (
    "-x",
    "c",
    "-std=gnu11",
    "-O2",
    "-ftree-vectorize",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-w",
    "-march=native",
)


def generate(
    elaboration: Elaboration, *, batch: int = 0, varying: tuple[str, ...] = (), wave: bool = False
) -> str:
    """Return the C of a design."""
    with paused_collection():
        shown = find_wave(elaboration) if wave else None
        design = lower(elaboration, shown.watched if shown else ())
        program = build_program(design, varying, batch=batch > 0)
        return emit(program, list(elaboration.ports), len(elaboration.memories), batch, shown)


def _build(
    elaboration: Elaboration,
    compiler: cc.Compiler,
    batch: int,
    varying: tuple[str, ...],
    wave: bool,
    progress: Callable[[str], None],
    directory: Path,
) -> Path:
    progress(f"translating {elaboration.model.name} to C")
    (directory / "model.c").write_text(generate(elaboration, batch=batch, varying=varying, wave=wave))
    for name in ("levelized.h", "levelized_interface.h"):
        (directory / name).write_text(source(name))
    progress(f"compiling {elaboration.model.name} with {compiler.identity}")
    slow = ["-O1"] if wave else []  # writing the wave takes most of the time
    cc.compile_shared(compiler, ["model.c"], "model.so", directory=directory, base=FLAGS, flags=slow)
    return directory / "model.so"


def _key(
    elaboration: Elaboration, compiler: cc.Compiler, batch: int, varying: tuple[str, ...], wave: bool
) -> str:
    # The names of signals are in a waveform only.
    names = (
        [[*m.name, *map(str, m.signal_names.values())] for m in elaboration.netlist.modules] if wave else []
    )
    return content_key(
        "levelized",
        __version__,
        sources_digest(),
        generator_digest(),
        compiler.identity,
        cc.native_target(compiler),
        *compiler.command,
        *FLAGS,
        str(batch),
        repr(varying),
        repr((wave, names)),
        repr([(memory.path, memory.info.name) for memory in elaboration.memories]),
        repr(list(elaboration.ports)),
        elaboration.content,
    )


def recipe(
    elaboration: Elaboration,
    progress: Callable[[str], None],
    *,
    batch: int = 0,
    varying: tuple[str, ...] = (),
    wave: bool = False,
) -> tuple[str, Callable[[Path], Path]]:
    """Return the cache key of a model, and the function that builds it in a directory."""
    compiler = cc.find_compiler()
    key = _key(elaboration, compiler, batch, varying, wave)
    return key, partial(_build, elaboration, compiler, batch, varying, wave, progress)


open_levelized = CompiledEngine("levelized", recipe)

"""The levelized engine: generated C, compiled to a shared library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tg2hdl_ir.collection import paused_collection
from tg2hdl_ir.content_cache import content_key
from tg2hdl_sim import compiler as cc
from tg2hdl_sim.background import BackgroundBuild
from tg2hdl_sim.levelized.emit import emit
from tg2hdl_sim.levelized.lowering import lower
from tg2hdl_sim.levelized.program import build_program
from tg2hdl_sim.levelized.wave import find_wave
from tg2hdl_sim.model import Elaboration, SimulationModel
from tg2hdl_sim.native import (
    CODE,
    LIBRARY,
    CompiledEngine,
    NativeSimulation,
    compiled_library,
    is_cached,
)
from tg2hdl_sim.sources import generator_digest, source, sources_digest
from tg2hdl_sim.version import __version__

__all__ = ["LARGE", "LevelizedEngine", "generate", "open_levelized", "recipe"]

LARGE, BYTES_PER_SECOND = 100_000, 100_000
"""Bytes of C from which the compiler's time is felt, and its speed; see ``benchmarks/sim/optimization.py``."""

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
    "-mtune=generic",  # its multiplexers and moves are up to 1.8 times as fast as those for AMD
)


def generate(
    elaboration: Elaboration, *, batch: int = 0, varying: tuple[str, ...] = (), wave: bool = False
) -> str:
    """Return the C of a design.

    Parameters
    ----------
    elaboration : Elaboration
    batch : int, default 0
        Simulations in one model; 0 for a single one.
    varying : tuple of str, optional
        Ports that differ among the simulations of a batch.
    wave : bool, default False
        Whether a waveform can be recorded.
    """
    with paused_collection():
        shown = find_wave(elaboration) if wave else None
        design = lower(elaboration, shown.watched if shown else (), pack=not varying)
        program = build_program(design, varying, batch=batch > 0)
        return emit(program, list(elaboration.ports), len(elaboration.memories), batch, shown)


def _build(
    elaboration: Elaboration,
    compiler: cc.Compiler,
    batch: int,
    varying: tuple[str, ...],
    wave: bool,
    first: bool,
    progress: Callable[[str], None],
    directory: Path,
) -> Path:
    progress(f"translating {elaboration.model.name} to C")
    code = generate(elaboration, batch=batch, varying=varying, wave=wave)
    _write(code, directory)
    progress(f"compiling {elaboration.model.name} with {compiler.identity}")
    flags = ["-O1"] if wave else []  # writing the wave takes most of the time
    if first and len(code) > LARGE:
        flags = ["-O0"]
    cc.compile_shared(compiler, [CODE], LIBRARY, directory=directory, base=FLAGS, flags=flags)
    return directory / LIBRARY


def _write(code: str, directory: Path) -> None:
    (directory / CODE).write_text(code)
    for name in ("levelized.h", "levelized_interface.h"):
        (directory / name).write_text(source(name))


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
    first: bool = False,
) -> tuple[str, Callable[[Path], Path]]:
    """Return the cache key of a model, and the function that builds it in a directory.

    With `first`, a model that takes the compiler long is not optimized.

    Parameters
    ----------
    elaboration : Elaboration
    progress : callable
        Called with one line of text for each step.
    batch : int, default 0
        Simulations in one model; 0 for a single one.
    varying : tuple of str, optional
        Ports that differ among the simulations of a batch.
    wave : bool, default False
        Whether a waveform can be recorded.
    first : bool, default False
        Compile without optimization if that takes long.
    """
    compiler = cc.find_compiler()
    key = _key(elaboration, compiler, batch, varying, wave)
    build = partial(_build, elaboration, compiler, batch, varying, wave, first, progress)
    return (_first_key(key) if first else key), build


def _first_key(key: str) -> str:
    return content_key(key, "first")


class LevelizedEngine(CompiledEngine):
    """Opens a model as soon as it runs, and optimizes one that runs long in the background."""

    def __call__(
        self,
        model: SimulationModel,
        *,
        vcd: Path | None = None,
        cache: bool = True,
        progress: Callable[[str], None],
    ) -> NativeSimulation:
        """Open a model; see `tg2hdl_sim.open_simulation`."""
        elaboration = self.elaborated(model, vcd)
        key, _ = self.recipe(elaboration, progress, wave=vcd is not None)
        if vcd is not None or (cache and is_cached(key)):
            return super().__call__(model, vcd=vcd, cache=cache, progress=progress)
        self.remember(model, vcd, key)
        first, build = recipe(elaboration, progress, first=True)
        with compiled_library(first, build, cache=cache) as library:
            code, better = library.with_name(CODE).read_text(), None
            if len(code) > LARGE:
                better = _background(key, code, cache)
            return NativeSimulation(elaboration, self.name, library, better=better)

    def elaborated(self, model: SimulationModel, vcd: Path | None) -> Elaboration:
        """The elaboration of a model; a waveform has the signals of all components.

        Parameters
        ----------
        model : SimulationModel
        vcd : Path or None
            File of the waveform, if there is one.
        """
        return model.elaboration if vcd else model.compact

    def has(self, key: str) -> bool:
        """Whether the cache has the compiled model of a key."""
        return is_cached(key) or is_cached(_first_key(key))


def _background(key: str, code: str, cache: bool) -> BackgroundBuild:
    """Return the build of an optimized model."""

    def prepare(directory: Path) -> list[str]:
        _write(code, directory)
        return cc.shared_command(cc.find_compiler(), [CODE], LIBRARY, base=FLAGS)

    def keep(directory: Path) -> Path:
        if not cache:
            return directory / LIBRARY
        with compiled_library(key, lambda _: directory / LIBRARY, cache=True) as library:
            return library

    return BackgroundBuild(len(code) / BYTES_PER_SECOND, prepare, keep)


open_levelized = LevelizedEngine("levelized", recipe)

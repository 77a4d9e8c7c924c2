"""Simulation through the C interface of a compiled model."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_sim.background import BackgroundBuild
from tg2hdl_sim.model import Elaboration, Forecast, SimulationModel
from tg2hdl_sim.simulation import Simulation
from tg2hdl_sim.sources import generator_digest, sources_digest
from tg2hdl_sim.words import Chunks

__all__ = [
    "ADDRESSES",
    "CHUNKS",
    "HANDLE",
    "SLICE",
    "U32",
    "U64",
    "CompiledEngine",
    "NativeSimulation",
    "compiled_library",
    "is_cached",
]

LIBRARY, CODE = "model.so", "model.c"

SLICE = 1 << 20  # cycles per call, so that an interrupt is seen
SHORT_SLICE = 1 << 12  # while a better library is awaited

HANDLE, U32, U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
CHUNKS = np.ctypeslib.ndpointer(dtype="<u4", flags="C_CONTIGUOUS")
WORD = ctypes.c_char_p  # one value: passing an array takes longer
ADDRESSES = np.ctypeslib.ndpointer(dtype="<u8", flags="C_CONTIGUOUS")
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tg_create": (HANDLE, []),
    "tg_destroy": (None, [HANDLE]),
    "tg_cycles": (U64, [HANDLE]),
    "tg_set": (None, [HANDLE, U32, WORD]),
    "tg_get": (None, [HANDLE, U32, CHUNKS]),
    "tg_step": (None, [HANDLE, U64]),
    "tg_run_until": (ctypes.c_int64, [HANDLE, U32, WORD, U64]),
    "tg_write_memory": (ctypes.c_int, [HANDLE, U32, U64, U64, CHUNKS]),
    "tg_read_memory": (ctypes.c_int, [HANDLE, U32, U64, U64, CHUNKS]),
    "tg_write_stream": (None, [HANDLE, U32, U32, U32, CHUNKS, U64, ADDRESSES, CHUNKS]),
    "tg_read_stream": (None, [HANDLE, U32, U32, U64, ADDRESSES, U64, CHUNKS]),
    "tg_open_wave": (ctypes.c_int, [HANDLE, ctypes.c_char_p]),
}


class NativeSimulation(Simulation):
    """A compiled model.

    Parameters
    ----------
    library : Path
        The shared library; several simulations may use the same one.
    vcd : Path, optional
        Waveform to write; the library must be built for it.
    better : BackgroundBuild, optional
        Makes a better optimized library of the same source, which takes over when it is there.
    """

    def __init__(
        self,
        elaboration: Elaboration,
        engine: str,
        library: Path,
        vcd: Path | None = None,
        better: BackgroundBuild | None = None,
    ) -> None:
        super().__init__(elaboration, engine)
        self._vcd, self._better = vcd, better
        self._library = _load(library)
        self._handle = self._library.tg_create()
        self._initialize()
        self._start_wave()

    def _start_wave(self) -> None:
        if self._vcd and not self._library.tg_open_wave(self._handle, str(self._vcd).encode()):
            self.close()
            raise InputError(
                f"cannot write the waveform {str(self._vcd)!r}",
                where=self.name,
                hint="give a path in an existing directory that you may write to",
            )

    def _close(self) -> None:
        if self._better is not None:
            self._better.close()
        self._library.tg_destroy(self._handle)
        self._handle = None

    @property
    def _slice(self) -> int:
        return SLICE if self._better is None else SHORT_SLICE

    def _call(self, function: str, *arguments: Any) -> Any:
        """Call a function that takes time; then continue in a better library, if there is one by now."""
        started = time.perf_counter()
        result = getattr(self._library, function)(self._handle, *arguments)
        if self._better is not None:
            self._improve(self._better.spend(time.perf_counter() - started))
        return result

    def _improve(self, library: Path | None) -> None:
        """Continue in another library of the same source, whose state has the same layout."""
        if library is None:
            return
        assert self._better is not None
        newer = _load(library)
        newer.tg_copy.restype, newer.tg_copy.argtypes = None, [HANDLE, HANDLE]
        handle = newer.tg_create()
        newer.tg_copy(handle, self._handle)
        self._library.tg_destroy(self._handle)
        self._library, self._handle = newer, handle
        self._better.close()
        self._better = None

    def _reset(self) -> None:
        self._refuse_reset_of_wave(self._vcd)
        self._library.tg_destroy(self._handle)
        self._handle = self._library.tg_create()

    @property
    def cycles(self) -> int:
        """Rising clock edges since the start or the last reset."""
        self._check_open()
        return int(self._library.tg_cycles(self._handle))

    def _set(self, port: int, value: Chunks) -> None:
        self._library.tg_set(self._handle, port, value.tobytes())

    def _get(self, port: int, chunks: int) -> Chunks:
        value = np.zeros((1, chunks), dtype="<u4")
        self._library.tg_get(self._handle, port, value)
        return value

    def _step(self, count: int) -> None:
        done = 0
        while done < count:
            part = min(self._slice, count - done)
            self._call("tg_step", part)
            done += part

    def _run_until(self, port: int, value: Chunks, limit: int) -> int | None:
        done, wanted = 0, value.tobytes()
        while True:
            part = min(self._slice, limit - done)
            used = int(self._call("tg_run_until", port, wanted, part))
            if used >= 0:
                return done + used
            done += part
            if done == limit:
                return None

    def _write_memory(self, memory: int, offset: int, chunks: Chunks) -> None:
        if not self._library.tg_write_memory(self._handle, memory, offset, len(chunks), chunks):
            raise self._absent(memory)

    def _read_memory(self, memory: int, offset: int, count: int, chunks: int) -> Chunks:
        words = np.zeros((count, chunks), dtype="<u4")
        if not self._library.tg_read_memory(self._handle, memory, offset, count, words):
            raise self._absent(memory)
        return words

    def _absent(self, memory: int) -> SimulationError:
        return SimulationError(
            f"memory {self._elaboration.memories[memory].info.name!r} is not in the compiled model",
            where=f"{self.name}, engine {self.engine}",
            hint="give it a read port that the design uses; a memory that nothing reads is optimized away",
        )

    def _write_stream(
        self,
        addr: int,
        data: int,
        enable: int,
        on: Chunks,
        addresses: NDArray[np.uint64],
        chunks: Chunks,
    ) -> None:
        self._call(
            "tg_write_stream", addr, data, enable, on, len(addresses), addresses, np.ascontiguousarray(chunks)
        )

    def _read_stream(
        self, addr: int, data: int, addresses: NDArray[np.uint64], latency: int, chunks: int
    ) -> Chunks:
        words = np.zeros((len(addresses), chunks), dtype="<u4")
        self._call("tg_read_stream", addr, data, len(addresses), addresses, latency, words)
        return words


def _load(library: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


@dataclass(frozen=True)
class CompiledEngine:
    """Opens models as compiled libraries; the `open` of an engine's descriptor.

    Parameters
    ----------
    name : str
    recipe : callable
        ``(elaboration, progress, wave: bool) -> (cache key, function that builds the library in a directory)``.
    """

    name: str
    recipe: Callable[..., tuple[str, Callable[[Path], Path]]]

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
        key, build = self.recipe(elaboration, progress, wave=vcd is not None)
        self.remember(model, vcd, key)
        with compiled_library(key, build, cache=cache) as library:
            return NativeSimulation(elaboration, self.name, library, vcd)

    def elaborated(self, model: SimulationModel, vcd: Path | None) -> Elaboration:
        """The elaboration of a model that its library is made from.

        Parameters
        ----------
        model : SimulationModel
        vcd : Path or None
            File of the waveform, if there is one.
        """
        return model.elaboration

    def remember(self, model: SimulationModel, vcd: Path | None, key: str) -> None:
        """Keep which compiled model belongs to a forecast.

        Parameters
        ----------
        model : SimulationModel
        vcd : Path or None
            File of the waveform, if there is one.
        key : str
            Of the library in the cache.
        """
        if model.expected is not None:
            ContentCache("sim").write(self._forecast_key(model.expected, vcd), key.encode())

    def is_cached(self, model: SimulationModel, *, vcd: Path | None = None) -> bool:
        """Whether opening the model needs no build; a model with a forecast is not elaborated.

        Parameters
        ----------
        model : SimulationModel
        vcd : Path, optional
            File of the waveform, if there is one.
        """
        if model.expected is not None:
            known = ContentCache("sim").read(self._forecast_key(model.expected, vcd))
            return known is not None and self.has(known.decode())
        key, _ = self.recipe(self.elaborated(model, vcd), lambda message: None, wave=vcd is not None)
        return self.has(key)

    def has(self, key: str) -> bool:
        """Whether the cache has the compiled model of a key."""
        return is_cached(key)

    def _forecast_key(self, expected: Forecast, vcd: Path | None) -> str:
        digests = (sources_digest(), generator_digest())
        return content_key("forecast", self.name, *digests, expected.identity, str(vcd is not None))


@contextmanager
def compiled_library(key: str, build: Callable[[Path], Path], *, cache: bool) -> Iterator[Path]:
    """Yield the library of a key, from the cache when it is allowed.

    Parameters
    ----------
    key : str
        Of the library in the cache.
    build : callable
        Makes the library in an empty folder and returns its file.
    cache : bool
        Otherwise the library is removed after it is loaded.
    """
    if cache:
        yield _cached_library(key, build)
        return
    directory = Path(tempfile.mkdtemp(prefix="tg2hdl-sim-"))
    try:
        yield build(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)  # the mapped library stays usable


def is_cached(key: str) -> bool:
    """Whether the compiled model of a key is in the cache."""
    return ContentCache("sim").lookup(key) is not None


def _cached_library(key: str, build: Callable[[Path], Path]) -> Path:
    """Library of a key, compiled in a folder of its own when it is not in the cache."""

    def keep_library(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tg2hdl-sim-") as work:
            shutil.move(build(Path(work)), folder / LIBRARY)
            if (Path(work) / CODE).exists():
                shutil.move(Path(work) / CODE, folder / CODE)

    return ContentCache("sim").get(key, keep_library).folder / LIBRARY

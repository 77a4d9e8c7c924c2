"""Runs programs on the simulator in software: the same results and cycles as the hardware."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_ir.turns import compiles
from tg2hdl_tpu import csource
from tg2hdl_tpu.bundle import Bundle, Region
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.instruction_checks import is_illegal
from tg2hdl_tpu.isa import FIRST_VECTOR, Instruction, Trap, encode
from tg2hdl_tpu.vector_ops import VECTOR_OPS

__all__ = ["TRACE", "Machine", "Result", "host_rows", "run_bundle"]

Words = NDArray[np.int32]
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-w")

#: One record of a trace: program counters of the units in a cycle (-1 for none), and their activity.
TRACE = np.dtype(
    [
        ("row_pc", "<i4"),
        ("sxu_pc", "<i4"),
        ("load_pc", "<i4"),
        ("store_pc", "<i4"),
        ("row", "u1"),
        ("sxu", "u1"),
        ("load", "u1"),
        ("store", "u1"),
    ]
)


class _Counters(ctypes.Structure):
    _fields_ = [
        ("cycles", ctypes.c_int64),
        ("instructions", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("trap", ctypes.c_int32),
        ("pc", ctypes.c_int32),
    ]


class _Stream(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_void_p),
        ("first", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("words", ctypes.c_int32),
    ]


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Parameters
    ----------
    trap : Trap
        `Trap.NONE` after `halt`.
    pc : int
        Program counter of the instruction that ended the run.
    cycles : int
        From start to halt.
    instructions, rows : int
        Instructions finished, and rows issued.
    outputs : dict of str to ndarray
        Outputs of a bundle: int32, a row of lanes for each row.
    trace : ndarray or None
        A record of `TRACE` for each cycle.
    """

    trap: Trap
    pc: int
    cycles: int
    instructions: int
    rows: int
    outputs: dict[str, Words] = field(default_factory=dict)
    trace: NDArray[Any] | None = None


def _build(config: Config) -> Path:
    from tg2hdl_sim.compiler import compile_shared, find_compiler

    source = (Path(__file__).parent / "native" / "simulator.cpp").read_text()
    files = {
        "tpu_generated.h": csource.generated_header(config),
        "tpu_operations.h": csource.operations(),
        "simulator.cpp": source,
    }
    compiler = find_compiler()

    def build(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)
        compile_shared(compiler, ["simulator.cpp"], "machine.so", directory=folder, base=_FLAGS)

    key = content_key(compiler.identity, *_FLAGS, *files.values())
    return ContentCache("tpu").get(key, build).folder / "machine.so"


_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int32)
)


def _evaluator(lanes: int) -> Any:
    """The operations that have no C, called by the simulator for each row."""

    def evaluate(opcode: int, source: Any, target: Any) -> None:
        a = np.ctypeslib.as_array(source, (lanes,))
        op = VECTOR_OPS[opcode - FIRST_VECTOR]
        np.ctypeslib.as_array(target, (lanes,))[:] = op.numpy(a, a, a, 0)

    return _FUNCTION(evaluate)


_evaluators: dict[str, Any] = {}
"""Callbacks of each library, as long as the process lives: a library is never unloaded, and machines share it."""


@compiles
def _library(config: Config) -> Any:
    """The compiled simulator; one thread loads it."""
    return _loaded(config)


@lru_cache(maxsize=16)
def _loaded(config: Config) -> Any:
    path = str(_build(config))
    library = ctypes.CDLL(path)
    for name in ("tpu_size", "tpu_vmem_offset", "tpu_weights_offset"):
        getattr(library, name).restype = ctypes.c_int64
    library.tpu_program.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
    library.tpu_run.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    if path not in _evaluators:
        _evaluators[path] = _evaluator(config.lanes)
        library.tpu_set_function(_evaluators[path])
    return library


class Machine:
    """A machine in software, for one thread; `run_bundle` makes one for each call.

    Parameters
    ----------
    config : Config
        Its parameters.

    Attributes
    ----------
    vmem, xmem : ndarray of int32
        Scratchpad and external memory, rows x lanes; they keep their contents from run to run.
    weights : ndarray of `Config.matrix_format`
        The tile of the matrix unit; float32 for all formats of floats.
    program : tuple of int
        Instruction words.
    name : str
        Of the program, for profiles.

    Raises
    ------
    ToolMissingError
        Without a C++ compiler (`tg2hdl_tpu.reference.Reference` needs none).
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config = config or Config()
        self.name = ""
        self._library = _library(config)
        size = int(self._library.tpu_size())
        # Aligned for the vectors that the compiler uses.
        self._storage = np.zeros(size + 64, dtype=np.uint8)
        start = -self._storage.ctypes.data % 64
        state = self._storage[start : start + size]
        self._state = state
        at = int(self._library.tpu_vmem_offset())
        rows, lanes = config.vmem_rows, config.lanes
        self.vmem: Words = state[at : at + 4 * rows * lanes].view(np.int32).reshape(rows, lanes)
        at = int(self._library.tpu_weights_offset())
        element = np.dtype(np.float32 if config.matrix_is_float else config.matrix_format)
        tile = state[at : at + config.rows * config.columns * element.itemsize]
        self.weights: NDArray[Any] = tile.view(element).reshape(config.rows, config.columns)
        self.xmem: Words = np.zeros((config.xmem_rows, lanes), dtype=np.int32)
        self.load_program([])

    def load_program(self, program: Sequence[Instruction | int]) -> None:
        """Replace the program; words that are not instructions trap when they are reached.

        Raises
        ------
        InputError
            When the program is longer than the memory.
        """
        words = [encode(i) if isinstance(i, Instruction) else i for i in program]
        if len(words) > self.config.imem_depth:
            raise InputError(
                f"{len(words)} instructions",
                where="program",
                hint=f"there is room for {self.config.imem_depth}",
            )
        illegal = np.array([is_illegal(w, self.config) for w in words], dtype=np.uint8)
        self.load_words(words, illegal)

    def load_words(self, words: Sequence[int], illegal: NDArray[np.uint8]) -> None:
        """Replace the program by words that are classified already.

        Parameters
        ----------
        words : sequence of int
            Instruction words.
        illegal : ndarray of uint8
            1 for each word that traps, 0 for the others.
        """
        raw = np.frombuffer(b"".join(w.to_bytes(16, "little") for w in words), dtype=np.uint64)
        self.program = tuple(words)
        self._library.tpu_program(self._state.ctypes.data, raw.ctypes.data, illegal.ctypes.data, len(words))

    def run(self, *, limit: int = 10_000_000, trace: int = 0, streamed: Region | None = None) -> Result:
        """Run the program from its first instruction.

        Parameters
        ----------
        limit : int
            Cycles after which the run ends with `Trap.LIMIT`.
        trace : int
            Cycles to record.
        streamed : Region, optional
            Rows of the scratchpad.  They and the program come through the host port while the machine runs, one row and
            one instruction a cycle; the first of both one cycle before the first cycle of the run.
        """
        counters = _Counters()
        records = np.zeros(trace, dtype=TRACE)
        stream = None
        if streamed is not None:
            rows = np.ascontiguousarray(streamed.rows)
            stream = ctypes.byref(_Stream(rows.ctypes.data, streamed.start, len(rows), len(self.program)))
        self._library.tpu_run(
            self._state.ctypes.data,
            self.xmem.ctypes.data,
            limit,
            ctypes.byref(counters),
            records.ctypes.data if trace else None,
            trace,
            stream,
        )
        return Result(
            Trap(counters.trap),
            counters.pc,
            counters.cycles,
            counters.instructions,
            counters.rows,
            trace=records[: min(trace, counters.cycles)] if trace else None,
        )

    def memory(self, space: str) -> Words:
        """Return the memory ``vmem`` or ``xmem``."""
        return self.vmem if space == "vmem" else self.xmem

    def load_bundle(self, bundle: Bundle) -> None:
        """Load program and data.

        Raises
        ------
        InputError
            When the bundle is for another machine.
        """
        if bundle.config != self.config:
            raise InputError(
                "the bundle is for another configuration",
                where="bundle",
                hint="make a Machine(bundle.config)",
            )
        self.load_program(bundle.program)
        for region in bundle.data:
            self.memory(region.space)[region.start : region.start + len(region.rows)] = region.rows


def host_rows(bundle: Bundle) -> Region:
    """Return the data of a bundle that can come through the host port.

    Raises
    ------
    InputError
        Unless all data are neighbouring rows of the scratchpad, and there is a program.
    """
    starts = [region.start for region in bundle.data]
    ends = [region.start + len(region.rows) for region in bundle.data]
    if starts[1:] != ends[:-1] or any(r.space != "vmem" for r in bundle.data) or not bundle.program:
        raise InputError(
            "only a program with neighbouring rows of the scratchpad comes through the host port",
            where="bundle",
            hint="put all data into one run of rows of vmem, or leave streamed=True out",
        )
    rows = [region.rows for region in bundle.data] or [np.zeros((0, bundle.config.lanes), np.int32)]
    return Region("vmem", starts[0] if starts else 0, np.concatenate(rows))


def run_bundle(bundle: Bundle, *, limit: int = 10_000_000, trace: int = 0, streamed: bool = False) -> Result:
    """Run a bundle on a new machine and return its outputs; `streamed` as in `Machine.run`.

    Parameters
    ----------
    bundle : Bundle
    limit : int
        Most clock cycles.
    trace : int
        Cycles to record from the start.
    streamed : bool
        Whether program and data come through the host port.

    Raises
    ------
    InputError
        When data do not fit the host port.
    """
    machine = Machine(bundle.config)
    if streamed:
        machine.load_program(bundle.program)
    else:
        machine.load_bundle(bundle)
    result = machine.run(limit=limit, trace=trace, streamed=host_rows(bundle) if streamed else None)
    outputs = {o.name: machine.memory(o.space)[o.start : o.start + o.count].copy() for o in bundle.outputs}
    return replace(result, outputs=outputs)

"""Accesses of registers that load, start and check a design, for the testbenches of buses and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tg2hdl.testbench.vectors import golden_runs
from tg2hdl_lower import from_words, to_words
from tg2hdl_top.ports import register_map_of
from tg2hdl_top.register_map import AddressWindow, RegisterMap, padded_bits

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["AccessOperation", "RegisterAccess", "register_accesses"]


class AccessOperation:
    """Codes of accesses: write a word; read one and compare it; start a run and wait for its end."""

    WRITE, CHECK, RUN = range(3)


@dataclass(frozen=True)
class RegisterAccess:
    """An access of a register.

    Parameters
    ----------
    operation : int
        As in `AccessOperation`.
    address : int
        In bytes.
    data : int
        Word that is written or expected; of a run its number.
    about : str
    """

    operation: int
    address: int
    data: int
    about: str = ""


def register_accesses(accelerator: CompiledModel, runs: int) -> list[RegisterAccess]:
    """Accesses of some runs of a design whose only host port has a register map.

    Parameters
    ----------
    accelerator : CompiledModel
        With one host port.
    runs : int
    """
    (port,) = accelerator.design.ports
    found = register_map_of(port)
    assert found is not None, "the port has a register map"
    places = {register.name: register.address for register in found.registers}
    accesses = [RegisterAccess(AccessOperation.CHECK, places["MAGIC"], 0x48324754, "MAGIC")]
    for name, start in (("ID_LOW", 8), ("ID_HIGH", 0)):
        digits = found.serves.identity.rjust(16, "0")[start : start + 8]
        accesses.append(RegisterAccess(AccessOperation.CHECK, places[name], int(digits, 16), name))
    if found.has_bus:
        accesses.append(RegisterAccess(AccessOperation.WRITE, places["IRQ_ENABLE"], 1, "IRQ_ENABLE"))
    for number, run in enumerate(golden_runs(accelerator, runs)):
        accesses += _of_run(accelerator, found, places, number, run)
    return [*accesses, RegisterAccess(AccessOperation.CHECK, places["ERROR"], 0, "ERROR")]


def _of_run(
    accelerator: CompiledModel, found: RegisterMap, places: dict[str, int], number: int, run: Any
) -> list[RegisterAccess]:
    design, accesses = accelerator.design, []
    windows = {w.buffer.name: w for w in found.windows}
    for variable in design.variables:
        place = places[f"VARIABLE_{variable.name}"]
        accesses.append(
            RegisterAccess(
                AccessOperation.WRITE, place, run.values[variable.name] & 0xFFFFFFFF, variable.name
            )
        )
    for buffer, packed in design.loads(run.bound).items():
        memory = design.memory(buffer)
        if number == 0 or not memory.role.is_weight:
            elements = from_words(to_words(packed, memory.dtype.bit_width), memory.layout, memory.dtype)
            accesses += _words(AccessOperation.WRITE, windows[memory.name], elements)
    accesses += [
        RegisterAccess(AccessOperation.RUN, places["START"], number, "START"),
        RegisterAccess(
            AccessOperation.CHECK, places["CYCLES"], design.predicted_cycles(run.values), "CYCLES"
        ),
    ]
    for buffer in dict.fromkeys(design.program.outputs):
        memory = design.memory(buffer)
        result = run.results[design.program.buffers[buffer].name].reshape(-1).astype(memory.dtype.numpy())
        accesses += _words(AccessOperation.CHECK, windows[memory.name], result)
    return accesses


def _words(operation: int, window: AddressWindow, elements: np.ndarray) -> list[RegisterAccess]:
    """Accesses of all words of a buffer: elements in the order of the model, little-endian."""
    raw = padded_bits(window.buffer.dtype, window.element_bytes, elements).tobytes()
    words = np.frombuffer(raw + bytes(-len(raw) % 4), "<u4").tolist()
    title = window.buffer.name
    return [RegisterAccess(operation, window.address + 4 * n, word, title) for n, word in enumerate(words)]

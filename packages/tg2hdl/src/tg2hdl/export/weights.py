"""Weights of a design as files: elements for C and for programs, words for ``$readmemh``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tg2hdl_top.register_map import identifiers

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = ["weight_files"]


def weight_files(accelerator: CompiledModel, name: str) -> dict[str, str | bytes]:
    """Each weight as a C array, as little-endian bytes, and as the words of its memory; by paths in the folder.

    The elements of the first two are those of the model in C order, of the type that the model has.  Weights in memory
    outside the chip have no words of their own: their file is the memory image.

    Parameters
    ----------
    accelerator : CompiledModel
    name : str
        Of the design; begins the names of the arrays.
    """
    program = accelerator.design.program
    weights = [b for b in program.buffers if b.role == "weight" and b.initial is not None]
    memories = {entry.name: entry for entry in accelerator.memory}
    found: dict[str, str | bytes] = {}
    for buffer, label in zip(weights, identifiers([b.name for b in weights]), strict=True):
        array = np.ascontiguousarray(buffer.initial)
        base = f"weights/{name}_{label.lower()}"
        found[f"{base}.bin"] = array.astype(array.dtype.newbyteorder("<")).tobytes()
        found[f"{base}.h"] = _c_array(f"{name}_{label.lower()}", buffer.name, array)
        entry = memories.get(buffer.name)
        if entry is not None:
            digits = f"0{-(-entry.word_bits // 4)}x"
            words = accelerator.pack(buffer.name, array.astype(buffer.dtype.numpy()))
            found[f"{base}.hex"] = "".join([f"{int(word):{digits}}\n" for word in words])
    return found


def _c_array(label: str, title: str, array: np.ndarray) -> str:
    size = array.dtype.itemsize
    if array.dtype.kind not in "iu" and (array.dtype.kind, size) not in (("f", 4), ("f", 8)):
        array = array.view(f"u{size}")  # C has no type for it: the bits
    kind = array.dtype.kind
    c_type = {4: "float", 8: "double"}[size] if kind == "f" else f"{'u' * (kind == 'u')}int{8 * size}_t"
    values = [_float(float(v), size) if kind == "f" else _integer(int(v), size) for v in array.reshape(-1)]
    rows = [", ".join(values[n : n + 12]) for n in range(0, len(values), 12)]
    shape = "x".join(map(str, array.shape)) or "1"
    guard = f"{label.upper()}_H"
    return (
        f"/* {_plain(title)}: {shape} elements of {array.dtype}, in C order. */\n#ifndef {guard}\n#define {guard}\n\n"
        "#include <math.h>\n#include <stdint.h>\n\n"
        f"static const {c_type} {label}[{array.size}] = {{\n    " + ",\n    ".join(rows) + "\n};\n\n#endif\n"
    )


def _plain(text: str) -> str:
    return re.sub(r"[^\w .,:-]", "_", text, flags=re.ASCII)


def _integer(value: int, size: int) -> str:
    if value == -(1 << 63):
        return "INT64_MIN"
    return f"{value}" + ("" if size < 8 else "LL" if value < 1 << 63 else "ULL")


def _float(value: float, size: int) -> str:
    """Hexadecimal digits, which are exact."""
    if np.isfinite(value):
        return value.hex() + "f" * (size == 4)
    return "NAN" if np.isnan(value) else "-INFINITY" if value < 0 else "INFINITY"

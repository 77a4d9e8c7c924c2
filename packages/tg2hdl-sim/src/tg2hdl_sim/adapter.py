"""Common parts of the engines that compile C++: the adapter of a translated design, and the key of its library."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.content_cache import content_key
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim import yosys
from tg2hdl_sim.model import Elaboration
from tg2hdl_sim.sources import source, sources_digest
from tg2hdl_sim.version import __version__

__all__ = ["adapter", "library_key"]


def adapter(engine: str, fields: Mapping[int, str], storages: Mapping[int, str], *, wave: bool) -> str:
    """C++ after the design's: its ports and memories as expressions by number, the engine's model, the harness.

    Parameters
    ----------
    engine : str
        Prefix of the engine's headers.
    fields : mapping of int to str
        C++ expressions of ports, by the number of the port.
    storages : mapping of int to str
        C++ expressions of memories, by the number of the memory.
    wave : bool
        Whether a waveform can be recorded.
    """
    ports = "".join(f"    case {n}: return field_of({field}); \\\n" for n, field in fields.items())
    memories = "".join(f"    case {n}: return storage_of({storage}); \\\n" for n, storage in storages.items())
    return (
        ("#define TG_WAVE\n" if wave else "")
        + f"#define TG_PORTS \\\n{ports}\n#define TG_MEMORIES \\\n{memories}\n"
        + "\n".join(map(source, ("model.h", f"{engine}_model.h", "harness.h")))
    )


def library_key(engine: str, elaboration: Elaboration, compiler: cxx.Compiler, wave: bool, *more: str) -> str:
    """Key of a library in the cache: all that its contents depend on.

    Parameters
    ----------
    engine : str
        Name of the engine.
    elaboration : Elaboration
    compiler : Compiler
    wave : bool
        Whether a waveform can be recorded.
    *more : str
        Versions and options of the engine.
    """
    return content_key(
        engine,
        __version__,
        sources_digest(),
        yosys.yosys_version(),
        *more,
        compiler.identity,
        *compiler.command,
        *cxx.FLAGS,
        str(wave),
        repr([(memory.path, memory.info.name) for memory in elaboration.memories]),
        repr(list(elaboration.ports)),
        elaboration.rtlil,
    )

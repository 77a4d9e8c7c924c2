"""A system that designs are exported to: simulators and tools that read lists of files (``-f``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir import ExportDef, hookimpl

if TYPE_CHECKING:
    from tg2hdl.export import Export


def files(export: Export) -> dict[str, str]:
    """The file of this system, beside those that every export has."""
    return {f"{export.name}.f": "".join(f"{path}\n" for path in export.verilog_files)}


@hookimpl
def tg2hdl_exports() -> list[ExportDef]:
    """For ``tg2hdl export model.py --for filelist``; the first port is the default one."""
    return [ExportDef("filelist", "lists of files, as simulators read by -f", files, ("axi-lite", "native"))]

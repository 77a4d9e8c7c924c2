"""Folders of a design for the systems of others: LiteX, FuseSoC, Vivado, Quartus, amaranth-soc."""

from __future__ import annotations

from tg2hdl.export.export import Export, export_design, export_name, export_ports

__all__ = ["Export", "export_design", "export_name", "export_ports"]

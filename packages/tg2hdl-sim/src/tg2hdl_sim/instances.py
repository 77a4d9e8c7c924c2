"""Equal components of a design elaborated once: each instance becomes a copy of the netlist of its module."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from tg2hdl_sim.amaranth_internals import Netlist, nir

__all__ = ["with_instances"]

_FIRST_CELL = 1 << 16  # the least net that a cell other than the top level drives


def with_instances(netlist: Netlist, modules: Mapping[str, Netlist]) -> Netlist:
    """Return a netlist in which cells of the modules take the places of their instances.

    Each module is in a wrapper, as `Elaboration` makes it.  The result has cells and the names of modules; signals
    and ports of the copies are not known.

    Parameters
    ----------
    netlist : Netlist
        With instances.
    modules : mapping of str to Netlist
        Netlists by the type of their instances.
    """
    merged = copy(netlist)
    merged.cells, merged.modules = list(netlist.cells), list(netlist.modules)
    for index, cell in enumerate(netlist.cells):
        if isinstance(cell, nir.Instance) and cell.type in modules:
            _insert(merged, index, cell, modules[cell.type])
    return merged


def _insert(merged: Netlist, index: int, instance: nir.Instance, module: Netlist) -> None:
    """Append a copy of a module's cells, and make a plain connection to its outputs of the instance."""
    offset = len(merged.cells) - 1
    first = len(merged.modules)
    path = (*merged.modules[instance.module_idx].name, instance.name)
    for inner in module.modules:
        merged.modules.append(
            nir.Module(instance.module_idx, path + inner.name[2:], src_loc=None, cell_src_loc=None)
        )
    nets = _Nets(offset)
    for name, (start, width) in module.top.ports_i.items():
        nets |= {nir.Net.from_cell(0, start + bit): instance.ports_i[name][bit] for bit in range(width)}
    for cell in module.cells[1:]:
        moved = copy(cell)
        moved.module_idx = first + cell.module_idx
        if isinstance(moved, nir.AssignmentList):
            moved.assignments = list(map(copy, moved.assignments))
        elif isinstance(moved, nir.SyncWritePort | nir.AsyncReadPort | nir.SyncReadPort):
            moved.memory += offset
        if isinstance(moved, nir.SyncReadPort):
            moved.transparent_for = tuple(port + offset for port in moved.transparent_for)
        moved.resolve_nets(nets)
        merged.cells.append(moved)
    outputs: list[nir.Net] = []
    for name, (start, width) in sorted(instance.ports_o.items(), key=lambda port: port[1]):
        assert start == len(outputs), "outputs are consecutive bits"
        outputs += nets.resolve_value(module.top.ports_o[name])
        assert len(outputs) == start + width, name
    merged.cells[index] = nir.AssignmentList(
        instance.module_idx, default=nir.Value(outputs), assignments=[], src_loc=None
    )


class _Nets(dict[nir.Net, nir.Net]):
    """Nets of a copy by nets of its module; cells take it for the netlist that resolves their nets."""

    def __init__(self, offset: int) -> None:
        super().__init__({nir.Net.from_const(bit): nir.Net.from_const(bit) for bit in (0, 1)})
        self._offset = offset << 16

    def __missing__(self, net: nir.Net) -> nir.Net:
        assert net >= _FIRST_CELL, "inputs of the module are known"
        found = self[net] = nir.Net(net + self._offset)
        return found

    def resolve_net(self, net: nir.Net) -> nir.Net:
        return self[net]

    def resolve_value(self, value: nir.Value) -> nir.Value:
        return tuple.__new__(nir.Value, map(self.__getitem__, value))

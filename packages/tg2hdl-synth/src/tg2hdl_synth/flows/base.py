"""What a family's tools do for `tg2hdl_synth.synthesize`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tg2hdl_ir.errors import InputError, PluginError, ToolMissingError
from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_synth.netlist import Netlist
from tg2hdl_synth.place import PlaceAndRoute
from tg2hdl_synth.tools import Progress

__all__ = ["SynthesisFlow", "flow_of"]


class SynthesisFlow(ABC):
    """Synthesis of a family, made by the factory of its `FlowDef`.

    Attributes
    ----------
    speeds : tuple of int
        Speed grades of the parts; empty where there are none.
    packs_registers : bool
        Whether `synthesize` moves registers into block RAMs and multipliers when it is asked to.
    takes_floorplan : bool
        Whether `place` also takes the keyword `floorplan` (`tg2hdl_synth.floorplan`).
    """

    speeds: tuple[int, ...] = ()
    packs_registers: bool = False
    takes_floorplan: bool = False

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the tools by name.

        Raises
        ------
        ToolMissingError
            When one is not installed.
        """

    @abstractmethod
    def synthesize(
        self, rtlil: str, part: TargetDef, *, pack_registers: bool | str, progress: Progress
    ) -> Netlist:
        """Map a design in RTLIL to the cells of a part; `tg2hdl_synth.netlist.yosys_netlist` runs and counts.

        Raises
        ------
        SynthesisError
            When a tool fails.
        """

    def place(
        self,
        netlist: Netlist,
        part: TargetDef,
        *,
        speed: int,
        seed: int,
        frequency: float,
        progress: Progress,
    ) -> PlaceAndRoute:
        """Place and route a netlist with one seed, aiming at a frequency (MHz).

        Raises
        ------
        DesignTooLargeError
            When the part has not enough cells.
        SynthesisError
            When the tool fails.
        ToolMissingError
            For a family without place and route.
        """
        raise ToolMissingError(
            f"the flow of the family {part.family!r} has no place and route",
            hint="give place=False, on the command line --seeds 0, for the cells alone",
        )

    def notes(self, netlist: Netlist, part: TargetDef, rtlil: str) -> tuple[str, ...]:
        """Lines for the result."""
        return ()


def flow_of(part: TargetDef) -> SynthesisFlow:
    """Flow of a part's family.

    Raises
    ------
    InputError
        For a family without a flow.
    PluginError
        When what a plugin registers is no flow.
    """
    try:
        found = registry().flow(part.family)
    except PluginError as error:
        if "registered twice" in error.message:
            raise
        raise InputError(
            f"part {part.name} is of the family {part.family!r}, for which there is no flow",
            hint=str(error.hint).replace("known", "families with a flow"),
        ) from None
    return registry().make(found, "flow", SynthesisFlow)  # type: ignore[type-abstract]

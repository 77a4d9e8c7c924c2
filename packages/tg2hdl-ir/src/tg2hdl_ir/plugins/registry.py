"""The registry: everything that plugins contribute, by kind and name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tg2hdl_ir.plugins.arithmetic import ArithmeticSet
from tg2hdl_ir.plugins.descriptors import (
    BoardDef,
    CommandDef,
    DimensionDef,
    ExportDef,
    FamilyDef,
    FlowDef,
    FrontEndDef,
    HostPortDef,
    MemoryKindDef,
    MemoryPortDef,
    OnnxOperatorDef,
    PassDef,
    QuantizerDef,
    ReportSection,
    RoundingDef,
    SequencerDef,
    SimulatorDef,
    TargetDef,
    TinygradOpDef,
    resolve,
)
from tg2hdl_ir.plugins.loader import BUILT_IN
from tg2hdl_ir.plugins.pass_order import in_order

__all__ = ["Registry", "registry", "use_registry"]


class Registry(ArithmeticSet):
    """Everything that the plugins of this environment contribute; parameters as of `PluginSet`."""

    def passes(self) -> tuple[PassDef, ...]:
        """All rewrites, built-in and of plugins, in the order in which they run."""
        self._load()
        key = ("passes",)
        if key not in self._cache:
            found = list(self._catalog.all("tg2hdl_passes"))
            own = [d for d in found if self.distribution(d) in BUILT_IN]
            others = sorted((d for d in found if d not in own), key=lambda d: (d.order, d.name))
            self._cache[key] = tuple(in_order([*own, *others])[0])
        return self._cache[key]  # type: ignore[no-any-return]

    def tinygrad_ops(self) -> tuple[TinygradOpDef, ...]:
        """Operations of tinygrad that plugins map, by name."""
        return self._all("tg2hdl_tinygrad_ops", TinygradOpDef, lambda d: d.name)

    def simulators(self) -> tuple[SimulatorDef, ...]:
        """Simulation engines, highest priority first."""
        return self._all("tg2hdl_simulators", SimulatorDef, lambda d: (-d.priority, d.name))

    def targets(self) -> tuple[TargetDef, ...]:
        """FPGA targets, by name."""
        return self._all("tg2hdl_targets", TargetDef, lambda d: d.name)

    def families(self) -> tuple[FamilyDef, ...]:
        """FPGA families, by name."""
        return self._all("tg2hdl_families", FamilyDef, lambda d: d.name)

    def family(self, name: str) -> FamilyDef | None:
        """FPGA family of a name; None for one that nothing describes.

        Raises
        ------
        PluginError
            When two plugins claim it.
        """
        self._load()
        return self._catalog.get("tg2hdl_families", name)

    def flows(self) -> tuple[FlowDef, ...]:
        """Tools of families, by the families' names."""
        return self._all("tg2hdl_flows", FlowDef, lambda d: d.name)

    def memory_kinds(self) -> tuple[MemoryKindDef, ...]:
        """Kinds of memory, highest priority first."""
        return self._all("tg2hdl_memory_kinds", MemoryKindDef, lambda d: (-d.priority, d.name))

    def quantizers(self) -> tuple[QuantizerDef, ...]:
        """Quantization methods, by name."""
        return self._all("tg2hdl_quantizers", QuantizerDef, lambda d: d.name)

    def roundings(self) -> tuple[RoundingDef, ...]:
        """Roundings, by name."""
        return self._all("tg2hdl_roundings", RoundingDef, lambda d: d.name)

    def rounding(self, name: str) -> RoundingDef:
        """Return the rounding of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_roundings", RoundingDef, name)

    def front_ends(self) -> tuple[FrontEndDef, ...]:
        """Formats of model files, by name."""
        return self._all("tg2hdl_frontends", FrontEndDef, lambda d: d.name)

    def onnx_operator(self, op_type: str, domain: str, version: int) -> OnnxOperatorDef | None:
        """Definition of an operator of ONNX files in a version of its operator set; None without one.

        Parameters
        ----------
        op_type : str
            Such as ``Conv``.
        domain : str
            Of the operator set; empty for ONNX's own.
        version : int
            Of the operator set.
        """
        self._load()
        key = ("onnx operators",)
        if key not in self._cache:
            found: dict[tuple[str, str], list[OnnxOperatorDef]] = {}
            for definition in self._catalog.all("tg2hdl_onnx_operators"):
                found.setdefault((definition.domain, definition.op_type), []).append(definition)
            self._cache[key] = found
        for name in self._catalog.contested("tg2hdl_onnx_operators"):
            if name.startswith(f"{domain or 'ai.onnx'}:{op_type}-"):
                self._catalog.get("tg2hdl_onnx_operators", name)
        eligible = [d for d in self._cache[key].get((domain, op_type), ()) if d.since_version <= version]
        return max(eligible, key=lambda d: (d.priority, d.since_version), default=None)

    def report_sections(self) -> tuple[ReportSection, ...]:
        """Sections of the report, in order."""
        return self._all("tg2hdl_report_sections", ReportSection, lambda d: (d.order, d.name))

    def commands(self) -> tuple[CommandDef, ...]:
        """Subcommands, by name."""
        return self._all("tg2hdl_commands", CommandDef, lambda d: d.name)

    def dimensions(self) -> tuple[DimensionDef, ...]:
        """Dimensions of an exploration, by name."""
        return self._all("tg2hdl_dimensions", DimensionDef, lambda d: d.name)

    def exports(self) -> tuple[ExportDef, ...]:
        """Systems that designs are exported to, by name."""
        return self._all("tg2hdl_exports", ExportDef, lambda d: d.name)

    def export(self, name: str) -> ExportDef:
        """Return the system of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_exports", ExportDef, name)

    def simulator(self, name: str) -> SimulatorDef:
        """Return the simulation engine of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_simulators", SimulatorDef, name)

    def target(self, name: str) -> TargetDef:
        """Return the target of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_targets", TargetDef, name)

    def flow(self, family: str) -> FlowDef | None:
        """Tools of a family, as `FamilyDef.tools` or the hook ``tg2hdl_flows`` gives them; None without tools.

        Raises
        ------
        PluginError
            When two plugins claim them.
        """
        self._load()
        return self._catalog.get("tg2hdl_flows", family)

    def memory_kind(self, name: str) -> MemoryKindDef:
        """Return the kind of memory of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_memory_kinds", MemoryKindDef, name)

    def ports(self) -> tuple[HostPortDef, ...]:
        """Host ports, by name."""
        return self._all("tg2hdl_ports", HostPortDef, lambda d: d.name)

    def port(self, name: str) -> HostPortDef:
        """Return the host port of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_ports", HostPortDef, name)

    def memory_ports(self) -> tuple[MemoryPortDef, ...]:
        """Ports to memory outside the chip, by name."""
        return self._all("tg2hdl_memory_ports", MemoryPortDef, lambda d: d.name)

    def memory_port(self, name: str) -> MemoryPortDef:
        """Return the memory port of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_memory_ports", MemoryPortDef, name)

    def boards(self) -> tuple[BoardDef, ...]:
        """Boards, by name."""
        return self._all("tg2hdl_boards", BoardDef, lambda d: d.name)

    def board(self, name: str) -> BoardDef:
        """Return the board of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_boards", BoardDef, name)

    def sequencer(self, name: str) -> SequencerDef:
        """Return the sequencing policy of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_sequencers", SequencerDef, name)

    def quantizer(self, name: str) -> QuantizerDef:
        """Return the quantization method of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_quantizers", QuantizerDef, name)

    def command(self, name: str) -> CommandDef | None:
        """Return the command of a name; None without one.

        Raises
        ------
        PluginError
            When two plugins claim it.
        """
        self._load()
        return self._catalog.get("tg2hdl_commands", name)

    def unavailable(self, engine: SimulatorDef) -> str | None:
        """Why an engine cannot run here, None when it can; one whose check raises cannot."""
        try:
            reason = resolve(engine.available)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return f"plugin {self.plugin(engine)!r}: available raised {type(error).__name__}: {error}"
        return None if reason is None else str(reason)


_default = Registry()


def registry() -> Registry:
    """Return the registry of this process; plugins load at the first lookup."""
    return _default


@contextmanager
def use_registry(replacement: Registry) -> Iterator[Registry]:
    """Use another registry for this process inside the context."""
    global _default
    previous, _default = _default, replacement
    try:
        yield replacement
    finally:
        _default = previous

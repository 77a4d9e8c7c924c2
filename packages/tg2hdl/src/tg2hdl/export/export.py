"""A design in a folder for a system of others, with the files that all systems share."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from tg2hdl.compiled_model import CompiledModel
from tg2hdl.export.constraints import constraint_files
from tg2hdl.export.driver import driver_files
from tg2hdl.export.interfaces import WrapperPort
from tg2hdl.export.registers import register_page_html, register_places, svd, system_rdl
from tg2hdl.export.weights import weight_files
from tg2hdl.export.wrapper import verilog_wrapper, vhdl_package, wrapper_ports
from tg2hdl.hdl_files import design_text, verilog_text
from tg2hdl.testbench.accesses import register_accesses
from tg2hdl.testbench.links import LINKS
from tg2hdl.testbench.register_bench import register_testbench
from tg2hdl.testbench.vectors import PORTS, port_vectors
from tg2hdl.testbench.verilog import verilog_testbench
from tg2hdl_ir import InputError, registry
from tg2hdl_ir.files import write_files
from tg2hdl_top.ports import register_map_of
from tg2hdl_top.register_map import RegisterMap

__all__ = ["Export", "export_design", "export_name", "export_ports"]

_WORDS = """
abs access after alias all and architecture array assert attribute begin block body buffer bus case component
configuration constant disconnect downto else elsif end entity exit file for function generate generic group
guarded if impure in inertial inout is label library linkage literal loop map mod nand new next nor not null
of on open or others out package port postponed procedure process pure range record register reject rem report
return rol ror select severity signal shared sla sll sra srl subtype then to transport type unaffected units
until use variable wait when while with xnor xor always assign casex casez default defparam edge endcase
endfunction endmodule endtask initial input integer localparam module negedge output parameter posedge reg
repeat scalared specify supply0 supply1 table task time tri wire core
"""
_RESERVED = frozenset(_WORDS.split())
"""Words that VHDL or Verilog takes for something else."""


@dataclass(frozen=True)
class Export:
    """A design on its way into a folder; a system of others writes its own files from it.

    Parameters
    ----------
    accelerator : CompiledModel
    name : str
        Name of the wrapper, with which the names of all modules, files and C functions begin.
    clock : float
        MHz of the constraints.
    runs : int
        Of the testbench.
    memory_files : bool
        Whether the Verilog reads contents of memories with ``$readmemh``.
    """

    accelerator: CompiledModel
    name: str
    clock: float = 100.0
    runs: int = 4
    memory_files: bool = False

    @property
    def core(self) -> str:
        """Module that the wrapper contains."""
        return f"{self.name}_core"

    @cached_property
    def ports(self) -> tuple[WrapperPort, ...]:
        """Ports of the wrapper besides ``aclk`` and ``aresetn``."""
        return wrapper_ports(self.accelerator.top)

    @cached_property
    def registers(self) -> RegisterMap | None:
        """Register map of the design, where it has one."""
        found = map(register_map_of, self.accelerator.design.ports)
        return next((each for each in found if each is not None), None)

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Name, address and size in bytes of each register and buffer of the register map."""
        return [] if self.registers is None else register_places(self.registers)

    @property
    def port_kind(self) -> str:
        """Kind of the host port that controls the design."""
        return next(port.kind for port in self.accelerator.design.ports if port.serves.control)

    @property
    def verilog_files(self) -> tuple[str, ...]:
        """Paths of the Verilog, the core first."""
        return (f"rtl/{self.core}.v", f"rtl/{self.name}.v")

    @cached_property
    def memory_contents(self) -> Mapping[str, str]:
        """Files that the Verilog reads with ``$readmemh``, by paths."""
        if not self.memory_files:
            return {}
        return {path: text for path, text in self._core_files.items() if path not in self.verilog_files}

    @property
    def testbench(self) -> str | None:
        """Path of the testbench; None for a design that has none."""
        ports = self.accelerator.design.ports
        known = len(ports) == 1 and ports[0].kind in (*PORTS, *LINKS)
        return f"tb/{self.name}_tb.v" if known and not self.accelerator.design.streams_weights else None

    @cached_property
    def _core_files(self) -> dict[str, str]:
        design = design_text(self.accelerator.top, self.core, shared_modules=True)
        if not self.memory_files:
            return {self.verilog_files[0]: verilog_text(design)}
        with TemporaryDirectory() as folder:
            text = verilog_text(design, folder, prefix=f"{self.name}_")
            contents = {f"rtl/{path.name}": path.read_text() for path in sorted(Path(folder).iterdir())}
        return {self.verilog_files[0]: text, **contents}

    def common_files(self) -> dict[str, str | bytes]:
        """Files that are the same for all systems, by paths in the folder."""
        name, found = self.name, self.registers
        files: dict[str, str | bytes] = dict(self._core_files)
        files[self.verilog_files[1]] = verilog_wrapper(name, self.core, self.ports)
        files[f"rtl/{name}_pkg.vhd"] = vhdl_package(name, self.ports)
        files |= constraint_files(name, self.ports, self.clock)
        if found is not None:
            files |= {
                f"registers/{name}.md": found.page(),
                f"registers/{name}.html": register_page_html(found),
                f"registers/{name}.svd": svd(found, name),
                f"registers/{name}.rdl": system_rdl(found, name),
                **driver_files(found, name),
            }
        files |= weight_files(self.accelerator, name)
        if self.testbench is not None:
            files[self.testbench] = self._testbench()
        return files

    def _testbench(self) -> str:
        accelerator = self.accelerator
        sources = [f"../{path}" for path in self.verilog_files]
        names = {port.core: port.name for port in self.ports}
        if self.port_kind in PORTS:
            vectors = port_vectors(accelerator, self.runs) | {"top": self.name}
            return verilog_testbench(vectors, names=names, sources=sources)
        assert self.registers is not None, "the port has a register map"
        return register_testbench(
            self.name,
            self.port_kind,
            register_accesses(accelerator, self.runs),
            address_bits=self.registers.address_bits,
            cycles=self.registers.serves.cycles,
            sources=sources,
            names=names,
        )


def export_ports(system: str) -> tuple[str, ...]:
    """Kinds of host ports that a system can be connected to, the usual one first.

    Raises
    ------
    InputError
        For an unknown system.
    """
    return registry().export(system).ports


def export_name(name: str | None, label: str) -> str:
    """Name of an export, made from the label of the design unless given.

    Parameters
    ----------
    name : str or None
        Given by the user.
    label : str
        Of the design.

    Raises
    ------
    InputError
        When a given name is not one that Verilog, VHDL, C and Python take.
    """
    if name is None:
        plain = re.sub(r"[\W_]+", "_", label, flags=re.ASCII).strip("_").lower() or "design"
        plain = plain if not plain[0].isdigit() else f"m{plain}"
        return f"{plain}_design" if _is_reserved(plain) else plain
    if re.fullmatch(r"[a-z]([a-z0-9]|_(?=[a-z0-9]))*", name) is None or _is_reserved(name):
        raise InputError(
            f"{name!r} is not a name for an export",
            hint="lower-case letters, digits and single underscores, a letter first, and no keyword: my_net",
        )
    return name


def _is_reserved(name: str) -> bool:
    return keyword.iskeyword(name) or name in _RESERVED


def export_design(
    accelerator: CompiledModel,
    system: str,
    folder: Path,
    *,
    name: str | None = None,
    clock: float = 100.0,
    memory_files: bool = False,
) -> list[Path]:
    """Write the folder of a design for a system; returns the paths of all files.

    Parameters
    ----------
    accelerator : CompiledModel
    system : str
        Name, such as ``"litex"``.
    folder : Path
        Made if it does not exist.
    name : str, optional
        With which modules, files and C functions begin.
    clock : float, default 100.0
        MHz, for the constraints.
    memory_files : bool, default False
        Whether contents of memories are files that Verilog reads.

    Raises
    ------
    InputError
        For an unknown system, a host port that it is not connected to, or a name that it does not take.
    """
    known = export_ports(system)
    for port in accelerator.design.ports:
        if port.kind not in known:
            raise InputError(
                f"{system} has no connection for the host port {port.kind!r}",
                hint=f"compile with one of: {', '.join(known)}",
            )
    if not clock > 0:
        raise InputError(f"a clock of {clock:g} MHz is none", hint="give a positive number")
    export = Export(accelerator, export_name(name, accelerator.name), clock, memory_files=memory_files)
    contents = export.common_files()
    contents |= registry().call(registry().export(system), "files", export)
    if accelerator.design.streams_weights:
        accelerator.save_memory_image(folder / "weights" / f"{export.name}.img")
    return write_files(folder, contents)

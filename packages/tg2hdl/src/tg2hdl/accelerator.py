"""A compiled model and its products: synthesis, reports, the folder of a device, HDL files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tg2hdl.compiled_model import CompiledModel
from tg2hdl.hdl_files import design_text, module_name, verilog_text, write_text
from tg2hdl.netlist_text import NetlistText
from tg2hdl.progress import shows_progress, step
from tg2hdl.results import SimulationResult
from tg2hdl_ir.turns import in_turn

if TYPE_CHECKING:
    from tg2hdl.explain import Explanation
    from tg2hdl.report import Report

__all__ = ["Accelerator"]


class Accelerator(CompiledModel):
    """Hardware of a model; made by `tg2hdl.compile`; `captured` and `design` are attributes too.

    Parameters
    ----------
    captured : CapturedProgram
        The model as kernels over buffers.
    design : Design
        Everything that was decided about the hardware.
    codes : bool
        Whether outputs of a quantized model are integers unless a call says otherwise.
    """

    # Synthesis

    @shows_progress("estimating")
    def fits(self, part: str = "ecp5-45k") -> Any:
        """Whether the design fits a part, with the figures and a way out; see `tg2hdl_synth.design_fits`.

        Without synthesis: memories are known from the plan, the rest is an estimate whose error is stated.
        """
        from tg2hdl_synth import design_fits, packs_registers

        return design_fits(self.design, part, pack_registers=packs_registers(self.design, part))

    @shows_progress("synthesizing")
    def synthesize(self, part: str = "ecp5-45k", speed: int = 6, seeds: int = 3, **options: Any) -> Any:
        """Fmax, utilization by kernel and critical path on an FPGA; see `tg2hdl_synth.synthesize`.

        If the family that the model was compiled for suggests it, as ``ecp5`` does, registers are packed into block
        RAMs and multipliers, unless their words, which are then narrower, would take more block RAMs than the part has.

        Parameters
        ----------
        part : str
            Name of the FPGA part.
        speed : int
            Speed grade of the part.
        seeds : int
            Runs of place and route, each with a seed of its own; Fmax is their median.
        options
            Further arguments of `tg2hdl_synth.synthesize`.
        """
        from tg2hdl_synth import packs_registers, synthesize

        options.setdefault("pack_registers", packs_registers(self.design, options.get("target") or part))
        return synthesize(self.top, part, speed, seeds, name=module_name(self.name), **options)

    # Explanation and report

    def explain(self, kernel: str | None = None, *, variants: bool = True) -> Explanation:
        """Why the design takes its cycles: decisions, the bound of each II, and options that would change it.

        Parameters
        ----------
        kernel : str, optional
            Name of the only kernel to explain.
        variants : bool
            Whether the design is planned again with other options, such as ``float_order="relaxed"``, to say how many
            cycles it would take, and LUTs and clock of all designs are estimated; each takes about as long as the
            compilation.

        Returns
        -------
        Explanation
            Prints as text, and `describe` gives it as data.

        Raises
        ------
        InputError
            When no kernel has this name.
        """
        from tg2hdl.explain import explain_design

        with step(f"explaining {self.name}") as say:
            return explain_design(self.captured, self.design, kernel, variants=variants, progress=say)

    @shows_progress("writing the report of")
    def report(
        self,
        *inputs: Any,
        simulation: SimulationResult | None = None,
        synthesis: Any = None,
        against: str | PathLike[str] | None = None,
        sweep: float = 0,
    ) -> Report:
        """One HTML page about the design: its graph with a page for each kernel, utilization, memories, area, numbers.

        Parameters
        ----------
        inputs : arrays
            The run whose numbers are shown; none are shown without.
        simulation : SimulationResult, optional
            Of `simulate`.
        synthesis : SynthesisResult, optional
            Of `synthesize`.
        against : path, optional
            The ``.json`` file of an earlier report, to compare with.
        sweep : float
            Seconds for planning the design with other numbers of multipliers, which the page shows under a slider.

        Returns
        -------
        Report
            Saved by ``.save("report.html")``; shows itself in Jupyter.
        """
        from tg2hdl.report import build_report

        return build_report(self, inputs, simulation, synthesis, against, sweep=sweep)

    def _repr_html_(self) -> str:
        from tg2hdl.html_templates import html_table

        head = ("kernel", "layer", "cycles", "II", "multipliers", "ratio")
        rows = [
            (
                k.name,
                k.layer,
                f"{k.cycles:,}",
                k.ii,
                k.multipliers,
                "" if k.ratio is None else f"{k.ratio:.3f}",
            )
            for k in self.kernels
        ]
        return html_table(f"{self.name}: {self.predicted_cycles:,} cycles from start to done", head, rows)

    # Boards

    def build(
        self,
        folder: str | PathLike[str],
        *,
        board: str | None = None,
        clock: float | None = None,
        baud: int | None = None,
        ip: str | None = None,
        vectors: int = 8,
        progress: Callable[[str], None] = lambda message: None,
    ) -> Path:
        """Write the folder of a device, which `tg2hdl.connect` and the commands `serve` and `selftest` take.

        It has the design, its register map as a page and as a C header, the description for the driver, weights where
        they are loadable, vectors with the results of the golden model, and with a board its bitstream.

        Parameters
        ----------
        folder : path
            Made when it is missing.
        board : str, optional
            Name of a board (``tg2hdl plugins list --kind board``), or ``module:Class`` of a platform of Amaranth with
            open tools and a serial line; only for the simulation when absent.
        clock : float, optional
            MHz of the board's PLL; the design's maximum when absent.
        baud : int, optional
            Bits per second of the board's serial line; the fastest usual one of its bridge when absent.
        ip : str, optional
            IPv4 address of a design with the host port ``udp`` on a board; 192.168.1.50 when absent.
        vectors : int
            Random inputs for `tg2hdl selftest`.
        progress : callable, optional
            Called with a message before each slow step.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            For a design without a host port that has a register map, such as ``uart``.
        DesignTooLargeError
            When it does not fit the board, with the figures.
        SynthesisError
            When the timing does not hold.
        """
        from tg2hdl.device_folder import write_device_folder

        facts: dict[str, Any] = {}
        if board is not None:
            from tg2hdl_synth.boards.bitstream import build_bitstream

            made = build_bitstream(
                self.design, board, Path(folder), clock=clock, baud=baud, ip=ip, progress=progress
            )
            facts = {
                "board": board,
                "bitstream": made.path.name,
                "clock_mhz": made.clock,
                "fmax_mhz": made.fmax,
                "fmax_limit": made.limit,
            }
            facts |= {"link": made.link, "baud": made.baud} | ({"ip": made.ip} if made.ip else {})
            facts |= {"link_clocks": made.link_clocks} if made.link_clocks else {}
            facts |= {"utilization": made.utilization, "by_part": made.by_part}
        write_device_folder(self, Path(folder), vectors=vectors, **facts)
        return Path(folder)

    # Files

    @in_turn
    @shows_progress("exporting")
    def export(
        self,
        system: str,
        folder: str | PathLike[str],
        *,
        name: str | None = None,
        clock: float = 100.0,
        memory_files: bool = False,
    ) -> list[Path]:
        """Write a folder for another build system; returns the paths of its files.

        It has the Verilog with a wrapper of standard names, the register map, a C driver, weights, constraints, a
        testbench where the design has one host port, and the files of the system.

        Parameters
        ----------
        system : str
            Name of a system, such as ``litex`` (``tg2hdl plugins list --kind export``).
        folder : path
            Made where it is missing; files of the same names are replaced.
        name : str, optional
            Prefix of the names of all modules, files and C functions; the name of the design unless given.
        clock : float
            MHz, for the constraints.
        memory_files : bool
            Whether contents of memories are files that the Verilog reads with ``$readmemh``.

        Raises
        ------
        InputError
            For an unknown system, a host port that it is not connected to, or a name that it does not take.
        """
        from tg2hdl.export import export_design

        return export_design(self, system, Path(folder), name=name, clock=clock, memory_files=memory_files)

    @in_turn
    @shows_progress("writing Verilog of")
    def verilog(
        self, path: str | PathLike[str] | None = None, *, memories: str | PathLike[str] | None = None
    ) -> str:
        """Verilog of the design; written to `path` when given.

        Parameters
        ----------
        path : path, optional
            File to write.
        memories : path, optional
            Folder for the contents of memories, one ``.hex`` file each, which the Verilog then reads with
            ``$readmemh``, by its name without a folder.
        """
        return write_text(verilog_text(self._netlist, memories), path)

    @in_turn
    @shows_progress("writing RTLIL of")
    def rtlil(self, path: str | PathLike[str] | None = None) -> str:
        """RTLIL of the design, for Yosys; written to `path` when given."""
        return write_text(self._rtlil, path)

    def testbench(self, folder: str | PathLike[str], *, runs: int = 4) -> list[Path]:
        """Write the Verilog and self-checking testbenches of it, in Verilog and for cocotb; returns the paths.

        They run under Icarus Verilog and Verilator, check each bit and the cycles, and end with an error where
        something differs from the golden model.

        Parameters
        ----------
        folder : path
            Made when it is missing.
        runs : int
            Random inputs, one after the other from the power-on state.

        Raises
        ------
        InputError
            For a design with other host ports than ``native`` or ``axi-stream``.
        """
        from tg2hdl.testbench import write_testbenches

        label = module_name(self.name)
        written = write_testbenches(self, Path(folder), label, runs)
        self.verilog(Path(folder) / f"{label}.v")
        return [Path(folder) / f"{label}.v", *written]

    @cached_property
    def _netlist(self) -> NetlistText:
        """The source of the Verilog: RTLIL apart from the contents of memories, with one module for equal units."""
        return design_text(self.top, self.name, shared_modules=True)

    @cached_property
    def _rtlil(self) -> str:
        return design_text(self.top, self.name).rtlil()

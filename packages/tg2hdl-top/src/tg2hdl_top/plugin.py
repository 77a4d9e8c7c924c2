"""Plugin module of the steps of the search, host ports, memory ports and sequencers."""

from __future__ import annotations

from tg2hdl_ir import HostPortDef, MemoryPortDef, PassDef, SequencerDef, hookimpl

__all__ = ["tg2hdl_memory_ports", "tg2hdl_passes", "tg2hdl_ports", "tg2hdl_sequencers"]


@hookimpl
def tg2hdl_ports() -> list[HostPortDef]:
    """Ports that this package has."""
    return [
        HostPortDef(
            "native",
            "words of buffers, start and done",
            "tg2hdl_top.ports.native:NativePort",
            "tg2hdl_top.ports.native:NativeDriver",
        ),
        HostPortDef(
            "uart",
            "register map behind packets on a serial line",
            "tg2hdl_top.ports.uart:UartPort",
            "tg2hdl_top.ports.uart:UartDriver",
        ),
        HostPortDef(
            "spi",
            "register map behind packets on a serial peripheral interface",
            "tg2hdl_top.ports.spi:SpiPort",
            "tg2hdl_top.ports.spi:SpiDriver",
        ),
        HostPortDef(
            "udp",
            "register map behind packets in datagrams over Ethernet",
            "tg2hdl_top.ports.udp:UdpPort",
            "tg2hdl_top.ports.udp:UdpDriver",
        ),
        HostPortDef(
            "usb",
            "register map behind packets on a serial device of USB, full speed",
            "tg2hdl_top.ports.usb:UsbPort",
            "tg2hdl_top.ports.usb_host:UsbDriver",
        ),
        HostPortDef(
            "axi-lite",
            "register map behind AXI4-Lite",
            "tg2hdl_top.ports.axi_lite:AxiLitePort",
            "tg2hdl_top.ports.axi_lite:AxiLiteDriver",
        ),
        HostPortDef(
            "wishbone",
            "register map behind a classic Wishbone bus",
            "tg2hdl_top.ports.wishbone:WishbonePort",
            "tg2hdl_top.ports.wishbone:WishboneDriver",
        ),
        HostPortDef(
            "axi-slverr",
            "as axi-lite; a refused access is answered with SLVERR",
            "tg2hdl_top.ports.axi_lite:AxiLiteErrorPort",
            "tg2hdl_top.ports.axi_lite:AxiLiteDriver",
        ),
        HostPortDef(
            "wishbone-err",
            "as wishbone; a refused access is answered by ERR",
            "tg2hdl_top.ports.wishbone:WishboneErrorPort",
            "tg2hdl_top.ports.wishbone:WishboneDriver",
        ),
        HostPortDef(
            "axi-stream",
            "inputs and results as packets of AXI4-Stream",
            "tg2hdl_top.ports.axi_stream:AxiStreamPort",
            "tg2hdl_top.ports.axi_stream:AxiStreamDriver",
        ),
    ]


def _memory_port(name: str, description: str, module: str, prefix: str, model: str) -> MemoryPortDef:
    path = f"tg2hdl_top.external.{module}:{prefix}"
    return MemoryPortDef(name, description, f"{path}ReadPort", f"{path}Memory", f"{path}Times", model)


@hookimpl
def tg2hdl_memory_ports() -> list[MemoryPortDef]:
    """Ports to memory behind a bus, and to a chip."""
    model = "tg2hdl_top.external.memory_model:MemoryModel"
    return [
        _memory_port("axi4", "AXI4 master that reads bursts, several ahead", "axi4", "Axi4", model),
        _memory_port("wishbone", "Wishbone master, classic bursts", "wishbone", "Wishbone", model),
        _memory_port(
            "wishbone-pipelined",
            "Wishbone master, pipelined cycles",
            "wishbone_pipelined",
            "WishbonePipelined",
            model,
        ),
        MemoryPortDef(
            "sdram",
            "controller of an SDR SDRAM at the pins",
            "tg2hdl_top.external.sdram.controller:SdramReadPort",
            "tg2hdl_top.external.sdram.chip:SdramChip",
            "tg2hdl_top.external.sdram.times:SdramTimes",
            "tg2hdl_top.external.sdram.model:SdramModel",
        ),
    ]


@hookimpl
def tg2hdl_sequencers() -> list[SequencerDef]:
    """Kernels one after the other, or each as soon as its data is there."""
    return [
        SequencerDef(
            "auto",
            "overlap where that saves cycles, serial otherwise",
            "tg2hdl_top.sequencer.automatic:AutomaticSequencer",
        ),
        SequencerDef("serial", "one kernel after the other", "tg2hdl_top.sequencer.serial:SerialSequencer"),
        SequencerDef(
            "overlap",
            "each kernel as soon as the words that it reads are there",
            "tg2hdl_top.sequencer.overlap:OverlapSequencer",
        ),
        SequencerDef(
            "dataflow",
            "runs follow each other at a fixed interval",
            "tg2hdl_top.sequencer.dataflow:DataflowSequencer",
        ),
        SequencerDef(
            "rows",
            "each row of a stream is a run, as soon as its elements are there",
            "tg2hdl_top.sequencer.rows:RowSequencer",
        ),
    ]


@hookimpl
def tg2hdl_passes() -> list[PassDef]:
    """Steps of the search, and rewrites of whole programs."""
    return [
        PassDef(name, description, f"tg2hdl_top.{run}", stage=stage, term=term)
        for stage, name, description, run, term in _PASSES
    ]


_PASSES = (
    (
        "search",
        "choose-merges",
        "branches share products where that takes fewer cycles",
        "search.forms:with_merged_branches",
        "branch fusion",
    ),
    (
        "search",
        "choose-producers",
        "values are computed once where that takes fewer cycles",
        "search.forms:with_producers",
        "code motion",
    ),
    (
        "search",
        "choose-forms",
        "kernels get the form that takes the fewest cycles",
        "search.forms:with_best_forms",
        "",
    ),
    (
        "search",
        "choose-cuts",
        "kernels are cut where two take fewer cycles",
        "search.cuts:with_cut_kernels",
        "loop fission",
    ),
    (
        "designs",
        "choose-product-cuts",
        "kernels are cut between products where two overlap",
        "search.cuts:with_cut_products",
        "loop fission",
    ),
    (
        "designs",
        "choose-partial-sums",
        "long sums are split where they stall",
        "search.sums:with_partial_sums",
        "reassociation",
    ),
    (
        "designs",
        "choose-bias",
        "float sums of the program start at their bias",
        "search.sums:with_bias_first",
        "reassociation",
    ),
    (
        "parts",
        "separate-kernels",
        "calls that cannot share a core get kernels of their own",
        "repeats.find:separated",
        "",
    ),
    (
        "parts",
        "reuse-temporaries",
        "buffers that are not needed at the same time become one",
        "repeats.reuse:with_reused_temporaries",
        "buffer coloring",
    ),
    (
        "parts",
        "take-regrouped",
        "kernels whose sums were regrouped are those of their plans",
        "search.search:with_regrouped_sums",
        "",
    ),
    (
        "parts",
        "slice-axis",
        "kernels become several, each with a tile of its weights",
        "external.tiles:with_tiles",
        "loop tiling",
    ),
    (
        "parts",
        "row-runs",
        "each row of each kernel of a program is a run",
        "row_programs:with_row_runs",
        "",
    ),
)

"""Registers the engines of this package."""

from __future__ import annotations

from tg2hdl_ir import SimulatorDef, hookimpl

__all__ = ["tg2hdl_simulators"]


@hookimpl
def tg2hdl_simulators() -> list[SimulatorDef]:
    """The levelized engine, CXXRTL, Verilator and Amaranth's own simulator."""
    return [
        SimulatorDef(
            name="levelized",
            description="compiled to C of words, one evaluation per clock edge",
            available="tg2hdl_sim.costs:levelized_available",
            open="tg2hdl_sim.levelized.engine:open_levelized",
            build_seconds="tg2hdl_sim.costs:levelized_build_seconds",
            cycles_per_second="tg2hdl_sim.costs:levelized_speed",
            priority=40,
        ),
        SimulatorDef(
            name="cxxrtl",
            description="compiled with yosys and a C++ compiler",
            available="tg2hdl_sim.costs:cxxrtl_available",
            open="tg2hdl_sim.cxxrtl:open_cxxrtl",
            build_seconds="tg2hdl_sim.costs:cxxrtl_build_seconds",
            cycles_per_second="tg2hdl_sim.costs:cxxrtl_speed",
            priority=30,
        ),
        SimulatorDef(
            name="verilator",
            description="compiled with Verilator, where it is installed",
            available="tg2hdl_sim.costs:verilator_available",
            open="tg2hdl_sim.verilator:open_verilator",
            build_seconds="tg2hdl_sim.costs:verilator_build_seconds",
            cycles_per_second="tg2hdl_sim.costs:verilator_speed",
            priority=10,
        ),
        SimulatorDef(
            name="amaranth",
            description="Amaranth's own simulator; nothing to build",
            available="tg2hdl_sim.costs:amaranth_available",
            open="tg2hdl_sim.amaranth_engine:open_amaranth",
            build_seconds="tg2hdl_sim.costs:amaranth_build_seconds",
            cycles_per_second="tg2hdl_sim.costs:amaranth_speed",
            priority=20,
        ),
    ]

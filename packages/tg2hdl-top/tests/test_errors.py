"""Errors of designs by their full texts; those of programs, sequencers and plugins are tested beside their features."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from several_kernels import PROGRAMS
from tg2hdl_ir import (
    DType,
    InputError,
    IRVariable,
    KernelCall,
    PluginError,
    ProgramIR,
    SimulationError,
    Tg2hdlError,
    UnsupportedError,
)
from tg2hdl_lower import Layout
from tg2hdl_top import CompileOptions, Design, MemoryModel, SdramModel, TopModule, compile_program, loop_plan
from tg2hdl_top.external import tiles
from tg2hdl_top.external.budget import check_schedule
from tg2hdl_top.external.image import memory_image
from tg2hdl_top.external.memory_port import check_memory
from tg2hdl_top.ports import axi_stream
from tg2hdl_top.ports.axi_stream import AxiStreamDriver, AxiStreamPort
from tg2hdl_top.ports.base import HostDriver, plan_ports
from tg2hdl_top.ports.map_driver import MapDriver
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.spi import SpiDriver
from tg2hdl_top.register_map import RegisterMap
from tg2hdl_top.sequencer import check
from tg2hdl_top.sequencer.check import check_timeline
from tg2hdl_top.streaming import stream
from tg2hdl_top.testing import buffer, elementwise

SIZE = 4
REPORT = "hint: please report this with the design: the simulated port is wrong"


def sums():
    buffers = (
        buffer("x", "input", size=SIZE),
        buffer("z", "input", size=SIZE),
        buffer("y", "output", size=SIZE),
    )
    return ProgramIR("sums", buffers, (KernelCall(elementwise("add", 2, SIZE), (2, 0, 1)),), (2,))


@cache
def design(ports=("native",)):
    return compile_program(sums(), CompileOptions(ports=ports))


def serves():
    return design(("wishbone",)).ports[0].serves


def compiled(**options):
    return compile_program(sums(), CompileOptions(**options))


def shape(**changes):
    return replace(serves(), **changes)


class Refusing(MapDriver):
    """A line behind which every register reads `word`, with a code."""

    code, word = 0, 0

    def store(self, address, words):
        return self.code

    def fetch(self, address, count):
        return [self.word] * count, self.code


class Clock:
    """A simulation whose time passes and whose outputs are 0."""

    def __init__(self):
        self.cycles = 0

    def set(self, name, value):
        self.cycles += 100

    def get(self, name):
        return 0

    def step(self, cycles=1):
        self.cycles += 1000 * cycles

    def run_until(self, name, limit):
        self.cycles += 1


class Damaged(PacketDriver):
    def send(self, data):
        pass

    def receive(self):
        return b"\x00\x01\x02\x03\x04\x05\xc0"


def driver(kind, **attributes):
    found = kind(serves(), Clock())
    for name, value in attributes.items():
        setattr(found, name, value)
    return found


def int5():
    """A driver for bytes that are not integers of 5 bits."""
    served = shape(buffers=tuple(replace(b, dtype=DType.from_name("int5")) for b in serves().buffers))
    found = Refusing(served, Clock())
    found.word = 0x7F7F7F7F
    return found


def one_bank():
    found = compile_program(PROGRAMS["stream"](), CompileOptions(schedule="dataflow"))
    memories = [replace(memory, banks=1) for memory in found.buffers]
    check_timeline(found.sequencer, found.kernels, memories, found.sharing)


def wide_variable():
    variable = IRVariable("n", 0, 1 << 32)
    return RegisterMap(shape(variables=(variable,))).variables


CASES = {
    "not a program": (
        lambda: compile_program(elementwise("add", 2)),
        "bad input: compile_program takes a ProgramIR, not KernelIR\n  hint: tg2hdl.compile takes models",
    ),
    "not kernels": (
        lambda: TopModule(3),
        "bad input: TopModule takes a Design or kernels, not int\n  hint: give the result of compile_program",
    ),
    "no file of a design": (
        lambda: Design.load("/nowhere/design.json"),
        """bad input: cannot read /nowhere/design.json: No such file or directory
  hint: give a file that Design.save wrote""",
    ),
    "memory on the chip": (
        lambda: compiled(weights="external"),
        """bad input: weights="external" needs to know the memory on the chip
  hint: name the part (part="ecp5-45k", --part), or give on_chip_bits= to CompileOptions""",
    ),
    "fixed times": (
        lambda: check_schedule(CompileOptions(schedule="overlap")),
        """bad input: schedule='overlap' starts kernels at fixed times, but weights from external memory arrive when \
they do
  hint: choose schedule="serial", or a part that holds all weights""",
    ),
    "no image": (
        lambda: memory_image(design()),
        """bad input: the design has no weights in external memory
  at: design sums
  hint: all of them are on the chip: there is nothing to load""",
    ),
    "width of a memory": (
        lambda: MemoryModel(bits=24),
        "bad input: a memory port of 24 bits\n  hint: choose a power of two from 8 to 512",
    ),
    "burst of a memory": (
        lambda: MemoryModel(burst=3),
        """bad input: bursts of 3 beats of 32 bits
  hint: choose a power of two up to 256, of 4096 bytes at most""",
    ),
    "latency of a memory": (
        lambda: MemoryModel(latency=0),
        "bad input: latency=0 of a memory\n  hint: 1 or more",
    ),
    "refresh of a memory": (
        lambda: MemoryModel(refresh_every=8),
        """bad input: a memory that refreshes for 12 of 8 cycles
  hint: refresh_every must be larger than refresh_cycles""",
    ),
    "model of a memory": (
        lambda: check_memory("axi4", "ddr"),
        "bad input: memory='ddr' is not a memory behind the port 'axi4'\n  hint: give a MemoryModel, or none",
    ),
    "width of an SDRAM": (
        lambda: SdramModel(bits=64),
        "bad input: an SDRAM of 64 bits\n  hint: chips have 8, 16 or 32",
    ),
    "clock of an SDRAM": (
        lambda: SdramModel(clock=120.0, cas_latency=2),
        """bad input: an SDRAM at 120.0 MHz with cas_latency=2
  hint: cas_latency=2 goes up to 100 MHz, cas_latency=3 up to 143 MHz""",
    ),
    "columns of an SDRAM": (
        lambda: SdramModel(columns=500),
        """bad input: an SDRAM of 8192 rows and 500 columns
  hint: give powers of two, and 64 to 1,024 columns""",
    ),
    "refresh of an SDRAM": (
        lambda: SdramModel(refresh=10.0),
        "bad input: refresh=10.0 ns at 100.0 MHz\n  hint: there is no time left between refreshes",
    ),
    "on_chip_bits": (
        lambda: CompileOptions(on_chip_bits=0),
        "bad input: on_chip_bits=0\n  hint: give the bits of memory on the chip",
    ),
    "ports": (
        lambda: CompileOptions(ports="native"),
        """bad input: ports='native' is not a tuple of names\n  hint: give e.g. ports=("native",)""",
    ),
    "stream without inputs": (
        lambda: AxiStreamPort.claim(shape(inputs=())),
        f"""bad input: the model {serves().program} has no input that could come in a stream
  hint: use another host port, such as "native\"""",
    ),
    "idle port": (
        lambda: compiled(ports=("native", "wishbone")),
        "bad input: host port 'wishbone' has nothing to serve\n  hint: leave it out of ports=",
    ),
    "port without control": (
        lambda: plan_ports(("axi-stream", "uart"), shape(inputs=("x",))),
        """bad input: host port 'uart' does not work next to one that starts the runs
  at: ports=('axi-stream', 'uart')
  hint: let "native" serve the rest, or have no other port""",
    ),
    "variable": (
        wide_variable,
        """bad input: run-time variable 'n' has more than 32 bits\n  hint: use the port "native\"""",
    ),
    "banks": (
        one_bank,
        """plugin: sequencer 'dataflow' starts a run every 27 cycles, but buffer 'x' then needs 2 banks and has 1
  hint: correct its arrange(), or start runs further apart""",
    ),
    "runs that do not end": (
        lambda: stream(design(), [{"x": np.zeros(SIZE, np.int32), "z": np.zeros(SIZE, np.int32)}], limit=1),
        "simulation: 0 of 1 runs are done after 1 cycles\n  hint: give a larger limit if the work takes longer",
    ),
    "end of a packet": (
        lambda: driver(AxiStreamDriver).read("y"),
        f"simulation: TLAST of element 3 of 'y' is 0\n  at: AxiStreamDriver\n  {REPORT}",
    ),
    "bits of a buffer": (
        lambda: int5().read("y"),
        f"simulation: buffer 'y' holds bits beyond int5\n  at: Refusing\n  {REPORT}",
    ),
    "refused": (
        lambda: driver(Refusing, code=3).value("RUNS"),
        "simulation: access of 'RUNS' was refused: the design runs\n  at: Refusing\n"
        "  hint: wait for the end of the run, and keep to the register map",
    ),
    "no result": (
        lambda: driver(Refusing).run({}, -1),
        """simulation: no result after -1 cycles; STATUS is 0x0
  at: Refusing
  hint: give a larger limit if the work takes longer""",
    ),
    "damaged reply": (
        lambda: driver(Damaged).value("RUNS"),
        f"simulation: the reply 000102030405 is damaged\n  at: Damaged\n  {REPORT}",
    ),
    "silent SPI": (lambda: driver(SpiDriver).receive(), f"simulation: no reply\n  at: SpiDriver\n  {REPORT}"),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make()
    assert str(caught.value) == text


def test_tiles_that_no_core_can_have(monkeypatch):
    """Search finds a core for all built-in kinds of programs."""
    found = SimpleNamespace(program=sums())
    monkeypatch.setattr(tiles, "find_repeats", lambda program, options: found)
    monkeypatch.setattr(tiles, "_split", lambda program: "w")
    with pytest.raises(UnsupportedError) as caught:
        tiles.find_tile_repeats(sums(), CompileOptions())
    assert str(caught.value) == (
        """unsupported: the tiles of w cannot be used by one core
  at: program sums
  hint: choose a part that holds this weight, or compile another layer as a program of its own"""
    )


def test_a_sequencer_that_meets_for_too_many_values(monkeypatch):
    monkeypatch.setattr(check, "_timeline", lambda plan, plans, variables: None)
    monkeypatch.setattr(check, "cases_of", lambda plans: None)
    plan = SimpleNamespace(rows=(), interval=8, policy="mine")
    with pytest.raises(PluginError) as error:
        check.check_timeline(plan, [], [], None)
    assert error.value.message == (
        "sequencer 'mine' lets kernels meet whose loop bounds have more than 1,024 values"
    )
    assert error.value.hint == (
        'correct its arrange() or predict(); schedule="serial" runs one kernel after the other'
    )


def test_a_port_without_loops():
    with pytest.raises(UnsupportedError) as error:
        HostDriver.generate(SimpleNamespace(), {}, 1, None, 1)
    assert str(error.value) == (
        'unsupported: SimpleNamespace starts single runs only\n  hint: choose another port, such as "native" or "uart"'
    )


def test_a_stream_that_ends_too_early(monkeypatch):
    driver = AxiStreamDriver.__new__(AxiStreamDriver)
    driver._inputs, driver._outputs = [SimpleNamespace(name="x")], [SimpleNamespace(layout=Layout.linear(4))]
    driver.serves, driver.simulation, driver._given = SimpleNamespace(kernels=1), None, {"x": []}
    monkeypatch.setattr(axi_stream, "follow_rows", lambda *given: ((0,), [1]))
    with pytest.raises(SimulationError) as error:
        driver._follow(9)
    assert error.value.message == "1 of 4 results are there after 9 cycles"


def test_an_output_that_the_input_cannot_hold():
    buffers = [SimpleNamespace(shape=(1, 4), dtype=DType.INT32)] * 2
    design = SimpleNamespace(
        memories={0: SimpleNamespace(name="m0"), 1: SimpleNamespace(name="m1")},
        program=SimpleNamespace(buffers=buffers),
    )
    shape = SimpleNamespace(
        buffers=[
            SimpleNamespace(name="m0", title="x", dtype=DType.INT8),
            SimpleNamespace(name="m1", title="y", dtype=DType.INT16),
        ],
        inputs=["m0"],
        outputs=["m1"],
    )
    with pytest.raises(InputError) as error:
        loop_plan._pair(design, shape, "loop of net")
    assert error.value.message == "output 'y' is stored as int16, and input 'x' as int8"
    assert error.value.hint == "clip the output to the range of the input"

"""The conformance suites for authors of plugins: what is built in passes them, what has a fault is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_backend.testing.memory_ports import check_memory_port
from tg2hdl_backend.testing.ports import check_port
from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    HostPortDef,
    InputError,
    OpLowering,
    QuantizerDef,
    hookimpl,
    registry,
    resolve,
)
from tg2hdl_ir.ops import result_types
from tg2hdl_ir.testing.conformance import check_lowering, check_unit
from tg2hdl_quant.testing import check_quantizer
from tg2hdl_sim.testing.units import LoweringSimulation, simulate_unit
from tg2hdl_top.external.wishbone_pipelined import WishbonePipelinedTimes
from tg2hdl_top.ports.native import NativeDriver, NativePort

B, INT = DType.INT8, DType.INT32

# Units

UNITS = ("fp16.add.balanced", "bf16.mul.small", "fp16.exp2.balanced", "fp8_e4m3.div.fast", "int.div.int8")


@pytest.mark.parametrize("name", UNITS)
def test_units(name):
    (unit,) = (u for u in registry().units() if u.name == name)
    assert check_unit(unit, simulate_unit, count=300) > 300


class Xor(wiring.Component):
    """``a ^ b`` through a block RAM of all bytes; `fault` breaks one rule."""

    def __init__(self, fault=""):
        self.fault = fault
        width = 9 if fault == "width" else 8
        super().__init__({"a": In(8), "b": In(8), "en": In(1, init=1), "result": Out(width)})

    def elaborate(self, platform):
        m = Module()
        contents = [n ^ (n % 16 == 13 and self.fault == "value") for n in range(256)]
        m.submodules.table = memory = Memory(shape=8, depth=256, init=contents)
        read = memory.read_port()
        m.d.comb += [read.addr.eq(self.a ^ self.b), read.en.eq(self.en)]
        late = Signal(8)
        with m.If(self.en | (self.fault == "en")):
            m.d.sync += late.eq(read.data)
        m.d.comb += self.result.eq(read.data if self.fault == "latency" else late)
        return m


def xor(fault=""):
    return ArithmeticUnit("test.xor", "xor", (B, B), B, 2, lambda: Xor(fault))


def test_a_unit_with_block_ram():
    assert check_unit(xor(), simulate_unit, count=400) > 400


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("value", r"unit test\.xor: \d+ of \d+ results differ; first: "),
        ("latency", r"unit test\.xor: \d+ of \d+ results differ; first: "),
        ("en", r"unit test\.xor: its result changes from 0x\w+ to 0x\w+ without en"),
        ("width", r"unit test\.xor: port result has 9 bits, the descriptor says 8"),
    ],
)
def test_faulty_units(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_unit(xor(fault), simulate_unit, count=400)


def test_a_unit_without_en():
    class NoEnable(wiring.Component):
        def __init__(self):
            super().__init__({"a": In(8), "b": In(8), "result": Out(8)})

    with pytest.raises(AssertionError, match=r"unit test\.xor: the component of its factory has no port en"):
        check_unit(replace(xor(), factory=NoEnable), simulate_unit)


# Lowerings


def lowerings():
    for lowering in registry().lowerings():
        op = registry().op(lowering.op)
        for types in ((B,) * op.arity, (DType.UINT8,) * op.arity, (DType.BOOL, B, B)[: op.arity]):
            for result in (*types, DType.BOOL, INT):
                if result in result_types(op, types) and resolve(lowering.matches)(types, result):
                    if resolve(lowering.levels)(types, result) is not None:
                        yield pytest.param(lowering, types, result, id=f"{lowering.name}-{types[0]}-{result}")
                    break


@pytest.mark.parametrize(("lowering", "types", "result"), list(lowerings()))
def test_lowerings(lowering, types, result):
    assert check_lowering(lowering, types, result, LoweringSimulation(types, result), count=40) > 40


def test_faulty_lowerings():
    def lowering(build):
        return OpLowering("test.add", "add", lambda types, result: True, build, lambda types, result: 1)

    types = (B, B)
    simulate = LoweringSimulation(types, B)
    right = lowering(lambda m, operands, types, result: operands[0] + operands[1])
    assert check_lowering(right, types, B, simulate, count=20) > 20
    unsigned = lowering(lambda m, operands, types, result: operands[0][:7] + operands[1][:7])
    with pytest.raises(AssertionError, match=r"lowering test\.add: \d+ of \d+ results differ"):
        check_lowering(unsigned, types, B, simulate, count=20)


# Quantizers


@pytest.mark.parametrize("method", registry().quantizers(), ids=lambda method: method.name)
def test_quantizers(method):
    check_quantizer(method)


def quantized(values):
    if not np.isfinite(values).all():
        raise InputError("not finite")
    step = float(np.abs(values).max()) / 127 or 1.0
    return np.rint(values / step).astype(np.int8), step


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({}, "it has neither quantize nor calibrate"),
        ({"quantize": lambda v: (quantized(v)[0].astype(float), 1.0)}, "normal numbers become float64"),
        ({"quantize": lambda v: (quantized(v)[0] // 2 * 2, quantized(v)[1])}, "are off by"),
        ({"quantize": lambda v: (quantized(v)[0].ravel(), quantized(v)[1])}, r"of shape \(7, 30\) become"),
        ({"quantize": lambda v: (quantized(v)[0], 0.0)}, "have the scale 0.0"),
        ({"quantize": lambda v: quantized(np.nan_to_num(v, posinf=1))}, "is not refused"),
        ({"calibrate": lambda v, bits: (v.max(), v.min())}, "have the range"),
        ({"calibrate": lambda v, bits: (2 * v.min(), 2 * v.max())}, "normal numbers in .* have the range"),
        ({"calibrate": lambda v, bits: (0.0, 0.0)}, "have the empty range"),
    ],
)
def test_faulty_quantizers(fault, message):
    check_quantizer(QuantizerDef("right", "", quantized))
    with pytest.raises(AssertionError, match=f"quantizer wrong: .*{message}"):
        check_quantizer(QuantizerDef("wrong", "", **fault))


# Host ports


@pytest.mark.parametrize("name", ["native", "axi-lite"])
def test_ports(name):
    check_port(registry().port(name))


@pytest.mark.parametrize("port", registry().memory_ports(), ids=lambda port: port.name)
def test_memory_ports(port):
    check_memory_port(port)


def test_a_prediction_that_is_a_cycle_early():
    class Early(WishbonePipelinedTimes):
        def take(self, beats, begin):
            return super().take(beats, begin) - 1

    definition = replace(registry().memory_port("wishbone-pipelined"), name="early", times=Early)

    class Plugin:
        tg2hdl_memory_ports = staticmethod(hookimpl(lambda: [definition]))

    with (
        registry().extended(Plugin),
        pytest.raises(
            AssertionError, match=r"run 0: .* 1,786 cycles, 1,785 predicted: .* memory port 'early'"
        ),
    ):
        check_memory_port(definition)


class Forgetful(NativePort):
    """Drops the highest bit of the words that it writes."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        for name in [b.name for b in self.serves.buffers if b.writes]:
            word = getattr(self.design.buffers, name).wdata
            m.d.comb += word.eq(getattr(self.outside.buffers, name).wdata[:-1])
        return m


class Deaf(NativeDriver):
    """Does not start the design."""

    def run(self, variables, limit):
        self.simulation.step(limit)
        return (limit, limit)


@pytest.mark.parametrize("fault", [{"port": Forgetful}, {"driver": Deaf}, {"port": dict}])
def test_faulty_ports(fault):
    definition = replace(registry().port("native"), name="wrong", **fault)

    class Plugin:
        tg2hdl_ports = staticmethod(hookimpl(lambda: [definition]))

    with registry().extended(Plugin), pytest.raises(AssertionError, match="host port wrong"):
        check_port(definition)
    assert isinstance(definition, HostPortDef)

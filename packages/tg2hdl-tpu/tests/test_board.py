"""The processor behind its serial line, simulated byte for byte, against the simulator in software."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_tpu import Config, assemble, run_bundle
from tg2hdl_tpu.cli import tpu
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

host = pytest.importorskip("tg2hdl_host")
pytest.importorskip("tg2hdl")
from tg2hdl_host.selftest import selftest  # noqa: E402
from tg2hdl_tpu.board.command import PAYLOAD, host_shape  # noqa: E402
from tg2hdl_tpu.board.driver import connect_processor  # noqa: E402
from tg2hdl_tpu.board.folder import build_folder  # noqa: E402

CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=16, imem_depth=24, xmem_rows=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("processor")
    build_folder(CONFIG, path, payload=40)
    return path


@pytest.fixture(scope="module")
def processor(folder):
    with connect_processor(f"simulate:{folder}", engine="levelized") as opened:
        yield opened


def same(found, expected):
    assert (found.trap, found.pc, found.cycles) == (expected.trap, expected.pc, expected.cycles)
    for name, rows in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], rows, err_msg=name)


def test_bundles_run_as_on_the_simulator(processor, folder):
    assert selftest(processor.device, folder) == 1
    bundle = random_bundle(1, CONFIG, length=12)
    same(processor.run_bundle(bundle), run_bundle(bundle))
    # Nothing is left of the bundle before: neither data nor instructions behind the end of the program.
    bundle = assemble("copy v[1], v[0] mxu8\nadd v[1], v[1], v[2]\n.out r vmem 0 3", CONFIG)
    expected = run_bundle(bundle)
    assert expected.trap is Trap.ILLEGAL
    same(processor.run_bundle(bundle), expected)


def test_a_program_without_an_end_is_stopped_and_the_next_one_runs(processor, folder):
    forever = assemble("jump 0", CONFIG)
    result, _ = processor._do(program=(0, forever.program), limit=300)
    assert (result.trap, result.cycles) == (Trap.LIMIT, 300)
    assert selftest(processor.device, folder) == 1


def test_what_lies_outside_is_refused_and_does_nothing(processor):
    rows = np.full((2, 4), 7, np.int32)
    processor.write("xmem", 18, rows)
    for parts in (
        {"write": (19, rows + 1)},
        {"write": (18, rows + 1), "program": (24, [0])},
        {"write": (18, rows + 1), "limit": 1 << 24},
    ):
        with pytest.raises(SimulationError, match="refused a command"):
            processor._do(**parts)
    np.testing.assert_array_equal(processor.read("xmem", 18, 2), rows)


def test_errors_name_the_way_out(processor, folder, tmp_path):
    with pytest.raises(InputError, match="another configuration"):
        processor.run_bundle(assemble("halt", Config()))
    with pytest.raises(InputError, match="limit of 16,777,216 cycles"):
        processor.run_bundle(assemble("halt", CONFIG), limit=1 << 24)
    with pytest.raises(InputError, match="the machine of the processor at"):
        connect_processor("/dev/ttyUSB0")
    facts = json.loads((folder / "device.json").read_text())
    del facts["processor"]
    (tmp_path / "device.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="has no processor"):
        connect_processor(f"simulate:{tmp_path}")


def test_another_machine_is_another_design():
    shapes = [host_shape(CONFIG), host_shape(CONFIG, 40), host_shape(Config())]
    assert len({shape.identity for shape in shapes}) == 3


def invoke(*arguments):
    return CliRunner().invoke(tpu, [str(a) for a in arguments])


def test_build_for_a_board(tmp_path, monkeypatch):
    bitstream = pytest.importorskip("tg2hdl_synth.boards.bitstream")
    made = SimpleNamespace(path=tmp_path / "ulx3s-25f.bit", clock=50.0, fmax=61.5, limit="tensor core")
    made.baud, made.utilization = 2_000_000, {"DP16KD": (30, 56)}
    made.by_part = {"tensor core": {"LUT": 9000, "FF": 8000, "DSP": 4, "RAM": 28}}
    asked = []

    def built(subject, board, folder, **options):
        asked.append((subject, board, options["clock"]))
        return made

    monkeypatch.setattr(bitstream, "build_bitstream", built)
    monkeypatch.setattr(bitstream, "check_board", lambda board: None)
    out = tmp_path / "made"
    found = invoke("build", "--board", "ulx3s-25f", "--array", "2x2", "--clock", 50, "-o", out, "--json", "-")
    assert json.loads(found.stdout)["utilization"] == {"DP16KD": [30, 56]}
    (subject, board, clock) = asked[0]
    config = subject.make().config
    # Without --config a board gets the pipeline registers of an ECP5, and memories in block RAM.
    assert (config.lanes, config.rows, config.columns, config.issue_registers) == (4, 2, 2, 1)
    assert config.xmem_rows == 1024
    assert (board, clock) == ("ulx3s-25f", 50.0)
    facts = json.loads((out / "device.json").read_text())
    assert facts["id"] == host_shape(config, PAYLOAD).identity
    assert (facts["bitstream"], facts["board"]) == ("ulx3s-25f.bit", "ulx3s-25f")
    assert "9,000 LUT" in invoke("build", "--board", "ulx3s-25f", "-o", out).stdout
    assert "add -o DIR" in str(invoke("build", "--board", "ulx3s-25f").exception)
    assert "an array of 2" in str(invoke("build", "--array", "2").exception)


def test_memories_that_no_board_has_are_refused():
    fits = pytest.importorskip("tg2hdl_synth.fits")
    from tg2hdl_synth.estimate import convert
    from tg2hdl_tpu.hardware.chip import RowMemory

    fit = fits.component_fits(convert(RowMemory(Config(xmem_rows=512))), "ice40-up5k", "fewer rows")
    assert (fit.hint, bool(fit)) == ("fewer rows", False)
    assert "memory: 262,144 bits" in fit.lines[0]
    assert fits.component_fits(convert(RowMemory(CONFIG)), "ecp5-25k", "fewer rows")

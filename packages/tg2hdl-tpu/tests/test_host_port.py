"""Runs whose program and operands come through the host port: netlist against the simulator in software."""

import random

import numpy as np
import pytest

from comparison import check_result
from tg2hdl_ir import InputError, SimulationError
from tg2hdl_tpu import Bundle, Config, Region, assemble, run_bundle
from tg2hdl_tpu.hardware.simulate import Hardware
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.testing import random_bundle

SMALL = {"lanes": 4, "rows": 2, "columns": 2, "vmem_rows": 32, "xmem_rows": 64, "imem_depth": 64}
CONFIG = Config(**SMALL)


def streamed(seed, config=CONFIG):
    bundle = random_bundle(seed, config, length=24, traps=seed % 4 == 3)
    data = np.concatenate([region.rows for region in bundle.data])
    rng = random.Random(seed)
    first = rng.randrange(8)
    rows = Region("vmem", first, data[: rng.randrange(1, 32 - first)])
    return Bundle(config, bundle.program, (rows,), bundle.outputs)


def check_streamed(found, total, expected, seed):
    check_result(found, expected, seed)
    assert expected.trap in (Trap.INDEX, Trap.FORMAT) or total == expected.cycles + 2, seed


@pytest.fixture(scope="module")
def hardware():
    with Hardware(CONFIG, engine="levelized") as opened:
        yield opened


def test_random_programs_give_the_same_bits_in_the_same_cycles(hardware):
    ended = set()
    for seed in range(32):
        bundle = streamed(seed)
        expected = run_bundle(bundle, streamed=True)
        found, total, _, _ = hardware.run_streamed(bundle)
        check_streamed(found, total, expected, seed)
        ended.add(expected.trap)
        if expected.trap is Trap.NONE and seed % 4 == 0:
            # A host that pauses changes the time and nothing else.
            rng = random.Random(seed)
            pauses = [rng.random() < 0.5 for _ in range(300)]
            late, late_total, _, _ = hardware.run_streamed(bundle, pauses=pauses)
            assert late_total > total, seed
            for output, rows in expected.outputs.items():
                np.testing.assert_array_equal(late.outputs[output], rows, err_msg=f"paused seed {seed}")
    assert len(ended) > 2


def test_a_program_that_does_not_halt_is_an_error(hardware):
    endless = streamed(0)
    endless = Bundle(CONFIG, assemble("again: jump again\nhalt", CONFIG).program, endless.data, ())
    with pytest.raises(SimulationError) as caught:
        hardware.run_streamed(endless, limit=50)
    assert "the processor has not halted after 50 cycles" in str(caught.value)


def test_a_machine_with_registers_takes_the_cycles_that_are_predicted():
    config = Config.ecp5(**SMALL)
    with Hardware(config, engine="levelized") as hardware:
        for seed in range(6):
            expected = run_bundle(streamed(seed, config), streamed=True)
            found, total, _, _ = hardware.run_streamed(streamed(seed, config))
            check_streamed(found, total, expected, seed)


def test_results_are_shown_as_they_are_written(hardware):
    text = "add v[16], v[0], v[4], n=4\nadd v[3], v[16], #1\ncopy v[41], v[16] seg=2\nhalt\n"
    data = ".vmem 0 = " + " ".join(map(str, range(32)))
    bundle = assemble(text + data, CONFIG)
    _, total, seen, shown = hardware.run_streamed(bundle, results=16)
    # The trace of the simulator says when each row is issued; it is written and shown when the pipeline is through.
    trace = run_bundle(bundle, streamed=True, trace=100).trace
    results = np.flatnonzero((trace["row"] == 1) & (trace["row_pc"] != 1))
    assert shown == (results + CONFIG.latency + 2).tolist()
    # 8 rows; 4 cycles from the last one that comes to what it makes; the results of the other two instructions.
    assert total == 8 + 4 + 2
    np.testing.assert_array_equal(seen[16:20], np.arange(16).reshape(4, 4) * 2 + 16)
    np.testing.assert_array_equal(seen[20], [0, 0, 20, 22])
    assert not seen[:16].any()


def test_a_second_program_does_not_run_words_of_the_first(hardware):
    data = "\n.vmem 0 = 1 2 3 4\n"
    first = assemble("copy v[9], v[0]\ncopy v[10], v[0]\nhalt" + data, CONFIG)
    second = assemble("copy v[11], v[0]\nhalt" + data, CONFIG)
    assert len(hardware.run_streamed(first, results=8)[3]) == 2
    # The second word comes late.
    *_, seen, shown = hardware.run_streamed(second, results=8, pauses=[True] * 6, power_on=False)
    assert len(shown) == 1
    np.testing.assert_array_equal(seen[11], [1, 2, 3, 4])
    assert not seen[10].any()


def test_data_that_the_port_does_not_take_are_refused():
    for text in ("halt\n.xmem 0 = 1", "halt\n.vmem 0 = 1\n.vmem 2 = 1", ".vmem 0 = 1"):
        with pytest.raises(InputError, match="comes through the host port"):
            run_bundle(assemble(text, CONFIG), streamed=True)

"""Units alone, against numpy."""

import numpy as np
import pytest

from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_tpu import Config
from tg2hdl_tpu.hardware.alu import SHORT, Alu, controls
from tg2hdl_tpu.hardware.dma import RowFifo
from tg2hdl_tpu.hardware.floats import FloatLane
from tg2hdl_tpu.hardware.functions import FunctionLane
from tg2hdl_tpu.hardware.pre import Crossbar, MatrixUnit
from tg2hdl_tpu.hardware.reduce import Reducer
from tg2hdl_tpu.isa import FIRST_VECTOR
from tg2hdl_tpu.vector_ops import VECTOR_OPS

EDGES = np.array(
    [0, 1, -1, 2, 31, 32, 127, -128, 255, 1 << 30, -(1 << 31), (1 << 31) - 1, 0x7F80FF01], np.int64
)


def opened(top, engine="amaranth"):
    return open_simulation(SimulationModel(top), engine=engine)


def to_int(words):
    return int.from_bytes(np.asarray(words, dtype=np.int32).tobytes(), "little")


def to_words(value, lanes):
    return np.frombuffer(value.to_bytes(4 * lanes, "little"), dtype=np.int32)


def multiplied(name, a, b):
    """What a core gives a lane to multiply with: the factor, and the sign of the other one."""
    power = {"shl": b % 32, "shr": -b % 16, "sra": -b % 16}.get(name)
    return {"factor": b if power is None else 1 << power, "top": int(a < 0 and name != "shr")}


@pytest.mark.parametrize("registers", [0, 5])
def test_every_vector_operation(registers):
    rng = np.random.default_rng(registers)
    values = np.concatenate([EDGES, rng.integers(-(1 << 31), 1 << 31, 7)]).astype(np.int32)
    with opened(Alu(registers), "levelized") as sim:
        for op in SHORT:
            a, b, c = (rng.choice(values, 16) for _ in range(3))
            b *= op.reads_b
            if op.name in ("shl", "shr", "sra"):  # by every number of bits
                a, b = rng.choice(values, 64), np.arange(-32, 32, dtype=np.int32)
                c = np.zeros(64, np.int32)
            k = int(rng.integers(0, 40)) if op.uses_k else 0
            with np.errstate(over="ignore"):
                expected = op.numpy(a, b, c, k)
            sim.set(
                "next_control", sum((op.name in names) << n for n, names in enumerate(controls().values()))
            )
            sim.set("next_k", k)
            for relu in (0, 1):
                sim.set("next_relu", relu)
                sim.step()
                for n in range(len(a)):
                    operands = {"a": int(a[n]), "b": int(b[n]), "c": int(c[n])}
                    for port, value in (operands | multiplied(op.name, int(a[n]), int(b[n]))).items():
                        sim.set(port, value)
                    sim.step(registers)
                    wanted = max(0, int(expected[n])) if relu else int(expected[n])
                    assert sim.get("result") == wanted, (op.name, a[n], b[n], c[n], k, relu)


def test_matrix_unit():
    config = Config(lanes=8, rows=4, columns=2)
    rng = np.random.default_rng(0)
    with opened(MatrixUnit(config)) as sim:
        weights = rng.integers(-128, 128, (4, 2))
        sim.set("weights", 1)
        for i in range(4):
            row = rng.integers(-128, 128, 8)
            row[2:4] = weights[i]
            for port, value in (("row", to_int(row)), ("segment", 1), ("load", 1 << i)):
                sim.set(port, value)
            assert sim.get("overflow") == 0
            sim.step()
        sim.set("load", 0)
        sim.set("weights", 0)
        assert sim.get("result") == 0
        sim.set("used", 1)
        for packed in (0, 1):
            sim.set("bytes", packed)
            for _ in range(10):
                factors = rng.integers(-128, 128, 32 if packed else 8)
                row = factors.astype(np.int8).view(np.int32) if packed else factors
                segment = int(rng.integers(0, len(factors) // 4))
                sim.set("row", to_int(row))
                sim.set("segment", segment)
                sim.set("group", segment // 2)
                expected = factors[4 * segment : 4 * segment + 4] @ weights
                assert to_words(sim.get("result"), 8).tolist() == np.tile(expected, 4).tolist()
        sim.set("bytes", 0)
        sim.set("row", to_int([0, 0, 0, 0, 128, 0, 0, 0]))
        for segment, overflow in ((0, 0), (1, 1)):
            sim.set("segment", segment)
            assert sim.get("overflow") == overflow


def test_crossbar():
    rng = np.random.default_rng(1)
    row = rng.integers(-(1 << 31), 1 << 31, 16)
    indices = rng.integers(0, 16, 16)
    with opened(Crossbar(Config())) as sim:

        def result():
            return to_words(sim.get("low") | sim.get("high"), 16).tolist()

        sim.set("row", to_int(row))
        sim.set("indices", to_int(indices))
        sim.set("checked", to_int(indices))
        sim.set("k", 5)
        assert not any(result())
        sim.set("used", 1)
        expected = (np.roll(row, -5), np.full(16, row[5]), row.reshape(4, 4).T.reshape(-1), row[indices])
        for mode, wanted in enumerate(expected):
            sim.set("mode", mode)
            assert result() == wanted.tolist()
        assert sim.get("overflow") == 0
        for bad in (16, -1):
            sim.set("checked", to_int([0] * 15 + [bad]))
            assert sim.get("overflow") == 1


def test_reducer():
    rng = np.random.default_rng(2)
    with opened(Reducer(Config(lanes=8))) as sim:
        sim.set("valid", 1)
        for how, function in ((1, np.sum), (2, np.max), (3, np.min)):
            sim.set("how", how)
            rows = rng.integers(-1000, 1000, (3, 8))
            sim.set("accumulate", 1)
            sim.set("levels", 0)
            for n, row in enumerate(rows):
                sim.set("first", int(n == 0))
                sim.set("row", to_int(row))
                if n < 2:
                    sim.step()
            assert to_words(sim.get("result"), 8).tolist() == function(rows, axis=0).tolist()
            sim.set("accumulate", 0)
            row = rows[0]
            sim.set("row", to_int(row))
            sim.set("levels", 3)
            assert (
                to_words(sim.get("result"), 8)[::4].tolist() == function(row.reshape(2, 4), axis=1).tolist()
            )
            sim.set("pack", 1)
            assert to_words(sim.get("result"), 8)[:2].tolist() == function(row.reshape(2, 4), axis=1).tolist()
            sim.set("pack", 0)
            sim.set("levels", 4)
            assert to_words(sim.get("result"), 8)[:4].tolist() == function(row.reshape(2, 4), axis=0).tolist()


def test_fifo_keeps_the_order_under_stalls():
    rng = np.random.default_rng(3)
    sent, received, number, held = [], [], 0, 0
    with opened(RowFifo(32)) as sim:
        for _ in range(300):
            push = int(rng.random() < 0.5 and held < 8)
            sim.set("push", push)
            sim.set("row", number)
            pop = int(rng.random() < 0.5 and sim.get("ready"))
            sim.set("pop", pop)
            if pop:
                received.append(sim.get("head"))
            if push:
                sent.append(number)
                number += 1
            held += push - pop
            sim.step()
    assert len(received) > 100
    assert received == sent[: len(received)]


SPECIAL = (
    0,
    1 << 31,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFFC00001,
    1,
    0x80000001,
    0x3F800000,
    0xBFC00000,
    0x4F000000,
)


@pytest.mark.parametrize("lane", [FloatLane(5), FunctionLane(16)], ids=["float", "function"])
def test_every_operation_of_the_slower_lanes(lane):
    rng, stages = np.random.default_rng(5), lane.stages
    kind = 1 if isinstance(lane, FloatLane) else 2
    values = np.concatenate([SPECIAL, EDGES, rng.integers(0, 1 << 32, 8)]).astype(np.int64).astype(np.uint32)
    near = rng.integers(0x3E000000, 0x42000000, 8).astype(np.uint32)
    values = np.concatenate([values, near]).view(np.int32)
    with opened(lane, engine="levelized") as sim:
        for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR):
            if op.kind != kind:
                continue
            a, b = (rng.choice(values, 60) for _ in range(2))
            expected = op.numpy(a, b, b, 0)
            sim.set("opcode", code)
            for n in range(len(a)):
                sim.set("a", int(a.view(np.uint32)[n]))
                sim.set("b", int(b.view(np.uint32)[n]))
                sim.step(stages)
                assert sim.get("result") == int(expected.view(np.uint32)[n]), (op.name, hex(a[n]), hex(b[n]))

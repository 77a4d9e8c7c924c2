import random

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_tpu import Config, Instruction, assemble, disassemble
from tg2hdl_tpu.isa import decode
from tg2hdl_tpu.testing import random_bundle


def one(text, config=None):
    (word,) = assemble(text, config).program
    return decode(word)


@pytest.mark.parametrize(
    ("text", "instruction"),
    [
        ("halt # stop", Instruction("halt")),
        ("set a1, #-5", Instruction("set", dst_reg=1, b=-5)),
        ("set a1, a2, #0x10", Instruction("set", dst_reg=1, a_reg=2, b=16)),
        ("loop a3", Instruction("loop", a_reg=3)),
        ("x: bz a1, x", Instruction("bz", a_reg=1)),
        ("lda a2, v[7], k=3", Instruction("lda", dst_reg=2, a=7, k=3)),
        ("load v[4], x[100+a1], n=3", Instruction("load", dst=4, b=100, b_reg=1, count=3)),
        ("store x[9], v[a2+1]", Instruction("store", a=1, a_reg=2, b=9, count=1)),
        ("tile v[3], mxu8", Instruction("tile", a=3, pre=2)),
        ("copy v[0], v[1:-2]", Instruction("copy", dst_stride=1, a=1, a_stride=-2, count=1)),
        ("max v[0], v[0], #1.5 n=2", Instruction("max", dst_stride=1, a_stride=1, b=0x3FC00000, constant=1, count=2)),
        ("add v[0], v[0], #0xffffffff", Instruction("add", dst_stride=1, a_stride=1, b=-1, constant=1, count=1)),
        (
            "add v[8:4], v[2], v[5+a1:-3], n=4 mxu relu seg=4",
            Instruction(
                "add", dst=8, dst_stride=4, a=2, a_stride=1, b=5 | -3 << 16, b_reg=1, count=4, pre=1, relu=1, segment=2
            ),
        ),
        (
            "mul v[8], v[2], v[2] acc reduce=add levels=15 pack seg=1",
            Instruction(
                "mul", dst=8, dst_stride=1, a=2, a_stride=1, b=2 | 1 << 16, count=1,
                accumulate=1, reduce=1, levels=15, pack=1, segment=4,
            ),
        ),
    ],
)  # fmt: skip
def test_statements(text, instruction):
    assert one(text) == instruction


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("halt\n  frob v[1]", "program:2:3", "no instruction is named 'frob'"),
        ("add v[0], v[1]", "program:1:15", "operand b is missing"),
        ("add v[0], x[1], v[2]", "program:1:11", "'x[1]' where v[ROW] should be"),
        ("add v[1024], v[1], v[2]", "program:1:1", "add: dst is 1024 of 1024"),
        ("add v[99999], v[1], v[2]", "program:1:5", "address 99999 is beyond 32767"),
        ("add v[1:128], v[1], v[2]", "program:1:5", "stride 128 is beyond 8 bits"),
        ("add v[1], v[1], v[2] n=0", "program:1:22", "0 is not between 1 and 1023"),
        ("add v[1], v[1], v[2] seg=3", "program:1:22", "a segment of 3 lanes is not a power of two"),
        ("add v[1], v[1], v[2] mxu transpose", "program:1:26", "'transpose' sets pre again"),
        ("add v[1], v[1], v[2] fast", "program:1:22", "no option is named 'fast'"),
        ("jump away", "program:1:6", "no label is named 'away'"),
        ("x: halt\nx: halt", "program:2:1", "the label 'x' is used twice"),
        ("set a9, #1", "program:1:5", "'a9' is not an address register"),
        ("set a0, #1", "program:1:1", "set: a0 is always zero"),
        (".vmem 1023 = " + "1 " * 17, "program:1:7", "row 1024 of 1024"),
        (".vmem 0 = 1 two", "program:1:13", "'two' is not an integer"),
        (".vmem 0 = 5000000000", "program:1:11", "5000000000 is not between -2147483648 and 4294967295"),
        (".vmem 0 = 1e99", "program:1:11", "1e99 is beyond FP32"),
        (".out a vmem 0 1\n.out a vmem 1 1", "program:2:6", "two outputs are named 'a'"),
        ("halt 7", "program:1:6", "'7' after the end of the statement"),
        ("halt ;", "program:1:6", "';' is not a part of TASM"),
        ("tile v[0], n=2 mxu", "program:1:12", "tile has no option 'n=2'"),
    ],
)
def test_errors_have_line_and_column(text, where, message):
    with pytest.raises(InputError) as caught:
        assemble(text)
    assert caught.value.where == where
    assert caught.value.message == message


def test_data_and_outputs():
    bundle = assemble(
        ".vmem 3 = " + " ".join(map(str, range(17))) + "\n.xmem 1 = -1 2.5 0x80000000\n.out r xmem 0 2"
    )
    assert [(r.space, r.start, r.rows.shape) for r in bundle.data] == [
        ("vmem", 3, (2, 16)),
        ("xmem", 1, (1, 16)),
    ]
    assert bundle.data[0].rows.reshape(-1)[:18].tolist() == [*range(17), 0]
    assert bundle.data[1].rows[0, :3].tolist() == [-1, 0x40200000, -(1 << 31)]
    assert bundle.outputs[0].count == 2


def test_round_trip_of_random_programs():
    for seed in range(12):
        config = [Config(float=True, vmem_rows=64), Config(lanes=8, rows=8, columns=2, vmem_rows=256)][
            seed % 2
        ]
        bundle = random_bundle(seed, config, traps=True)
        text = disassemble(bundle)
        again = assemble(text, config)
        assert again == bundle
        assert disassemble(again) == text


def test_constants_of_floats_round_trip():
    config = Config(float=True)
    rng = np.random.default_rng(0)
    for b in [
        0,
        -(1 << 31),
        0x7F800000,
        0x7FC00000,
        1,
        0x40490FDB,
        *rng.integers(-(1 << 31), 1 << 31, 200).tolist(),
    ]:
        from tg2hdl_tpu.disassembler import format_instruction

        i = Instruction("fmul", b=b, constant=1, count=1, dst_stride=1, a_stride=1)
        assert one(format_instruction(i, config), config) == i


def test_mutilated_text_is_assembled_or_refused():
    rng = random.Random(3)
    text = disassemble(random_bundle(5, Config(vmem_rows=64)))
    text = "\n".join(line for line in text.splitlines() if not line.startswith((".vmem", ".xmem")))
    refused = 0
    for _ in range(150):
        at = rng.randrange(len(text))
        cut = (
            text[:at]
            + rng.choice(("", "9" * 30, "[", "#", "=", "\0", "é", " v[", ":"))
            + text[at + rng.randrange(3) :]
        )
        try:
            assemble(cut, Config(vmem_rows=64))
        except InputError as error:
            refused += 1
            assert error.where is not None  # noqa: PT017
            assert error.where.count(":") == 2  # noqa: PT017
    assert refused > 50

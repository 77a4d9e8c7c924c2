import random
import struct
import zlib

import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_tpu import Bundle, Config, Output, Region
from tg2hdl_tpu.testing import random_bundle

CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=16, xmem_rows=16)


def test_both_forms_are_lossless(tmp_path):
    for seed in range(4):
        bundle = random_bundle(seed, CONFIG, length=8)
        assert Bundle.from_text(bundle.to_text()) == bundle
        assert Bundle.from_bytes(bundle.to_bytes()) == bundle
        for name in ("a.bundle", "a.tpu"):
            bundle.save(tmp_path / name)
            assert Bundle.load(tmp_path / name) == bundle


TEXT = Bundle(
    CONFIG,
    (1, 2),
    (Region("vmem", 0, np.arange(8, dtype=np.int32).reshape(2, 4)),),
    (Output("r", "vmem", 0, 2),),
).to_text()


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("bundle 1", "bundle 2", 1, "this is not a bundle of version 1"),
        ('"lanes":4', '"lanes":5', 2, "lanes is 5"),
        ('"lanes"', '"lames"', 2, "the configuration has unknown parameters"),
        ("program 2", "program 9999", 3, "'9999' is not a number below 513"),
        ("program 2", "program -1", 3, "'-1' is not a number below 513"),
        ("program 2", "program 1", 5, "'00000000000000000000000000000002' is not a part of a bundle"),
        ("data vmem 0 2", "data vmem 15 2", 8, "2 rows from row 15 on of vmem"),
        ("data vmem 0 2", "data vmem 0 8000000", 6, "8000000 rows, but 4 lines are left"),
        ("data vmem 0 2", "data wmem 0 2", 8, "no memory is named 'wmem'"),
        ("4 5 6 7", "4 5 6", 8, "3 words in a row of 4 lanes"),
        ("4 5 6 7", "4 5 6 100000000", 8, "'100000000' is not a number below 4294967296"),
        ("output r", "output r-", 9, "an output is named 'r-'"),
        ("\nend", "", 10, "the bundle ends too early"),
        ("\nend", "\nend\nmore", 10, "text after `end`"),
    ],
)
def test_errors_of_text_have_a_line(old, new, line, message):
    assert old in TEXT
    with pytest.raises(InputError) as caught:
        Bundle.from_text(TEXT.replace(old, new, 1))
    assert caught.value.message == message
    assert caught.value.where == f"bundle:{line}"


def test_cut_and_damaged_files_are_refused():
    bundle = random_bundle(0, CONFIG, length=8)
    raw, text = bundle.to_bytes(), bundle.to_text()
    rng = random.Random(0)
    for _ in range(100):
        with pytest.raises(InputError, match="byte"):
            Bundle.from_bytes(raw[: rng.randrange(len(raw))])
        at = rng.randrange(len(raw))
        with pytest.raises(InputError, match="byte"):
            Bundle.from_bytes(raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :])
        with pytest.raises(InputError, match="bundle:"):
            Bundle.from_text(text[: rng.randrange(len(text) - 5)])


def test_wrong_counts_with_a_right_checksum_are_refused():
    raw = random_bundle(0, CONFIG, length=8).to_bytes()[:-4]
    rng = random.Random(1)
    for _ in range(200):
        at = rng.randrange(7, len(raw) - 4)
        body = raw[:at] + struct.pack("<I", rng.choice((1 << 31, 0xFFFFFFFF, 70000, 0))) + raw[at + 4 :]
        try:
            bundle = Bundle.from_bytes(body + struct.pack("<I", zlib.crc32(body)))
        except InputError as error:
            assert "byte" in (error.where or "")  # noqa: PT017
        else:
            assert Bundle.from_bytes(bundle.to_bytes()) == bundle


def test_outputs_have_different_names():
    with pytest.raises(InputError, match="an output is named 'a'"):
        Bundle(CONFIG, outputs=(Output("a", "vmem", 0, 1), Output("a", "vmem", 1, 1)))


def test_config_is_checked():
    with pytest.raises(InputError, match="rows is 16"):
        Config(lanes=8, rows=16)
    with pytest.raises(InputError, match="lanes is True"):
        Config(lanes=True)
    assert Config.from_json(CONFIG.to_json()) == CONFIG
    assert "#define TPU_LANES 4\n" in CONFIG.c_header()

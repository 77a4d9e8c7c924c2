"""Damaged programs and bundles: an error with its place, or a program that survives a round trip; never a crash."""

import random
import re

import pytest

from tg2hdl_ir import InputError
from tg2hdl_tpu import Bundle, Config, assemble, disassemble
from tg2hdl_tpu.testing import random_bundle

CONFIG = Config(lanes=4, rows=2, columns=2, vmem_rows=16, xmem_rows=16)
SUMS = Config(lanes=4, rows=2, columns=2, vmem_rows=16, xmem_rows=16, output_stationary=True)
NUMBERS = (
    "99999999999999999999",
    "-1",
    "-0",
    "0x",
    "1e400",
    "1_0",
    "0b2",
    "nan",
    "4294967296",
    "1" * 5000,
    "",
)
WORDS = (
    *NUMBERS, "#", "v[", "v[1", "]", "v[9999999999]", "v[1+a9:200]", "v[1:9999]", "a9", "=", ".", "..", "\x00",
    "\u00e9",
    "n=", "n=0", "n=99999", "k=-1", "add", "L:", "L: L:", "seg=3", "\t", "\u2028", ",", ":", ".vmem", ".xmem 0 =",
    ".out", "#1.5e99", "[[[[", "\n",
    "s[", "s[0]", "s[9]", "s[a1:-1]", "outer", "preload",
)  # fmt: skip


def damaged(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        kind, at = rng.randrange(5), rng.randrange(len(text) + 1)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + rng.choice(WORDS) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at + rng.randrange(1, 9) :]
        elif kind == 3:
            text = text[:at] + chr(rng.randrange(1, 300)) + text[at:]
        else:
            words = re.split(r"([ \n]+)", text)
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            text = "".join(words)
    return text


@pytest.mark.parametrize(
    ("read", "text", "place"),
    [
        (
            lambda text: assemble(text, CONFIG, name="p"),
            disassemble(random_bundle(3, CONFIG, length=12)),
            r"p:\d+:\d+",
        ),
        (
            lambda text: Bundle.from_text(text, name="p"),
            random_bundle(3, CONFIG, length=8).to_text(),
            r"p:\d+",
        ),
        (
            lambda text: assemble(text, SUMS, name="p"),
            disassemble(random_bundle(7, SUMS, length=24)),
            r"p:\d+:\d+",
        ),
        (
            lambda text: Bundle.from_text(text, name="p"),
            random_bundle(7, SUMS, length=12).to_text(),
            r"p:\d+",
        ),
    ],
    ids=["tasm", "bundle", "tasm of sums", "bundle of sums"],
)
def test_damaged_text(read, text, place):
    rng, refused, kept = random.Random(0), 0, 0
    for _ in range(600):
        case = damaged(rng, text)
        try:
            bundle = read(case)
        except InputError as error:
            assert re.fullmatch(place, error.where or ""), (case, error)  # noqa: PT017
            refused += 1
        else:
            assert Bundle.from_bytes(bundle.to_bytes()) == bundle
            kept += 1
    assert refused > 300
    assert kept > 30 or "bundle 1" in text


@pytest.mark.parametrize(
    "config", ["[" * 100_000, '{"lanes":1e999}', '{"lanes":' + "1" * 5000 + "}", "{}x", '{"lanes":null}']
)
def test_damaged_configurations(config):
    with pytest.raises(InputError, match="config"):
        Bundle.from_text(f"tg2hdl-tpu bundle 1\nconfig {config}\nprogram 0\nend\n", name="config")

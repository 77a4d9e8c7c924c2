"""Language models: checkpoints, integers, and the hardware that writes texts."""

from __future__ import annotations

import json
import struct
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
import tg2hdl.cli.stories as stories
from tg2hdl.cli.main import cli
from tg2hdl.language import (
    FloatModel,
    IntegerModel,
    calibrated_peaks,
    divergence,
    generated,
    integers,
    load_story,
    quantized,
    read_checkpoint,
    read_tokenizer,
)
from tg2hdl.language.decoder import DecodingStep
from tg2hdl.language.teller import CALIBRATION, Teller
from tg2hdl.language.testing import PIECES, write_checkpoint, write_tokenizer
from tg2hdl_ir import InputError

CONTEXT = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories")
    write_checkpoint(folder / "model.bin", context=CONTEXT)
    write_tokenizer(folder / "tok.bin")
    return folder


@pytest.fixture(scope="module")
def model(files):
    return read_checkpoint(files / "model.bin")


@pytest.fixture(scope="module")
def tokenizer(files):
    return read_tokenizer(files / "tok.bin")


@pytest.fixture(scope="module")
def numbers(model):
    return quantized(model, calibrated_peaks(model, [[1, 5], [1, 9]], 20), context=CONTEXT)


@pytest.fixture(scope="module")
def logits(numbers):
    step = DecodingStep(numbers, "logits")
    return tg2hdl.compile(step, *step.example(), multipliers=8)


def test_the_float_model_is_that_of_tinygrad(model):
    """The same decoder written with tinygrad's own operations."""
    tokens, w = [1, 260, 7, 33, 258], {name: Tensor(a) for name, a in model.weights.items()}
    angles = np.arange(5)[:, None] * 10000.0 ** (-np.arange(0, 4, 2) / 4)
    c, s = (Tensor(f(angles).astype(np.float32)).reshape(5, 1, 2) for f in (np.cos, np.sin))

    def norm(x, weight):
        return x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight

    def turned(x):
        a, b = x[..., 0::2], x[..., 1::2]
        return Tensor.stack(a * c - b * s, a * s + b * c, dim=-1).reshape(x.shape)

    x = w["emb"][Tensor(tokens)]
    for n in range(2):
        h = norm(x, w["rms1"][n])
        q, k, v = ((h @ w[f"w{name}"][n].T).reshape(5, -1, 4) for name in "qkv")
        q, k, v = (a.transpose(0, 1) for a in (turned(q), turned(k), v))
        k, v = (a.repeat_interleave(2, 0) for a in (k, v))
        x = (
            x
            + q.scaled_dot_product_attention(k, v, is_causal=True).transpose(0, 1).reshape(5, 16)
            @ w["wo"][n].T
        )
        h = norm(x, w["rms2"][n])
        x = x + ((h @ w["w1"][n].T).silu() * (h @ w["w3"][n].T)) @ w["w2"][n].T
    expected = (norm(x, w["rmsf"]) @ w["cls"].T).numpy()
    np.testing.assert_allclose(FloatModel(model)(tokens), expected, rtol=1e-4, atol=1e-5)


def test_past_tokens_need_not_be_given_again(model):
    tokens, past = [1, 8, 20, 260, 13], {}
    found = [FloatModel(model)(part, past) for part in (tokens[:2], tokens[2:3], tokens[3:])]
    np.testing.assert_allclose(np.concatenate(found), FloatModel(model)(tokens), rtol=1e-4, atol=1e-5)


def test_distances_of_scores_fit_32_bits():
    """Those of the largest head and widest cache, with the half that rounds them."""
    shift = integers._shift(1e-12)
    assert 2 * 128 * integers.TOP * (2**8 - 1) + 2 ** (shift - 1) < 2**31


@pytest.mark.parametrize("seed", range(3, 6))
def test_integers_stay_close_to_the_float_model(model, seed):
    """Calibrated on the text, so that nothing exceeds its scale."""
    text = generated(FloatModel(model), [1, seed], CONTEXT, seed=seed)
    peaks = calibrated_peaks(model, [text], CONTEXT)
    fine, coarse = (
        divergence(model, quantized(model, peaks, context=CONTEXT, bits=bits), text) for bits in (9, 4)
    )
    assert 0 < fine[0] < 0.001 < coarse[0]
    assert fine[1] > 0.9


def test_every_bit_of_all_logits_is_that_of_numpy(model, numbers, logits):
    tokens = generated(FloatModel(model), [1, 5], CONTEXT, seed=1)
    expected = IntegerModel(numbers)(tokens)
    logits.reset()
    for position, token in enumerate(tokens):
        found = logits.golden(np.array([[token]], np.int32), position=position)
        np.testing.assert_array_equal(found[0], expected[position])


def test_the_simulated_hardware_continues_a_text(model, numbers, logits):
    tokens = generated(FloatModel(model), [1, 5], 18, seed=1)
    expected = IntegerModel(numbers)(tokens)
    logits.reset()
    for position, token in enumerate(tokens):
        run = logits.simulate(np.array([[token]], np.int32), position=position)
        np.testing.assert_array_equal(run.output[0], expected[position])
        assert run.cycles.compute == logits.design.predicted_cycles({"position": position})
    # Only whole blocks of positions so far are read.
    cycles = [logits.design.predicted_cycles({"position": at}) for at in (0, 15, 16, 31, 32)]
    assert cycles[0] == cycles[1] < cycles[2] == cycles[3] < cycles[4]


def test_the_embedding_is_stored_once(logits):
    held = [e.name for e in logits.memory if e.name.startswith("embedding")]
    assert held == ["embedding"]
    assert {e.name: str(e.dtype) for e in logits.memory}["keys.0"] == "int16"
    assert logits.memory.bits["state"] == 2 * 2 * 48 * 8 * 9


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", [1]),
        ("abc", [1, PIECES.index(b" a"), PIECES.index(b"bc")]),
        ("\n", [1, PIECES.index(b" "), 3 + 10]),
    ],
)
def test_tokens_are_merged_by_score(tokenizer, text, tokens):
    assert tokenizer.encode(text) == tokens
    decoded = b"".join(tokenizer.decode(b, a) for a, b in pairwise(tokens))
    assert decoded.decode() == text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:20], "model.bin is not a checkpoint: 20 bytes"),
        (lambda data: data[:-4], r"model.bin is not a checkpoint: [\d,]+ bytes, [\d,]+ by its header"),
        (
            lambda data: struct.pack("<7i", 16, 24, 2, 3, 1, 8, 8) + data[28:],
            r"its header is \(16, 24, 2, 3, 1, 8, 8\)",
        ),
        (lambda data: struct.pack("<7i", *[1 << 30] * 7), "is not a checkpoint: its header is"),
        (lambda data: data[:28] + b"\xff" * 4 + data[32:], "emb has numbers that are not finite"),
    ],
)
def test_damaged_checkpoints_are_refused(files, tmp_path, damage, message):
    (tmp_path / "model.bin").write_bytes(damage((files / "model.bin").read_bytes()))
    with pytest.raises(InputError, match=message) as caught:
        read_checkpoint(tmp_path / "model.bin")
    assert caught.value.hint == "give a .bin file as llama2.c's export writes it, version 0"


def run(*arguments):
    result = CliRunner().invoke(cli, ["stories", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_writes_what_a_built_device_writes(files, tmp_path, monkeypatch):
    monkeypatch.setattr(stories, "PATIENCE", 0.0)
    given = ("--tokenizer", files / "tok.bin", "--prompt", "ab", "--length", 6)
    asked = ("--weights", files / "model.bin", *given, "--multipliers", 8)
    shown = run(*asked, "--json", tmp_path / "golden.json")
    said = " ".join(shown.stderr.split())
    assert said.startswith(
        "the hardware is not simulated, which would take about 0 minutes here: the golden model"
    )
    assert said.endswith('pip install "tg2hdl[sim]" for a quick engine')
    assert "cycles a token, mean of 40 positions" in shown.output
    golden = json.loads((tmp_path / "golden.json").read_text())
    assert shown.stdout.startswith("ab")
    assert golden["text"].startswith("ab")
    assert golden["mean_cycles"] == sum(golden["cycles"]) / 40
    assert golden["divergence"] < 0.01
    built = run(*asked, "-o", tmp_path / "device")
    assert f"next: tg2hdl stories --tokenizer {files / 'tok.bin'} --device simulate:" in built.output
    run(*given, "--device", f"simulate:{tmp_path / 'device'}", "--json", tmp_path / "device.json")
    device = json.loads((tmp_path / "device.json").read_text())
    assert device == {"text": golden["text"], "tokens": golden["tokens"]}


def test_the_small_model_tells_a_tale():
    """Its text is readable, and numpy's integers write what float32 writes."""
    small, tokenizer = load_story()
    first = tokenizer.encode("There was once a ")
    text = generated(FloatModel(small), first, 60)
    written = b"".join(tokenizer.decode(b, a) for a, b in pairwise(text)).decode()
    assert written == "There was once a man who had a son, and the King said to hi"
    peaks = calibrated_peaks(small, [tokenizer.encode(t) for t in CALIBRATION])
    assert divergence(small, quantized(small, peaks, context=60), text)[0] < 0.01
    assert small.size == 251_840
    with pytest.raises(InputError, match="token 64 of a tokenizer of 64 pieces"):
        tokenizer.decode(64)
    assert tokenizer.encode("a_b") == [1, tokenizer.encode("a")[1], tokenizer.encode("b")[1]]


def test_drawn_texts_depend_on_the_seed_alone(files, model, tokenizer, numbers, logits):
    teller = Teller(tokenizer, numbers, logits)

    def drawn(**options):
        return list(teller.tokens([1, 5], 9, engine="golden", **options))

    assert drawn(temperature=1.0, seed=2) == drawn(temperature=1.0, seed=2)
    assert drawn(temperature=1.0, seed=2) != drawn(temperature=1.0, seed=3)
    greedy = drawn()
    assert greedy == [int(t) for t in IntegerModel(numbers)([1, 5, *greedy]).argmax(-1)[1:-1]]


def test_what_is_missing_is_asked_for(files):
    tokenizer = ("--tokenizer", files / "tok.bin")
    assert "--weights and --tokenizer belong together: give both, or none" in run(*tokenizer).output
    weights = ("--weights", files / "model.bin")
    both = (*weights, *tokenizer)
    refused = run(*both, "--temperature", 0.5, "-o", files / "device")
    assert (
        "--temperature cannot be combined with -o or --device, whose chip chooses the likeliest token"
        in " ".join(refused.output.split())
    )
    assert "--board goes with -o DIR" in run(*weights, *tokenizer, "--board", "ulx3s-85f").output
    with pytest.raises(InputError, match="the prompt has 9 tokens, the text at most 5"):
        run(*weights, *tokenizer, "--prompt", "01234567", "--length", 5)

"""Presets of `tg2hdl.quantize` on the small model of fairy tales that the package ships: divergence and bits.

``python benchmarks/stories/presets.py`` quantizes the float decoding step with its cache as state, on texts that the
float model draws, and measures others; it writes ``presets.json`` and ``.md``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import tools, write_results
from tg2hdl.language import Checkpoint, FloatModel, generated, load_story

HERE = Path(__file__).parent
CONTEXT = 64
CALIBRATION = ("There was once a ", "The old woman ", "Then the fox ", "In the forest ")
PROMPTS = (
    "A king had ",
    "The little ",
    "One day the ",
    "When he ",
    "Hans went ",
    "Now it ",
    "She said ",
    "They came ",
)
PRESETS: tuple[dict[str, Any], ...] = (
    {"bits": 8},
    {"weights": 8, "activations": 8},
    {"weights": 8, "activations": 16},
    {"weights": 9, "activations": 16},
    {"weights": 9, "activations": 16, "multiplier_bits": 24},
    {"weights": 9, "activations": 16, "requantization": "shift"},
    {"weights": 6, "activations": 16},
    {"weights": 6, "activations": 16, "weight_rounding": "compensated"},
    {"weights": 4, "activations": 16},
    {"weights": 4, "activations": 16, "group": 32},
    {"weights": 4, "activations": 16, "group": 16},
    {"weights": 4, "activations": 16, "weight_rounding": "compensated"},
    {"weights": 4, "activations": 16, "group": 16, "weight_rounding": "compensated"},
)


class FloatStep:
    """The decoding step in float32; keys and values are state."""

    def __init__(self, model: Checkpoint, context: int) -> None:
        w, head, self.model, self.context = model.weights, model.head, model, context
        self.embedding, self.final = Tensor(w["emb"]), Tensor(w["rmsf"])
        self.norms = [(Tensor(w["rms1"][n]), Tensor(w["rms2"][n])) for n in range(model.layers)]
        names = ("wq", "wk", "wv", "wo", "w1", "w2", "w3")
        self.matrices = [
            {name: Tensor(np.ascontiguousarray(w[name][n].T)) for name in names} for n in range(model.layers)
        ]
        angles = np.arange(context)[:, None] / 10000 ** (np.arange(0, head, 2) / head)
        self.cosines, self.sines = (Tensor(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        size = context, model.kv_heads, head
        self.keys, self.values = (
            [Tensor.zeros(*size).contiguous().realize() for _ in range(model.layers)] for _ in range(2)
        )

    def __call__(self, token: Tensor, position: Tensor) -> Tensor:
        m, here = self.model, Tensor.arange(self.context) == position
        cosine, sine = self.cosines[position].reshape(-1), self.sines[position].reshape(-1)
        causal = (Tensor.arange(self.context) <= position).reshape(1, 1, self.context)

        def turned(x: Tensor) -> Tensor:
            x = x.reshape(-1, m.head // 2, 2)
            a, b = x[..., 0], x[..., 1]
            return Tensor.stack(a * cosine - b * sine, a * sine + b * cosine, dim=-1).reshape(-1, m.head)

        def kept(cache: Tensor, row: Tensor) -> Tensor:
            made = here.reshape(-1, 1, 1).where(row.reshape(1, m.kv_heads, m.head), cache)
            cache.assign(made)
            return made.permute(1, 0, 2).unsqueeze(1)

        x = self.embedding[token].reshape(1, m.dim)
        for n, w in enumerate(self.matrices):
            h = _normed(x, self.norms[n][0])
            query = turned(h @ w["wq"]).reshape(m.kv_heads, -1, 1, m.head)
            keys, values = kept(self.keys[n], turned(h @ w["wk"])), kept(self.values[n], h @ w["wv"])
            scores = causal.where((query * keys).sum(-1) / float(np.sqrt(m.head)), -100.0)
            x = x + (scores.softmax(-1).unsqueeze(-1) * values).sum(2).reshape(1, m.dim) @ w["wo"]
            h = _normed(x, self.norms[n][1])
            x = x + ((h @ w["w1"]).silu() * (h @ w["w3"])) @ w["w2"]
        return _normed(x, self.final) @ self.embedding.T


def _normed(x: Tensor, weights: Tensor) -> Tensor:
    return x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt() * weights


def steps(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and positions of texts one after the other; each begins at position 0."""
    tokens = np.array([t for text in texts for t in text], np.int32)[:, None]
    positions = np.array([n for text in texts for n in range(len(text))], np.int32)[:, None]
    return tokens, positions


def weight_bits(quantized: Any, group: int | None) -> int:
    """Bits of the codes, and of 4 for the factor of each group."""
    layers = [layer for layer in quantized.report.layers if layer.kind == "weights"]
    sizes = {n.label: n.arg.size for n in quantized.graph.nodes if n.op == "const" and n.label}
    bits = 0
    for layer in layers:
        size = next(s for label, s in sizes.items() if label.endswith(layer.name))
        bits += size * layer.bits + (4 * size // group if group else 0)
    return bits


def measure(model: Checkpoint, preset: dict[str, Any], texts: dict[str, list[list[int]]]) -> dict[str, Any]:
    """Divergence from the float model over the measured texts, and what the weights take."""
    began = time.process_time()
    step = FloatStep(model, CONTEXT)
    quantized = tg2hdl.quantize(step, steps(texts["calibration"]), sequences=True, batched=False, **preset)
    found = np.asarray(quantized.evaluate(*steps(texts["measured"])), np.float64)
    found = found.reshape(-1, model.vocabulary)
    exact = np.concatenate([FloatModel(model)(text) for text in texts["measured"]]).astype(np.float64)
    p, q = (a - np.logaddexp.reduce(a, -1, keepdims=True) for a in (exact, found))
    return {
        "preset": preset,
        "nats": round(float((np.exp(p) * (p - q)).sum(-1).mean()), 5),
        "agreement": round(float((p.argmax(-1) == q.argmax(-1)).mean()), 4),
        "weight_bits": weight_bits(quantized, preset.get("group")),
        "in_float": list(quantized.report.in_float),
        "cpu_seconds": round(time.process_time() - began),
    }


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "# Presets of `tg2hdl.quantize` on a language model",
        "",
        "`python benchmarks/stories/presets.py`: the model of fairy tales of `tg2hdl demo --data story`, context "
        f"{CONTEXT}; {record['calibrated']} positions calibrate, {record['measured_on']} others are measured; all of "
        f"it is integers. {tools(record)}.",
        "",
        "| options of `quantize` | divergence from float32, nats a token | same likeliest token | kbit of weights |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        options = ", ".join(f"{name}={value!r}" for name, value in row["preset"].items())
        lines.append(
            f"| `{options}` | {row['nats']:.4f} | {row['agreement']:.1%} | {row['weight_bits'] / 1000:,.0f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the files."""
    model, tokenizer = load_story()
    texts = {
        kind: [
            generated(FloatModel(model), tokenizer.encode(p), CONTEXT, seed=n) for n, p in enumerate(prompts)
        ]
        for kind, prompts in (("calibration", CALIBRATION), ("measured", PROMPTS))
    }
    record: dict[str, Any] = {"rows": []}
    record["calibrated"], record["measured_on"] = (
        CONTEXT * len(texts[kind]) for kind in ("calibration", "measured")
    )
    for preset in PRESETS:
        record["rows"].append(measure(model, preset, texts))
        print(record["rows"][-1], flush=True)
        write_results(HERE / "presets.json", record, table)


if __name__ == "__main__":
    main()

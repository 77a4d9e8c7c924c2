"""Train the small model of ``tg2hdl demo --data story``: a decoder over characters.

``python train.py TEXT.txt ... -o story.npz`` needs PyTorch and, better, a GPU: some minutes there.  The model
that the package ships read the tales of the brothers Grimm, which are in the public domain: e-books 5314 (translated by
Margaret Hunt, 1884) and 2591 (translated by Edgar Taylor and Marian Edwardes) of Project Gutenberg.

The file has the codes of each matrix, 9 bits with a scale per row, as `tg2hdl.language.load_story` reads them.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DIM, HIDDEN, LAYERS, HEADS, CONTEXT = 64, 172, 5, 4, 256
SPECIAL = 3
"""Tokens before those of characters: unknown, start, end."""
TOP = 255


def text_of(paths: list[Path]) -> str:
    """The texts without licence and line ends, in few characters."""
    whole = []
    for path in paths:
        text = path.read_bytes().decode("utf-8", errors="ignore").replace("\r", "")
        start = re.search(r"\*\*\* ?START OF.*?\*\*\*", text, re.DOTALL)
        end = re.search(r"\*\*\* ?END OF|End of (?:the )?Project Gutenberg", text)
        whole.append(text[start.end() if start else 0 : end.start() if end else None])
    text = "\n\n".join(whole)
    for found, put in (("\u2018\u2019`", "'"), ("\u201c\u201d", '"'), ("\u2014\u2013", "-"), ("_*", "")):
        text = re.sub(f"[{found}]", put, text)
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text)]
    text = "\n".join(p for p in paragraphs if len(p) > 60 and not p.isupper())
    common = {c for c, n in Counter(text).items() if n > 150 and c.isascii() and not c.isdigit()}
    return "".join(c for c in text if c in common)


class Layer(nn.Module):
    """A layer of the llama family."""

    def __init__(self) -> None:
        super().__init__()
        self.rms1, self.rms2 = (nn.Parameter(torch.ones(DIM)) for _ in "12")
        shapes = {"wq": (DIM, DIM), "wk": (DIM, DIM), "wv": (DIM, DIM), "wo": (DIM, DIM)}
        shapes |= {"w1": (HIDDEN, DIM), "w2": (DIM, HIDDEN), "w3": (HIDDEN, DIM)}
        for name, (rows, columns) in shapes.items():
            scale = columns**-0.5 / ((2 * LAYERS) ** 0.5 if name in ("wo", "w2") else 1)
            setattr(self, name, nn.Parameter(torch.randn(rows, columns) * scale))

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Add what the layer finds."""
        batch, count, _ = x.shape
        h = F.rms_norm(x, (DIM,), self.rms1, 1e-5)
        q, k, v = (
            (h @ w.T).view(batch, count, HEADS, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        q, k = (turned(a, turn[:, :count]) for a in (q, k))
        mixed = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, count, DIM)
        )
        x = x + mixed @ self.wo.T
        h = F.rms_norm(x, (DIM,), self.rms2, 1e-5)
        return x + (F.silu(h @ self.w1.T) * (h @ self.w3.T)) @ self.w2.T


def turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Pairs of neighbours rotated by their position."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * turn[0] - b * turn[1], a * turn[1] + b * turn[0]], -1).flatten(-2)


class Decoder(nn.Module):
    """The model; the embedding is the classifier."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.emb = nn.Parameter(torch.randn(vocabulary, DIM) * 0.05)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.rmsf = nn.Parameter(torch.ones(DIM))
        half = DIM // HEADS // 2
        angles = torch.arange(CONTEXT)[:, None] / 10000 ** (torch.arange(half) / half)
        self.register_buffer("turn", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.emb[tokens]
        for layer in self.layers:
            x = layer(x, self.turn)
        return F.rms_norm(x, (DIM,), self.rmsf, 1e-5) @ self.emb.T


def train(text: str, minutes: float, device: str) -> tuple[Decoder, list[str], float]:
    """Train for some minutes; returns the model, the characters and the loss on the last 5 % of the text."""
    characters = sorted(set(text))
    number = {c: n + SPECIAL for n, c in enumerate(characters)}
    data = torch.tensor([number[c] for c in text], device=device)
    cut = int(len(data) * 0.95)
    model = Decoder(len(characters) + SPECIAL).to(device)
    compiled = torch.compile(model) if device == "cuda" else model
    rates = {"lr": 6e-3, "betas": (0.9, 0.98), "weight_decay": 0.05}
    optimizer = torch.optim.AdamW(model.parameters(), **rates)
    batch = 384 if device == "cuda" else 16
    started, step, offsets = time.monotonic(), 0, torch.arange(CONTEXT + 1, device=device)
    while (done := (time.monotonic() - started) / 60 / minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 6e-3 * min(1, (step + 1) / 200) * (0.02 + 0.98 * (1 - done))
        at = torch.randint(0, cut - CONTEXT - 1, (batch,), device=device)
        part = data[at[:, None] + offsets]
        # A text begins anywhere, after the token of the start.
        part[:, 0] = torch.where(torch.rand(batch, device=device) < 0.1, 1, part[:, 0])
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = compiled(part[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}, {done:.0%}: {loss.item():.4f}", flush=True)
        step += 1
    with torch.no_grad():
        count = min(200, (len(data) - cut) // (CONTEXT + 1))
        part = data[cut : cut + count * (CONTEXT + 1)].view(count, -1)
        logits = model(part[:, :-1])
        held = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()).item()
    print(f"{step} steps, {held:.4f} nats a character on text that it did not read")
    return model, characters, held


def save(path: Path, model: Decoder, characters: list[str], loss: float) -> None:
    """Write codes and scales."""
    names = ("rms1", "wq", "wk", "wv", "wo", "rms2", "w1", "w2", "w3")
    arrays = {"emb": model.emb, "rmsf": model.rmsf}
    arrays |= {name: torch.stack([getattr(layer, name) for layer in model.layers]) for name in names}
    file = {"characters": np.array("".join(characters)), "sizes": np.array([HEADS, HEADS, CONTEXT])}
    file["loss"] = np.float32(loss)
    for name, tensor in arrays.items():
        values = tensor.detach().float().cpu().numpy()
        if name.startswith("rms"):
            file[name] = values
            continue
        scale = np.abs(values).max(-1, keepdims=True) / TOP
        file[name], file[f"{name}_scale"] = np.rint(values / scale).astype(np.int16), scale
    np.savez_compressed(path, **file)


def main() -> None:
    """Train, write the file, and print a text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, default=Path("story.npz"))
    parser.add_argument("--minutes", type=float, default=5)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    text = text_of(given.texts)
    print(f"{len(text):,} characters, {len(set(text))} different; {device}")
    model, characters, loss = train(text, given.minutes, device)
    save(given.output, model, characters, loss)
    tokens = [1, *(characters.index(c) + SPECIAL for c in "There was once a ")]
    for _ in range(CONTEXT - len(tokens)):
        with torch.no_grad():
            logits = model(torch.tensor([tokens], device=device))[0, -1] / 0.6
        tokens.append(int(torch.multinomial(logits.softmax(-1), 1)))
    print("".join(characters[t - SPECIAL] if t >= SPECIAL else "#" for t in tokens[1:]))


if __name__ == "__main__":
    main()

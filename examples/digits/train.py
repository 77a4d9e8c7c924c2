"""Train both digit models and write their weights: ``python train.py``.

Plain numpy, seeded: the same library versions give the same files.  Training sees only the training images;
the test images give the accuracies that are printed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from dataset import load_split
from safetensors.numpy import save_file

from tg2hdl_quant import Dense, Layer, ReLU, quantize_network, run_float

HERE = Path(__file__).parent
HIDDEN = 32
EPOCHS = 400
BATCH = 64
RATE = 2e-3
DECAY = 2e-3
SHIFT_PROBABILITY = 0.5


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move half of the images by one pixel, so that the small network sees more positions."""
    moved = images.reshape(-1, 8, 8).copy()
    for image in moved:
        if rng.random() < SHIFT_PROBABILITY:
            step, axis = rng.choice((-1, 1)), rng.choice((0, 1))
            image[:] = np.roll(image, step, axis)
            edge = 0 if step == 1 else -1
            image[(edge, slice(None)) if axis == 0 else (slice(None), edge)] = 0
    return moved.reshape(-1, 64)


def train(x: np.ndarray, labels: np.ndarray, seed: int) -> list[np.ndarray]:
    """Adam on the cross entropy of a 64-32-10 ReLU network; returns w1, b1, w2, b2."""
    rng = np.random.default_rng(seed)
    params = [
        rng.normal(0, np.sqrt(2 / 64), (64, HIDDEN)),
        np.zeros(HIDDEN),
        rng.normal(0, np.sqrt(2 / HIDDEN), (HIDDEN, 10)),
        np.zeros(10),
    ]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in params]
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        images = shifted(x, rng)
        for start in range(0, len(x), BATCH):
            index = order[start : start + BATCH]
            w1, b1, w2, b2 = params
            inputs = images[index]
            hidden = np.maximum(inputs @ w1 + b1, 0)
            logits = hidden @ w2 + b2
            probability = np.exp(logits - logits.max(1, keepdims=True))
            probability /= probability.sum(1, keepdims=True)
            probability[np.arange(len(index)), labels[index]] -= 1
            error = probability / len(index)
            back = (error @ w2.T) * (hidden > 0)
            gradients = [
                inputs.T @ back + DECAY * w1,
                back.sum(0),
                hidden.T @ error + DECAY * w2,
                error.sum(0),
            ]
            step += 1
            for param, gradient, (first, second) in zip(params, gradients, moments, strict=True):
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                param -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return [p.astype(np.float32) for p in params]


def main() -> None:
    """Train, quantize, write the two files and print the accuracies."""
    pixels, labels, test_pixels, test_labels = load_split()
    w1, b1, w2, b2 = train(pixels / 16, labels, seed=0)
    save_file({"w1": w1, "b1": b1, "w2": w2, "b2": b2}, HERE / "float_mlp.safetensors")

    layers: list[Layer] = [Dense(w1, b1), ReLU(), Dense(w2, b2)]
    network = quantize_network(layers, pixels / 16, input_scale=1 / 16)
    first, second = network.layers
    save_file(
        {
            "w1": first.layer.weight,
            "b1": first.layer.bias,
            "w2": second.layer.weight,
            "b2": second.layer.bias,
            "shift": np.array([first.shift], dtype=np.int32),
        },
        HERE / "int8_mlp.safetensors",
    )
    for name, scores in (
        ("float32", run_float(layers, test_pixels / 16)),
        ("int8", network(test_pixels)),
    ):
        print(f"{name}: {np.mean(scores.argmax(1) == test_labels):.2%} of {len(test_labels)} test images")


if __name__ == "__main__":
    main()

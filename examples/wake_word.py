"""A wake word that listens: audio in steps of 10 ms, a network of int8, state in the design.

``python examples/wake_word.py NETWORK.tflite SOUND.wav`` builds the network for a simulated board and listens to the
file (16 kHz, 16 bits) through the driver.  The network is the streaming wake word of MLPerf Tiny, or another one of
an input (1, frames, 1, bands); see https://github.com/mlcommons/tiny, ``benchmark/training/streaming_wakeword``.  With
``SAMPLES.npz`` in place of the sound the frames are those of the samples, such as ``calibration_samples.npz`` there.
``--port /dev/ttyUSB0`` listens on a board with the design of ``--folder``.

The design keeps the last second: each run takes one frame of 32 ms, moves it into the window and computes the network.
The file is of int8 already, so that ``tg2hdl quantize`` is not needed.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl_tflite import TfliteModel

__all__ = ["Features", "Window", "detections", "frames_of_samples", "pieces_of_sound"]

RATE = 16_000
"""Samples per second."""
PIECE = RATE // 100
"""Samples in 10 ms."""
SPAN, STRIDE = 1024, 512
"""Samples of a frame, and from one frame to the next: 64 and 32 ms."""
WORDS = ("marvin", "silence", "unknown")


class Window:
    """A network over the last frames, which stay in the design from one run to the next."""

    def __init__(self, path: Path) -> None:
        self.network = TfliteModel(path)
        self.name = self.network.input_names[0]
        self.scale, self.zero = self.network.scales[self.name]
        _, self.frames, _, self.bands = self.network.inputs[0].shape
        self.window = Tensor(np.full((1, self.frames, 1, self.bands), self.zero, np.int8)).realize()

    def __call__(self, frame: Tensor) -> Any:
        window = self.window[:, 1:].cat(frame, dim=1).contiguous()
        self.window.assign(window)
        return self.network(window)

    def codes(self, frame: np.ndarray) -> np.ndarray:
        """A frame of features, from 0 to 1, as the network takes it."""
        steps = np.rint(frame / self.scale) + self.zero
        return steps.clip(-128, 127).astype(np.int8).reshape(1, 1, 1, self.bands)


class Features:
    """Logarithms of the power in bands of the mel scale, for pieces of sound of any length."""

    def __init__(self, bands: int) -> None:
        self._heard, self._last = np.zeros(0), 0.0
        self._shape = np.hamming(SPAN)
        hertz = np.linspace(0, RATE / 2, SPAN // 2 + 1)
        edges = np.linspace(0, _mel(RATE / 2), bands + 2)
        place = _mel(hertz)[1:, None]
        up = (place - edges[:-2]) / (edges[1:-1] - edges[:-2])
        down = (edges[2:] - place) / (edges[2:] - edges[1:-1])
        self._weights = np.concatenate([np.zeros((1, bands)), np.maximum(0, np.minimum(up, down))])

    def __call__(self, piece: np.ndarray) -> Iterator[np.ndarray]:
        """Frames that end within a piece of sound between -1 and 1."""
        before = np.append(self._last, piece[:-1])
        self._heard = np.append(self._heard, piece - (1 - 2**-5) * before)
        self._last = float(piece[-1])
        while len(self._heard) >= SPAN:
            power = np.abs(np.fft.rfft(self._heard[:SPAN] * self._shape)) ** 2 / SPAN
            self._heard = self._heard[STRIDE:]
            level = 10 * np.log10(np.maximum(power, 1e-30) @ self._weights)
            yield np.clip((level + 52) / 64, 0, 1)


def _mel(hertz: Any) -> Any:
    return 1127 * np.log1p(np.asarray(hertz) / 700)


def pieces_of_sound(path: Path) -> Iterator[np.ndarray]:
    """Samples of 10 ms each, the mean of the channels."""
    with wave.open(str(path)) as sound:
        channels = sound.getnchannels()
        if (sound.getframerate(), sound.getsampwidth()) != (RATE, 2):
            raise SystemExit(f"{path} must have {RATE} Hz and 16 bits")
        while len(data := sound.readframes(PIECE)) == 2 * PIECE * channels:
            yield np.frombuffer(data, "<i2").reshape(-1, channels).mean(1) / 2**15


def frames_of_samples(path: Path) -> Iterator[np.ndarray]:
    """Frames of stored samples, one sample after the other."""
    for sample in np.load(path)["specs"]:
        yield from sample[:, 0]


def detections(
    device: Any, window: Window, frames: Iterable[np.ndarray], least: int = 64
) -> Iterator[tuple[float, int]]:
    """Second and code of the first word, where its code is at least `least`; a word is told once in a window."""
    heard = -window.frames
    for number, frame in enumerate(frames):
        scores = np.asarray(device(window.codes(frame))).reshape(-1)
        if scores.argmax() == 0 and scores[0] >= least:
            if number - heard >= window.frames:
                yield (number * STRIDE + SPAN) / RATE, int(scores[0])
            heard = number


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", type=Path)
    parser.add_argument("sound", type=Path, help="a .wav file, or a .npz file of samples")
    parser.add_argument("--multipliers", type=int, default=64)
    parser.add_argument("--folder", default="build/wake_word")
    parser.add_argument("--port", help="of a board; a simulation unless given")
    parser.add_argument("--seconds", type=float, default=60.0, help="listen no longer")
    given = parser.parse_args()
    window = Window(given.network)
    frame = window.codes(np.zeros(window.bands))
    if given.port is None:
        options = tg2hdl.CompileOptions(ports=("uart",))
        accelerator = tg2hdl.compile(
            window, frame, multipliers=given.multipliers, options=options, name="wake_word"
        )
        accelerator.build(given.folder)
        cycles = accelerator.predicted_cycles
        print(f"{cycles:,} cycles for a frame of 32 ms: a clock of {cycles / 32e3:.2f} MHz is enough")
    features = Features(window.bands)
    frames = (
        frames_of_samples(given.sound)
        if given.sound.suffix == ".npz"
        else (frame for piece in pieces_of_sound(given.sound) for frame in features(piece))
    )
    most = int(given.seconds * RATE / STRIDE)
    limited = (frame for _, frame in zip(range(most), frames, strict=False))
    with tg2hdl.connect(given.port or f"simulate:{given.folder}", given.folder) as device:
        for second, code in detections(device, window, limited):
            print(f"{second:7.2f} s: {WORDS[0]} ({(code + 128) / 256:.0%})", flush=True)


if __name__ == "__main__":
    main()

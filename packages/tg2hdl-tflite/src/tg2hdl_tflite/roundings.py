"""Whose codes a file of integers gives; imports nothing, because the command line reads it."""

from __future__ import annotations

__all__ = ["ROUNDINGS"]

ROUNDINGS = ("tflite-micro", "tflite-reference")
"""TensorFlow Lite Micro, and the reference kernels of LiteRT."""

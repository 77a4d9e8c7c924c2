"""Weights in memory outside the chip: which, in which tiles, how they are streamed, and when they arrive."""

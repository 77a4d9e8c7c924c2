"""Boards: clock, pins and host link around a design, and its bitstream from wheels."""

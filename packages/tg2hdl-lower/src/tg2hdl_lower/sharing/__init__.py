"""Multipliers and units outside of the kernels, which kernels share."""

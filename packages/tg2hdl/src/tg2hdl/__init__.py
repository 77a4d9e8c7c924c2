"""Compile any tinygrad program to FPGA hardware."""

"""Validation: every rewrite between the captured program and the planned kernels keeps the bits of every result."""

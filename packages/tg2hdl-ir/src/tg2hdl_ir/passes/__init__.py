"""Analyses and rewrites of the kernel IR."""

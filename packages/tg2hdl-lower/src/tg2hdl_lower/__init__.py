"""Kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

"""Benchmarks: workloads and the measured table."""

from tg2hdl.bench.suite import BenchRow, load_workloads, measure, versions
from tg2hdl.bench.workload import BenchCase, Workload

__all__ = [
    "BenchCase",
    "BenchRow",
    "Workload",
    "load_workloads",
    "measure",
    "versions",
]

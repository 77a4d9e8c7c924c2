"""Benchmarks: workloads, the measured table, and one-off comparisons with tinygrad."""

from tg2hdl.bench.run_bench import BenchResult, run_bench
from tg2hdl.bench.suite import BenchRow, load_workloads, measure, versions
from tg2hdl.bench.workload import BenchCase, Workload

__all__ = [
    "BenchCase",
    "BenchResult",
    "BenchRow",
    "Workload",
    "load_workloads",
    "measure",
    "run_bench",
    "versions",
]

"""Benchmarks: workloads and the measured table."""

from tg2hdl.bench.document import json_text, merge_document, write_results
from tg2hdl.bench.suite import BenchRow, load_workloads, measure, versions
from tg2hdl.bench.table import markdown_table, tools
from tg2hdl.bench.workload import BenchCase, Peer, Workload

__all__ = [
    "BenchCase",
    "BenchRow",
    "Peer",
    "Workload",
    "json_text",
    "load_workloads",
    "markdown_table",
    "measure",
    "merge_document",
    "tools",
    "versions",
    "write_results",
]

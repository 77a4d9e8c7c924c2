"""A report of a compiled model: one HTML file that works offline, and its figures as JSON."""

from __future__ import annotations

from tg2hdl.report.context import ReportContext
from tg2hdl.report.facts import FORMAT, gather_facts, read_facts
from tg2hdl.report.page import Report, build_report

__all__ = ["FORMAT", "Report", "ReportContext", "build_report", "gather_facts", "read_facts"]

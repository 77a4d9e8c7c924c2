"""IEEE-754 floating-point cores in Amaranth: pipelined, correctly rounded, any format; and the parts to make others.

Names are listed in ``__init__.pyi`` with their modules, and imported when they are first used, so that loading the
package costs nothing.
"""

from importlib import import_module
from typing import Any

_STUB: str = __loader__.get_data(f"{__file__}i").decode()
_HOME = {line.split()[3]: line.split()[1] for line in _STUB.splitlines()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

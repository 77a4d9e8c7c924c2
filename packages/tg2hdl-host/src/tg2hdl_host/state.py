"""State of a design behind a link, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy.typing as npt

from tg2hdl_host.errors import UnfitInputError

__all__ = ["DeviceState"]


class DeviceState(Mapping[str, npt.NDArray[Any]]):
    """State of a device by name; reading and writing go through the link, between runs."""

    def __init__(
        self,
        names: Iterable[str],
        read: Callable[[str], npt.NDArray[Any]],
        write: Callable[[str, npt.ArrayLike], None],
    ) -> None:
        self._names = tuple(names)
        self._read, self._write = read, write

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._read(self._known(name))

    def __setitem__(self, name: str, value: npt.ArrayLike) -> None:
        self._write(self._known(name), value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise UnfitInputError(
                f"the design has no state {name!r} within reach",
                stage="state",
                hint=f"its state is {', '.join(self._names)}"
                if self._names
                else "it has no state: each run depends on its inputs only",
            )
        return name

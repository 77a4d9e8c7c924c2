"""Tables that become lists where a terminal is too narrow for them."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

__all__ = ["NARROW", "Table"]

NARROW = 70
"""Columns of a terminal below which a table is a list."""


class Table(RichTable):
    """A table of rich; in fewer than `NARROW` columns a list: the first cell of each row, then the others."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines of the table, or of the list."""
        if options.max_width >= NARROW or not self.show_header:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text.from_markup(str(self.title), style="italic")
        names = [_text(console, column.header) for column in self.columns]
        for cells in zip(*(_cells(console, column) for column in self.columns), strict=True):
            yield cells[0]
            for name, cell in zip(names[1:], cells[1:], strict=True):
                if cell.plain:
                    text = Text(f"{name.plain}: " if name.plain else "").append_text(cell)
                    for line in text.wrap(console, options.max_width - 2):
                        line.rstrip()
                        yield Text("  ").append_text(line)


def _cells(console: Console, column: Column) -> list[Text]:
    return [_text(console, cell) for cell in column.cells]


def _text(console: Console, cell: object) -> Text:
    found = cell if isinstance(cell, Text) else console.render_str(str(cell))
    return Text(" ").join(found.split("\n"))

"""Files that have no lines: .npy and Parquet, row by row."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from elmgrove.device.sources.lines import BookmarkedFile, Line, TextFile
from elmgrove.reading import Layout, NpyArray, ParquetTable, opened_table


class TableFile(BookmarkedFile):
    """A file of rows without lines; its bookmarks count rows."""

    unit = "row"

    def __init__(
        self,
        path: Path,
        table: NpyArray | ParquetTable,
        bookmark: dict[str, Any] | None,
        opened: ExitStack,
    ) -> None:
        super().__init__(path)
        self.table = table
        self._opened = opened
        if bookmark is not None:
            self._go_to(bookmark)

    def lines(self) -> Iterator[Line]:
        """Gives the rows after the bookmark."""
        return (line for line in self._rows() if line.number >= self.began)

    def __exit__(self, *error: Any) -> None:
        super().__exit__()
        self._opened.__exit__(*error)

    def _rows(self) -> Iterator[Line]:
        for block in self.table.blocks():
            for number, cells in block.records():
                yield Line(repr(cells).encode(), number, number + 1, cells)

    def _finds(self, bookmark: dict[str, Any]) -> bool:
        last = next((row.data for row in self._rows() if row.end == bookmark["offset"]), b"")
        return [len(last), zlib.crc32(last)] == list(bookmark["last"])


def open_file(path: Path, bookmark: dict[str, Any] | None, layout: Layout) -> TextFile | TableFile:
    """Opens a file that is complete; ``BadInput`` names a format that is not read."""
    with ExitStack() as stack:
        table = stack.enter_context(opened_table(path, layout.encoding))
        if table is not None:
            return TableFile(path, table, bookmark, stack.pop_all())
    return TextFile(path, bookmark, layout.encoding)

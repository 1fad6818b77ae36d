"""Tables of plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as a table with a row of headings; all columns but the last have the same width in each row."""
    widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in rows
    )

"""A reader of documents without a process, for tests of everything around it."""

from __future__ import annotations

from typing import Any

from server.documents.reader import DocumentReader, checked
from server.documents.reader_process import perform


class InlineReader(DocumentReader):
    """Performs tasks in this process."""

    async def run(self, task: dict[str, Any], caller: str, order: int) -> dict[str, Any]:
        return checked(perform(**task))

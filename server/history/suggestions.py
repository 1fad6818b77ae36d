"""Better translations that people suggest: appended to a file in the data folder, one JSON object per line, bounded."""

from __future__ import annotations

import json
import time
from pathlib import Path

from server.errors import Unavailable

FILE_NAME = "suggestions.jsonl"
BYTES_LIMIT = 50_000_000


class Suggestions:
    """The suggestions of one data folder. Nothing reads them here: they are for whoever trains the next model."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def add(self, text: str, suggestion: str, source: str, target: str) -> None:
        """Keeps one. Raises Unavailable where the file is full or cannot be written."""
        entry = {"time": round(time.time()), "source": source, "target": target, "q": text, "s": suggestion}
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() + len(line) > BYTES_LIMIT:
                    raise Unavailable("No more suggestions are taken: the file for them is full.", 3600)
                file.write(line)
        except OSError as error:
            raise Unavailable("The suggestion cannot be kept: the disk is full or not writable.", 60) from error

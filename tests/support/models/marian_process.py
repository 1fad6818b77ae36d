"""Translates with Marian, in the Python that has pymarian (1.12.42 has wheels for Python 3.11 only).

Reads one JSON object from stdin: `options` of Marian, `texts`, `batch` (texts in a call), `repeat`. Writes Marian's output lines
and the processor seconds of each run.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    """Runs the request."""
    from pymarian import Translator  # type: ignore[import-not-found]

    request: dict[str, Any] = json.load(sys.stdin)
    translator = Translator(**{name.replace("-", "_"): value for name, value in request["options"].items()})
    texts, batch = request["texts"], request.get("batch") or len(request["texts"])
    lines: list[str] = []
    seconds = []
    for _ in range(request.get("repeat", 1)):
        started = time.process_time()
        lines = []
        for first in range(0, len(texts), batch):
            found = translator.translate(texts[first : first + batch])
            lines += found if isinstance(found, list) else found.split("\n")
        seconds.append(time.process_time() - started)
    json.dump({"lines": lines, "seconds": seconds}, sys.stdout)


if __name__ == "__main__":
    main()

"""The static files of the pages, and what their Content-Security-Policies consist of."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
NO_FRAME = "frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    f"base-uri 'none'; form-action 'none'; {NO_FRAME}"
)


@cache
def asset(name: str) -> str:
    """Returns the text of a static file, such as "common/dom.js"."""
    return (FOLDER / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """Returns the hash of an inline script or style as a source of a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"

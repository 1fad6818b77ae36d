"""The explorer's files: read once, compressed once, with the tags and policies they are sent with."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `tag` is its strong ETag; `compressed` the same bytes with gzip."""

    body: bytes
    compressed: bytes
    media: str
    tag: str

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


@cache
def assets() -> dict[str, Asset]:
    """The files by name. Only these names are ever served: no path reaches the disk."""
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in MEDIA}


def source_hash(text: str) -> str:
    """An inline script or style as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, gzip.compress(body, mtime=0), MEDIA[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')

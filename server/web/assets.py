"""Static files of the pages and of Swagger UI, with their ETags and Content-Security-Policies."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
SWAGGER_PACKAGE = "fastapi_offline"
"""Package from PyPI that contains the files of Swagger UI; its code is not used."""
SWAGGER_FILES = ("swagger-ui.css", "swagger-ui-bundle.js")
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
DOCS_POLICY = PAGE_POLICY
"""Swagger UI sets its styles by script, which the policy of the pages allows."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `compressed` is the body with gzip, `media` its media type and `tag` its strong ETag."""

    body: bytes
    compressed: bytes
    media: str
    tag: str

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


@cache
def assets() -> dict[str, Asset]:
    """Returns the files of this package by path, such as "common/dom.js". Only these are served, so no request path
    reaches the disk."""
    files = (path for path in sorted(FOLDER.rglob("*")) if path.suffix in MEDIA)
    return {path.relative_to(FOLDER).as_posix(): _read(path) for path in files}


@cache
def swagger_assets() -> dict[str, Asset]:
    """Returns the files of Swagger UI by name. They are read at the first request for one."""
    package = find_spec(SWAGGER_PACKAGE)
    if package is None or package.origin is None:
        return {}
    return {name: _read(Path(package.origin).parent / "static" / name) for name in SWAGGER_FILES}


def source_hash(text: str) -> str:
    """Returns the hash of an inline script or style as a source of a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def asset_of(body: bytes, media: str) -> Asset:
    """Returns a file with its compressed form and its ETag."""
    return Asset(body, gzip.compress(body, mtime=0), media, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _read(path: Path) -> Asset:
    return asset_of(path.read_bytes(), MEDIA[path.suffix])

"""Writes a drawing as PNG: PDFium paints its PDF."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pypdfium2
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_UP = 2
"""PNG filter: each byte is the difference to the one above, which is 0 nearly everywhere in a drawing."""


def paint(pdf: bytes, pixels: int) -> NDArray[np.uint8]:
    """Returns the page of a PDF as (height, width, 3), `pixels` wide. Not thread-safe, as PDFium is not."""
    document = pypdfium2.PdfDocument(pdf)
    try:
        page = document[0]
        image = page.render(scale=pixels / page.get_width(), rev_byteorder=True).to_numpy()
        return np.ascontiguousarray(image[:, :, :3])
    finally:
        document.close()


def encode(image: NDArray[np.uint8], dpi: int | None = None) -> bytes:
    """Returns an image (height, width, 3) of red, green and blue as a PNG file."""
    height, width, _ = image.shape
    rows = np.empty((height, 1 + 3 * width), dtype=np.uint8)
    flat = image.reshape(height, 3 * width)
    rows[:, 0] = _UP
    rows[0, 1:] = flat[0]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    if dpi is not None:
        per_meter = round(dpi / 0.0254)
        parts.append((b"pHYs", struct.pack(">IIB", per_meter, per_meter, 1)))
    parts += [(b"IDAT", zlib.compress(rows.tobytes(), 2)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

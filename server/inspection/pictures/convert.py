"""Writes a drawing as SVG, and the SVG as PNG or PDF with Typst, which paints it and embeds its fonts."""

from __future__ import annotations

import struct
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from server.errors import InvalidRequest
from server.inspection.attention_view import ViewOptions
from server.inspection.pictures.svg import Drawing, png_chunk, write_svg
from server.inspection.pictures.text_width import font_folder

if TYPE_CHECKING:  # imported for the first picture
    import typst

PictureFormat = Literal["svg", "png", "pdf"]
PIXELS_LIMIT = 24_000_000
"""Limit on the pixels of a PNG."""
DPI, CARD_DPI = 144, 96
_USUAL_PIXELS = 3_000_000
"""Pixels of a PNG beyond which the resolution is lowered if the request does not set it."""
_LEAST_DPI = 72
_CSS_DPI = 96
_PAGE = b"""
#set page(width: auto, height: auto, margin: 0pt)
#set document(date: none)
#image(bytes(sys.inputs.svg), format: "svg")
"""
_PNG_HEAD = 33
"""Bytes of a PNG before its second chunk."""
_lock = threading.Lock()  # bounds the memory and the threads of conversion


def write(drawing: Drawing, format: PictureFormat, options: ViewOptions) -> bytes:
    """Returns the file. Raises InvalidRequest for a PNG of too many pixels. Takes up to some hundred milliseconds: call
    it in a thread."""
    width = float(options.width or drawing.width)
    if format == "svg":
        return write_svg(drawing, width)
    if format == "pdf":
        return _converted(write_svg(drawing, width), "pdf", _CSS_DPI)
    area = width * width * drawing.height / drawing.width
    dpi = options.dpi or _usual_dpi(area, CARD_DPI if options.view == "card" else DPI)
    if (pixels := area * (dpi / _CSS_DPI) ** 2) > PIXELS_LIMIT:
        raise InvalidRequest(
            f"The picture would have {pixels / 1e6:.0f} million pixels, over the limit of {PIXELS_LIMIT // 1_000_000} "
            "million; lower width or dpi, or choose svg or pdf."
        )
    png = _converted(write_svg(drawing, width), "png", dpi)
    per_meter = round(dpi / 0.0254)
    resolution = png_chunk(b"pHYs", struct.pack(">IIB", per_meter, per_meter, 1))
    return png[:_PNG_HEAD] + resolution + png[_PNG_HEAD:]


def _usual_dpi(area: float, dpi: int) -> int:
    """Returns the resolution, lowered for large drawings. `area` is in pixels of the layout."""
    return max(_LEAST_DPI, min(dpi, int(_CSS_DPI * (_USUAL_PIXELS / area) ** 0.5)))


def _converted(svg: bytes, format: PictureFormat, dpi: int) -> bytes:
    import typst

    with _lock:
        file = typst.compile(  # type: ignore[type-var]  # of its own annotations
            _PAGE,
            root=Path("/"),
            font_paths=_fonts(),
            format=format,
            ppi=dpi,
            sys_inputs={"svg": svg.decode()},
            pdf_tags=False,
        )
    return bytes(file)


@cache
def _fonts() -> typst.Fonts:
    """Returns the fonts of the system, and DejaVu Sans from the package ziafont."""
    import typst

    return typst.Fonts(include_embedded_fonts=False, font_paths=[font_folder()])

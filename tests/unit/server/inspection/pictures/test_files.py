"""The same drawing as SVG, PDF and PNG."""

from __future__ import annotations

import io
import struct

import numpy as np
import pypdfium2
import pytest
from lxml import etree
from PIL import Image

from server.inspection.attention_view import ViewOptions
from server.inspection.pictures.picture import write
from server.inspection.pictures.svg import THEMES, Drawing, levels, ramp

ATTACK = "</text><script>alert('x')</script> & \" \ud800"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawing() -> Drawing:
    return Drawing(120, 80, THEMES["light"])


def pixels(png: bytes) -> np.ndarray:
    """Returns a PNG as (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_the_colours_of_a_png_are_those_of_the_scale(drawing):
    weights = np.array([[0, 0.25], [0.5, 1]], dtype=np.float32)
    drawing.heat_map(0, 0, 120, 80, levels(weights))
    image = pixels(write(drawing, "png", ViewOptions(dpi=96)))
    assert image.shape == (80, 120, 3)
    colors = ramp(THEMES["light"])[levels(weights)]
    for row, column in np.ndindex(2, 2):
        np.testing.assert_array_equal(image[20 + 40 * row, 30 + 60 * column], colors[row, column])


def test_width_and_dpi_set_the_size_of_every_format(drawing):
    drawing.box(10, 10, 20, 20, "#000000")
    image = write(drawing, "png", ViewOptions(width=240, dpi=192))
    assert pixels(image).shape == (320, 480, 3)
    assert struct.unpack(">II", image[image.index(b"pHYs") + 4 :][:8]) == (7559, 7559)  # pixels per metre
    assert b'width="240" height="160" viewBox="0 0 120 80"' in write(drawing, "svg", ViewOptions(width=240))
    page = pypdfium2.PdfDocument(write(drawing, "pdf", ViewOptions(width=240)))[0]
    assert page.get_size() == (180, 120)  # points


def test_texts_cannot_add_markup(drawing):
    drawing.text(5, 20, ATTACK, 10, "#000000")
    root = etree.fromstring(write(drawing, "svg", ViewOptions()))
    assert {element.tag for element in root.iter()} == {SVG + "svg", SVG + "rect", SVG + "text"}
    assert "<script>alert('x')</script>" in root.find(SVG + "text").text
    for format in ("pdf", "png"):
        assert write(drawing, format, ViewOptions())


def test_the_text_of_a_pdf_can_be_copied_and_its_fonts_are_embedded(drawing):
    words = ["Straße ▁the", "Привет", "fine"]
    for i, word in enumerate(words):
        drawing.text(5, 15 + 20 * i, word, 10, "#000000")
    data = write(drawing, "pdf", ViewOptions())
    assert data.startswith(b"%PDF-1.7") and b"/FontFile2" in data and data.count(b"/Subtype/Type0") == 1
    text = pypdfium2.PdfDocument(data)[0].get_textpage().get_text_range()
    assert text.splitlines() == words
    assert len(data) < 30_000  # a subset: the whole font has 757 kB


def test_a_large_map_is_an_image_in_an_svg(drawing):
    many = levels(np.full((210, 210), 0.5, dtype=np.float32) + np.eye(210, dtype=np.float32) / 4)
    drawing.heat_map(0, 0, 100, 80, many[:20, :20])
    few = write(drawing, "svg", ViewOptions()).decode()
    assert "<image" not in few and few.count("<path") == 3  # the paper, the diagonal and the rest
    drawing.heat_map(0, 0, 100, 80, many)
    svg = write(drawing, "svg", ViewOptions()).decode()
    assert svg.count('href="data:image/png;base64,') == 2 and len(svg) < 50_000


def test_weights_that_are_not_finite_are_shown_as_zero():
    places = levels(np.array([np.nan, -np.inf, np.inf, -1, 2], dtype=np.float32))
    np.testing.assert_array_equal(places, [0, 0, 255, 0, 255])

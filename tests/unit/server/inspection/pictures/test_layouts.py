"""Pictures: layouts, and the same drawing as SVG, PDF and PNG."""

from __future__ import annotations

import io
import itertools
import re
import struct

import numpy as np
import pypdfium2
import pytest
from lxml import etree
from PIL import Image

from server.inspection.attention_view import MapView, ViewOptions
from server.inspection.pictures import lines
from server.inspection.pictures.labels import printable, wrapped
from server.inspection.pictures.lines import (
    CARD,
    Line,
    LinkedSentences,
    draw_alignment,
    draw_card,
    fits_on_lines,
)
from server.inspection.pictures.picture import draw, write
from server.inspection.pictures.svg import THEMES, Drawing, levels, ramp, right_to_left, width

LIGHT = THEMES["light"]
PAIR = LinkedSentences(
    Line(("The", "cat", "."), frozenset({2})),
    Line(("Die", "Katze", ".")),
    ((0, 0, 0.9), (1, 1, 0.5)),
)


def maps(
    layers=1, heads=1, queries=("Katze", "schläft"), keys=("cat", "sleeps"), kind="cross"
) -> MapView:
    weights = np.full((layers, heads, len(queries), len(keys)), 1 / len(keys), dtype=np.float32)
    return MapView(
        kind, weights, tuple(range(layers)), tuple(range(heads)), tuple(queries), tuple(keys)
    )


def elements(drawing: Drawing, tag: str) -> list[etree._Element]:
    return list(
        etree.fromstring(write(drawing, "svg", ViewOptions())).iter(
            "{http://www.w3.org/2000/svg}" + tag
        )
    )


def texts(drawing: Drawing) -> dict[str, tuple[float, float]]:
    """Returns the texts with the last place of each."""
    return {
        (text.text or "").strip("\u202b\u202c"): (float(text.get("x")), float(text.get("y")))
        for text in elements(drawing, "text")
    }


def ribbons(drawing: Drawing) -> list[etree._Element]:
    """Returns the lines and ribbons that show weights."""
    return [path for path in elements(drawing, "path") if path.get("stroke-opacity")]


def inside(drawing: Drawing) -> bool:
    """Returns whether all texts begin and all curves lie inside the drawing."""
    points = list(texts(drawing).values())
    for path in ribbons(drawing):
        numbers = [float(number) for number in re.findall(r"[\d.-]+", path.get("d"))]
        points += zip(numbers[::2], numbers[1::2], strict=True)
    return all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points)


def test_a_map_names_all_tokens_and_has_a_scale():
    drawing = draw([maps()], ViewOptions(), ["A title"], "attention weight")
    assert {"A title", "Katze", "schläft", "cat", "sleeps", "source", "translation"} <= texts(
        drawing
    ).keys()
    assert {"0.00", "0.50", "1.00", "attention weight", "cross, layer 0, head 0"} <= texts(
        drawing
    ).keys()
    assert inside(drawing)


def test_a_grid_names_its_tokens_and_has_one_scale():
    drawing = draw([maps(2, 3), maps(2, 3, kind="encoder")], ViewOptions(), [], "attention weight")
    shown = [text.text for text in elements(drawing, "text")]
    assert [shown.count(label) for label in ("Katze", "schläft", "cat", "sleeps")] == [4, 4, 6, 6]
    assert shown.count("layer 1, head 2") == 2 and shown.count("0.50") == 1
    assert len(elements(drawing, "g")) == 12 + 1


def test_many_tokens_leave_out_labels_and_stay_small():
    many = [f"token{i}" for i in range(400)]
    drawing = draw([maps(queries=many, keys=many)], ViewOptions(), [], "")
    assert drawing.width < 1_600 and "token0" in texts(drawing) and "token1" not in texts(drawing)
    assert inside(drawing)


def test_lines_of_several_heads_lie_side_by_side():
    drawing = draw([maps(1, 2, kind="encoder")], ViewOptions(view="lines"), [], "")
    curves = ribbons(drawing)
    assert len(curves) == 2 * 2 * 2 and len({curve.get("stroke") for curve in curves}) == 2
    assert len({curve.get("d").partition("C")[0] for curve in curves[:2]}) == 2
    assert {"encoder, layer 0, head 0", "encoder, layer 0, head 1"} <= texts(drawing).keys()


def test_the_faintest_lines_are_left_out(monkeypatch):
    monkeypatch.setattr(lines, "LINES_LIMIT", 3)
    weights = np.array([[[[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]]], dtype=np.float32)
    view = MapView("cross", weights, (0,), (0,), ("a", "b"), ("c", "d", "e"))
    drawing = draw([view], ViewOptions(view="lines"), [], "")
    assert len(ribbons(drawing)) in (3, 4)  # 0.3 is there twice


def test_an_alignment_links_words():
    drawing = draw_alignment(PAIR, LIGHT, [], "word alignment")
    widths = [float(ribbon.get("stroke-width")) for ribbon in ribbons(drawing)]
    assert len(widths) == 2 and widths[0] > widths[1]
    assert {"The", "Katze", "word alignment"} <= texts(drawing).keys() and inside(drawing)


def test_a_sentence_from_right_to_left_begins_at_the_right():
    pair = LinkedSentences(Line(("one", "two")), Line(("\u05d0\u05d1", "\u05d2\u05d3")), ())
    places = texts(draw_alignment(pair, LIGHT, [], ""))
    assert places["one"] < places["two"] and places["\u05d0\u05d1"] > places["\u05d2\u05d3"]


def test_a_card_has_the_size_of_a_preview_and_drops_words_that_do_not_fit():
    long = tuple(f"word{i}" for i in range(60))
    pair = LinkedSentences(Line(long), Line(long), tuple((i, i, 1.0) for i in range(60)), chosen=1)
    drawing = draw_card(pair, LIGHT, "English → German", ["model"], None)
    assert (drawing.width, drawing.height) == CARD and inside(drawing)
    assert "\u2026" in texts(drawing) and "word59" not in texts(drawing)
    assert [ribbon.get("stroke") for ribbon in ribbons(drawing)].count(LIGHT.accent) == 1
    assert write(drawing, "png", ViewOptions(view="card"))[16:24] == (1200).to_bytes(4) + (
        630
    ).to_bytes(4)


def test_long_titles_are_broken_and_shortened():
    lines = wrapped("word " * 200, 15, 300)
    assert len(lines) == 4 and lines[-1].endswith("\u2026")
    assert len(wrapped("猫" * 100, 15, 300)) == 4
    assert wrapped("", 15, 300) == [] and wrapped("W", 15, 1) == ["W"]
    assert printable("a\x00b\u202e") == "a·b·" and len(printable("x" * 100)) <= 32


def test_widths_and_directions_of_scripts():
    assert width("iii", 10) < width("WWW", 10) == 3 * width("W", 10)
    # Chinese; a combining accent
    assert width("\u732b", 10) == 10 and width("e\u0301", 10) == width("e", 10)
    assert [right_to_left(text) for text in ("a \u05d0", "\u05d0 a", "12. \u0645", "")] == [
        False,
        True,
        True,
        False,
    ]


def boxes(drawing: Drawing) -> dict[tuple[float, float, float, float], str]:
    """Returns the texts by the places (left, top, right, bottom) of their letters."""
    found = {}
    for text in elements(drawing, "text"):
        x, y, size = (float(text.get(name)) for name in ("x", "y", "font-size"))
        content = (text.text or "").strip("\u202b\u202c")
        length = width(content, size)
        start = {"start": 0.0, "middle": length / 2, "end": length}[
            text.get("text-anchor", "start")
        ]
        up, down = 0.7 * size, 0.15 * size
        if text.get("transform"):
            found[x - up, y + start - length, x + down, y + start] = content
        else:
            found[x - start, y - up, x - start + length, y + down] = content
    return found


WORDS = {
    "short": ("Hi",),
    "Latin": tuple("My brother is working in the city because he has found a job .".split()),
    "long words": ("Donaudampfschifffahrtsgesellschaftskapitän", "WWWWWWWWWWWWWWWWWWWWWW", "i"),
    "many": tuple(f"word{number}" for number in range(60)),
    "Chinese": tuple("猫在沙发上睡觉"),
    "right to left": ("החתול", "ישן", "על", "הספה"),
}
NOTES = [
    "word alignment (combined)",
    "without " + ", ".join(f"encoder.{head}.10" for head in range(9)),
    "m" * 80,
]


@pytest.mark.parametrize("title", [[], ["Title and more " * 30, "W" * 300]])
@pytest.mark.parametrize("queries", WORDS)
@pytest.mark.parametrize("keys", WORDS)
def test_no_text_is_printed_over_another_or_cut_off(queries, keys, title):
    sides = {"queries": WORDS[queries], "keys": WORDS[keys]}
    pair = LinkedSentences(Line(WORDS[keys]), Line(WORDS[queries]), ())
    caption = "; ".join(["share of the largest weight of the map", *NOTES[:2]])
    drawings = [
        draw([maps(**sides)], ViewOptions(), title, caption),
        draw(
            [maps(2, 3, **sides), maps(1, 1, kind="decoder", **sides)],
            ViewOptions(),
            title,
            caption,
        ),
        draw([maps(1, 3, **sides)], ViewOptions(view="lines"), [*title, caption], ""),
        draw_card(pair, LIGHT, "English → German", NOTES, "".join(title)),
        *([draw_alignment(pair, LIGHT, title, caption)] if fits_on_lines(pair) else []),
    ]
    for drawing in drawings:
        places = boxes(drawing)
        for (left, top, right, bottom), text in places.items():
            assert min(left, top) >= 0 and right <= drawing.width and bottom <= drawing.height, text
        for one, other in itertools.combinations(places, 2):
            apart = (
                one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            )
            assert apart, (places[one], places[other])


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
    # pixels per metre
    assert struct.unpack(">II", image[image.index(b"pHYs") + 4 :][:8]) == (7559, 7559)
    assert b'width="240" height="160" viewBox="0 0 120 80"' in write(
        drawing, "svg", ViewOptions(width=240)
    )
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
    assert (
        data.startswith(b"%PDF-1.7")
        and b"/FontFile2" in data
        and data.count(b"/Subtype/Type0") == 1
    )
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

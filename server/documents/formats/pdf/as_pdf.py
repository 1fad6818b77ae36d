"""Translates PDF files into PDF files: qpdf (pikepdf) removes the text, and Typst writes the
translated texts in its places with its sizes and colors. Pictures, lines, links and bookmarks are
kept, fonts are replaced, and a text that is longer than its place is written smaller."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from importlib.resources import files
from io import BytesIO
from typing import Any

import orjson
import pikepdf
import typst

from server.documents.document import Document
from server.documents.formats.pdf.pages import Page, alignment, document_of
from server.errors import InvalidRequest
from server.text.languages import primary_subtag

PROGRAM = b"""
#let fonts = (
  serif: ("Liberation Serif", "Times New Roman", "Libertinus Serif"), sans: ("Liberation Sans", "Arial", "DejaVu Sans"),
)
#set text(lang: sys.inputs.lang, hyphenate: true, top-edge: "cap-height", bottom-edge: "baseline")
#set par(leading: 0.45em)
#set page(margin: 0pt, fill: none)
#let (width, height, texts) = json(bytes(sys.inputs.page))
#set page(width: width * 1pt, height: height * 1pt)
#for it in texts {
  let body(size) = box(width: it.width * 1pt, fill: if it.hidden { white }, align(eval(it.align), text(
    size: size, fill: rgb(it.color), font: fonts.at(if it.serif { "serif" } else { "sans" }),
    weight: if it.bold { "bold" } else { "regular" }, style: if it.italic { "italic" } else { "normal" },
    it.text.split("\t").join(box(width: 1fr, repeat[.])),
  )))
  let fitted = context {
    let size = it.size * 1pt
    let fits = it.height * 1pt / measure(body(size)).height
    while size > it.size * 0.4pt and fits < 1 {
      size *= calc.clamp(calc.sqrt(fits), 0.9, 0.97)
      fits = it.height * 1pt / measure(body(size)).height
    }
    body(size)
  }
  place(dx: it.x * 1pt, dy: it.y * 1pt, if it.angle == 0 { fitted } else { rotate(-it.angle * 1deg, reflow: true, fitted) })
}
"""
"""The texts of a page in Typst, in letters small enough for their boxes."""
SHOWS_TEXT = frozenset({"Tj", "TJ", "'", '"'})


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    return document_of(data, lambda pages: write(data, pages, primary_subtag(target)))


def write(data: bytes, pages: Sequence[Page], language: str) -> bytes:
    """Returns a PDF file with the texts of `pages`. Raises InvalidRequest for a damaged file."""
    fonts = typst.Fonts(font_paths=[str(files("ziafont") / "fonts")])
    made, seen = BytesIO(), set[tuple[int, int]]()
    try:
        with pikepdf.open(BytesIO(data)) as pdf:
            for page, own in zip(pages, pdf.pages, strict=True):
                for form in forms_of(own.resources, seen):
                    form.write(without_text(form))
                left, bottom, right, top = page.box
                spec = orjson.dumps((right - left, top - bottom, texts(page))).decode()
                inputs = {"page": spec, "lang": language}  # page by page, which bounds the memory
                written = typst.compile(
                    PROGRAM, font_paths=fonts, sys_inputs=inputs, pdf_tags=False
                )
                with pikepdf.open(BytesIO(written)) as overlay:
                    above = pdf.copy_foreign(overlay.pages[0].as_form_xobject())
                name = own.add_resource(above, pikepdf.Name.XObject)
                drawn = f"\nQ q 1 0 0 1 {left:f} {bottom:f} cm {name} Do Q".encode()
                own.obj.Contents = pdf.make_stream(b"q\n" + without_text(own) + drawn)
            pdf.save(made)
    except (pikepdf.PdfError, ValueError) as error:
        raise InvalidRequest("The file is damaged; it can only be translated into html.") from error
    return made.getvalue()


def forms_of(resources: pikepdf.Object, seen: set[tuple[int, int]]) -> Iterator[pikepdf.Object]:
    """Yields the drawings in the resources of a page, and in drawings, that are not `seen`."""
    for _, each in resources.get("/XObject", pikepdf.Dictionary()).items():
        if each.get("/Subtype") == "/Form" and each.objgen not in seen:
            seen.add(each.objgen)
            yield each
            yield from forms_of(each.get("/Resources", pikepdf.Dictionary()), seen)


def without_text(drawing: pikepdf.Page | pikepdf.Object) -> bytes:
    """Returns the content of a page or drawing without the operators that show text."""
    operations = pikepdf.parse_content_stream(drawing)
    return pikepdf.unparse_content_stream(
        [each for each in operations if str(each.operator) not in SHOWS_TEXT]
    )


def texts(page: Page) -> list[dict[str, Any]]:
    """Returns the texts of a page with their places from the upper left corner in points. A line
    may extend to the next column or the margin."""
    lefts = sorted(piece.box[0] for piece in page.pieces)
    edge = max((piece.box[2] for piece in page.pieces), default=0.0)
    written = []
    for piece in [each for each in page.pieces if each.text]:
        left, bottom, right, top = piece.box
        size, upright = piece.font.size, piece.font.angle in (0, 180)
        aligned = alignment(piece, lefts[0], edge) if piece.kind == "p" else "left"
        if aligned == "left" and upright:
            after = bisect_left(lefts, right)
            margin = page.box[2] - lefts[0] + page.box[0]  # as wide as the left one
            right = max(right, lefts[after] - size if after < len(lefts) else max(edge, margin))
        width, height = (right - left, top - bottom) if upright else (top - bottom, right - left)
        text = ("\N{BULLET} " if piece.kind == "li" else "") + piece.text
        if piece.leader:
            text += "\t" + piece.leader.strip(" .")
        place = {
            "x": left - page.box[0],
            "y": page.box[3] - top,
            "width": width + 1,
            "height": max(height, size),
        }
        written.append(piece.font._asdict() | place | {"align": aligned, "text": text})
    return written

"""A font in a PDF: the subset of its glyphs that a drawing uses (ISO 32000-1, section 9.7)."""

from __future__ import annotations

import uharfbuzz as hb

from server.inspection.pictures.fonts import FontFile, Glyph

_LAYOUT_TABLES = ("GSUB", "GPOS", "GDEF", "kern", "morx", "DSIG", "MATH", "BASE", "name")
_CMAP_HEAD = (
    "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def /CMapType 2 def\n"
    "1 begincodespacerange <0000> <ffff> endcodespacerange\n"
)


class EmbeddedFont:
    """Collects the glyphs of one font. Character codes in the PDF are glyph numbers."""

    def __init__(self, font: FontFile, name: str) -> None:
        self.name = name
        self._font = font
        self._texts: dict[int, str] = {}
        self._widths: dict[int, float] = {}

    def use(self, glyph: Glyph) -> float:
        """Adds a glyph and returns its width in thousandths of the size."""
        if glyph.text or glyph.number not in self._texts:
            self._texts.setdefault(glyph.number, glyph.text)
        if glyph.number not in self._widths:
            advance = self._font.font.get_glyph_h_advance(glyph.number)
            self._widths[glyph.number] = round(1000 * advance / self._font.em, 1)
        return self._widths[glyph.number]

    def program(self) -> tuple[bytes, str]:
        """Returns the subset as a font file and the entries of its stream. Glyphs keep their numbers."""
        wanted = hb.SubsetInput()
        wanted.flags = hb.SubsetFlags.RETAIN_GIDS | hb.SubsetFlags.NO_HINTING | hb.SubsetFlags.NOTDEF_OUTLINE
        wanted.glyph_set.update(self._widths)
        wanted.drop_table_tag_set.update(int.from_bytes(tag.encode("ascii")) for tag in _LAYOUT_TABLES)
        wanted.pin_all_axes_to_default(self._font.face)
        data = bytes(hb.subset(self._font.face, wanted).blob.data)
        return data, "/Subtype/OpenType" if self._outlines_are_cff else f"/Length1 {len(data)}"

    def descriptor(self, file: int) -> bytes:
        """Returns the font descriptor; `file` is the object of the font file."""
        extents, em = self._font.font.get_font_extents("ltr"), self._font.em
        ascent, descent = round(1000 * extents.ascender / em), round(1000 * extents.descender / em)
        key = "FontFile3" if self._outlines_are_cff else "FontFile2"
        return (
            f"<</Type/FontDescriptor/FontName/{self._base}/Flags 4/FontBBox[-1000 {descent} 2000 {ascent}]/ItalicAngle 0"
            f"/Ascent {ascent}/Descent {descent}/CapHeight {ascent}/StemV 80/{key} {file} 0 R>>"
        ).encode("ascii")

    def descendant(self, descriptor: int) -> bytes:
        """Returns the CID font."""
        widths = "".join(f"{number}[{width:g}]" for number, width in sorted(self._widths.items()))
        kind = "/CIDFontType0" if self._outlines_are_cff else "/CIDFontType2/CIDToGIDMap/Identity"
        return (
            f"<</Type/Font/Subtype{kind}/BaseFont/{self._base}/FontDescriptor {descriptor} 0 R/W[{widths}]"
            "/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>"
        ).encode("ascii")

    def composite(self, descendant: int, to_unicode: int) -> bytes:
        """Returns the font that the page refers to."""
        return (
            f"<</Type/Font/Subtype/Type0/BaseFont/{self._base}/Encoding/Identity-H/DescendantFonts[{descendant} 0 R]"
            f"/ToUnicode {to_unicode} 0 R>>"
        ).encode("ascii")

    def to_unicode(self) -> bytes:
        """Returns the map from glyphs to text, with which a viewer copies and searches."""
        lines = [
            f"<{number:04x}> <{text.encode('utf-16-be', 'replace').hex()}>"
            for number, text in sorted(self._texts.items())
            if text
        ]
        blocks = [lines[at : at + 100] for at in range(0, len(lines), 100)]
        body = "".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar\n" for block in blocks)
        return (_CMAP_HEAD + body + "endcmap end end").encode("ascii")

    @property
    def _base(self) -> str:
        """The name, with the tag that marks a subset."""
        name = "".join(c for c in self._font.path.stem if c.isascii() and c.isalnum())
        return f"ATTNTV+{name}"

    @property
    def _outlines_are_cff(self) -> bool:
        return any(len(self._font.face.reference_table(tag)) for tag in ("CFF ", "CFF2"))

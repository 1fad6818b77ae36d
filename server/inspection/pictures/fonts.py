"""Fonts of pictures: finds one for every character, and turns text into placed glyphs with HarfBuzz.

DejaVu Sans (Latin, Greek, Cyrillic, Hebrew, Arabic) is installed with the package ziafont, of which only this file is
used. Other scripts, such as Chinese, need a font of the system.
"""

from __future__ import annotations

import importlib.util
import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import uharfbuzz as hb

FAMILIES = "DejaVu Sans, Noto Sans, Noto Sans CJK SC, WenQuanYi Micro Hei, FreeSans, sans-serif"
"""Names for an SVG, whose viewer chooses the fonts."""
FOLDERS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path("~/.local/share/fonts"))
FILES_LIMIT = 2_000
"""Number of font files that are searched for a character."""
_REMEMBERED_CHARACTERS = 40
"""Texts up to this length, such as labels, are shaped once."""
_SKIPPED = ("bold", "italic", "oblique", "mono", "serif", "thin", "light", "black", "condensed", "icon", "symbol")


@dataclass(frozen=True, slots=True, eq=False)
class FontFile:
    """A font. `characters` are the code points that it has; its units are 1 / `em`."""

    path: Path
    face: hb.Face
    font: hb.Font
    characters: hb.Set

    @property
    def em(self) -> int:
        return int(self.face.upem)


@dataclass(frozen=True, slots=True)
class Glyph:
    """A glyph of a font with its offset (x to the right, y upwards) and advance, for size 1. `text` are the characters
    that it shows; a glyph that shows the same characters as the one before has none."""

    number: int
    text: str
    x: float
    y: float
    advance: float


@dataclass(frozen=True, slots=True)
class Run:
    """Glyphs of one font, from left to right."""

    font: FontFile
    glyphs: tuple[Glyph, ...]

    @property
    def advance(self) -> float:
        return sum(glyph.advance for glyph in self.glyphs)


def shape(text: str) -> tuple[Run, ...]:
    """Returns the glyphs of one line of text in visual order, from left to right."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else _shape(text)


def _shape(text: str) -> tuple[Run, ...]:
    runs: list[Run] = []
    for part, level in _visual_order(text):
        pieces = [("".join(group), font) for font, group in itertools.groupby(part, key=font_for)]
        runs += [_run(piece, font, level % 2 == 1) for piece, font in (reversed(pieces) if level % 2 else pieces)]
    return tuple(runs)


_remembered = lru_cache(maxsize=4_096)(_shape)


def width(text: str, size: float) -> float:
    """Returns the width of a line of text."""
    return size * sum(run.advance for run in shape(text))


def right_to_left(text: str) -> bool:
    """Returns whether the first letter of a text is of a script that is written from right to left."""
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)


@lru_cache(maxsize=10_000)
def font_for(character: str) -> FontFile:
    """Returns the first font that has the character, or the default font, which draws a box. Combining marks and
    joiners that the default font lacks are looked for as other characters are."""
    default = default_font()
    if ord(character) in default.characters:
        return default
    return next((font for font in system_fonts() if ord(character) in font.characters), default)


@cache
def default_font() -> FontFile:
    """Returns DejaVu Sans."""
    package = importlib.util.find_spec("ziafont")  # found, not imported
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("The package ziafont, which holds DejaVu Sans, is not installed.")
    return _open(Path(package.submodule_search_locations[0]) / "fonts" / "DejaVuSans.ttf")


@cache
def system_fonts() -> tuple[FontFile, ...]:
    """Returns the regular sans-serif fonts of the system, Noto first."""
    return tuple(_readable(FOLDERS))


def _readable(folders: tuple[Path, ...]) -> Iterator[FontFile]:
    files = [file for folder in map(_expanded, folders) if folder.is_dir() for file in folder.rglob("*.[to]t[fc]")]
    regular = [file for file in files if not any(word in file.stem.lower() for word in _SKIPPED)]
    for file in sorted(regular, key=lambda file: ("NotoSans" not in file.stem, str(file)))[:FILES_LIMIT]:
        try:
            font = _open(file)
        except (hb.HarfBuzzError, OSError, ValueError):
            continue
        if font.face.glyph_count and len(font.characters):
            yield font


def _expanded(folder: Path) -> Path:
    """Returns a folder with its ~ replaced, or as it is for a user without a home."""
    try:
        return folder.expanduser()
    except RuntimeError:
        return folder


def _open(path: Path) -> FontFile:
    face = hb.Face(hb.Blob.from_file_path(str(path)))
    return FontFile(path, face, hb.Font(face), face.unicodes)


def _run(text: str, font: FontFile, backwards: bool) -> Run:
    buffer = hb.Buffer()
    buffer.add_str(text)
    buffer.guess_segment_properties()
    buffer.direction = "rtl" if backwards else "ltr"
    hb.shape(font.font, buffer)
    infos, positions = buffer.glyph_infos, buffer.glyph_positions
    starts = sorted({info.cluster for info in infos})
    ends = dict(zip(starts, [*starts[1:], len(text)], strict=True))
    glyphs, last = [], None
    for info, place in zip(infos, positions, strict=True):
        shown = "" if info.cluster == last else text[info.cluster : ends[info.cluster]]
        last = info.cluster
        offset = place.x_offset / font.em, place.y_offset / font.em
        glyphs.append(Glyph(info.codepoint, shown, *offset, place.x_advance / font.em))
    return Run(font, tuple(glyphs))


def _visual_order(text: str) -> list[tuple[str, int]]:
    """Returns parts of one direction with their level (odd: right to left), from left to right. These are the rules of
    the Unicode Bidirectional Algorithm for text without embeddings."""
    base = int(right_to_left(text))
    levels = _levels(text, base)
    parts = [
        ("".join(character for character, _ in group), level)
        for level, group in itertools.groupby(zip(text, levels, strict=True), key=lambda pair: pair[1])
    ]
    for least in range(max(levels, default=0), 0, -1):  # rule L2: reverse from the highest level down
        at = 0
        while at < len(parts):
            end = at
            while end < len(parts) and parts[end][1] >= least:
                end += 1
            parts[at:end] = parts[at:end][::-1]
            at = end + 1
    return parts


def _levels(text: str, base: int) -> list[int]:
    """Returns the level of each character. Neutral characters between two of one direction take it, others the base."""
    strong, kinds = base, []
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            strong = int(kind != "L")
            kinds.append(1 if strong else (2 if base else 0))
        elif kind in ("EN", "AN"):
            kinds.append(2 if strong or base else 0)
        elif kind in ("NSM", "BN") and kinds:
            kinds.append(kinds[-1])
        else:
            kinds.append(-1)
    at = 0
    while at < len(kinds):
        if kinds[at] >= 0:
            at += 1
            continue
        end = at
        while end < len(kinds) and kinds[end] < 0:
            end += 1
        before = kinds[at - 1] if at else base
        after = kinds[end] if end < len(kinds) else base
        # A number counts as right to left for the characters beside it, unless the text around it is not.
        same = before if before == after else (1 if {before, after} == {1, 2} and not base else base)
        kinds[at:end] = [same] * (end - at)
        at = end
    return kinds

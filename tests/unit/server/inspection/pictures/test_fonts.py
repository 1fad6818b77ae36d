"""Glyphs of texts: scripts, directions, and characters that no font has."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.inspection.pictures import fonts


def visual(text: str) -> str:
    """Returns the characters of the glyphs, from left to right."""
    return "".join(glyph.text for run in fonts.shape(text) for glyph in run.glyphs)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The cat", "The cat"),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05dd\u05d5\u05dc\u05e9"),
        ("a \u05d1\u05d2 \u05d3\u05d4 c", "a \u05d4\u05d3 \u05d2\u05d1 c"),  # two Hebrew words between Latin ones
        ("\u05d0\u05d1 12 \u05d2\u05d3", "\u05d3\u05d2 12 \u05d1\u05d0"),  # a number is written from left to right
        ("\u05d0\u05d1 xy \u05d2", "\u05d2 xy \u05d1\u05d0"),
        ("\u05d0\u05d1.", ".\u05d1\u05d0"),
        ("12, 13", "12, 13"),
        ("", ""),
    ],
)
def test_the_visual_order_is_that_of_the_scripts(text, shown):
    assert visual(text) == shown


def test_arabic_letters_are_joined():
    alone = {glyph.number for letter in "\u0645\u0631\u062d" for run in fonts.shape(letter) for glyph in run.glyphs}
    joined = [glyph.number for run in fonts.shape("\u0645\u0631\u062d") for glyph in run.glyphs]
    assert len(joined) == 3 and joined[-1] not in alone  # the first letter, on the right, has its initial form


def test_a_character_without_a_font_is_a_box_with_a_width(monkeypatch):
    monkeypatch.setattr(fonts, "system_fonts", lambda: ())
    fonts.font_for.cache_clear(), fonts._remembered.cache_clear()
    try:
        [run] = fonts.shape("\u4e00")
        assert run.font is fonts.default_font() and run.glyphs[0].number == 0 and run.advance > 0
    finally:
        fonts.font_for.cache_clear(), fonts._remembered.cache_clear()


def test_the_next_font_is_used_for_characters_that_the_first_lacks(monkeypatch):
    default = fonts.default_font()
    other = fonts.FontFile(default.path, default.face, default.font, {0x4E00})
    monkeypatch.setattr(fonts, "system_fonts", lambda: (other,))
    fonts.font_for.cache_clear(), fonts._remembered.cache_clear()
    try:
        assert [run.font for run in fonts.shape("a\u4e00b")] == [default, other, default]
    finally:
        fonts.font_for.cache_clear(), fonts._remembered.cache_clear()


def test_files_that_are_no_fonts_are_skipped(tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    (tmp_path / "empty.otf").write_bytes(b"")
    assert list(fonts._readable((tmp_path, tmp_path / "missing"))) == []


def test_a_user_without_a_home_has_the_other_folders(monkeypatch, tmp_path):
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert list(fonts._readable((tmp_path, Path("~/.local/share/fonts")))) == []


def test_long_texts_are_not_kept_in_memory():
    fonts._remembered.cache_clear()
    fonts.shape("x" * 1_000)
    assert fonts._remembered.cache_info().currsize == 0

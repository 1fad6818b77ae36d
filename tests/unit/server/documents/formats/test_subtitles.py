"""Subtitles: cues, lines and speakers are kept."""

from __future__ import annotations

import pytest

from server.documents.reader_process import read_document
from tests.support.texts.document_files import SRT, VTT, change, unchanged


def test_subtitles_keep_everything_except_the_text():
    expected = SRT
    for words in ("Hello there", "Tom & Jerry", "Yes", "No ", "way"):
        expected = expected.replace(words, words.upper())
    assert change("a.srt", SRT.encode()).decode() == expected
    assert change("a.vtt", VTT.encode()).decode() == VTT.replace("Hi &amp; <00:01.500>bye", "HI &amp; <00:01.500>BYE")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
def test_line_ends_are_kept(name, line_end):
    lines = ["WEBVTT"] * (name == "a.vtt") + ["", "1", "00:00:01.000 --> 00:00:02.000", "Hello,", "you", "", ""]
    data = line_end.join([*lines, "00:00:03.000 --> 00:00:04.000", "Bye", "", "NOTE me"])
    assert read_document(name, data.encode(), "de").texts == ("Hello, you", "Bye")
    expected = data.replace("Hello", "HELLO").replace("you", "YOU").replace("Bye", "BYE")
    assert change(name, data.encode()).decode() == expected


def test_times_of_words_stay_in_order():
    cue = "WEBVTT\n\n00:01.000 --> 00:04.000\n<00:01.000><c>Never</c> <00:02.000>give <00:03.500>up\n"
    document = read_document("a.vtt", cue.encode(), "de")
    assert document.write(document.texts).decode() == cue
    made = document.write(["Gib <img t>niemals <img t><c>auf</c> <img t>hier"]).decode()
    assert made.endswith("Gib <00:01.000>niemals <00:02.000><c>auf</c> <00:03.500>hier\n")


def test_a_cue_keeps_its_number_of_lines():
    document = read_document("a.srt", SRT.encode(), "de")
    made = document.write(["one two three four five six", "Ja", "Nein"]).decode()
    assert "one two three\r\nfour five six\r\n\r\n2" in made
    assert "\r\n- Ja\r\n- {\\an8}Nein\r\n" in made


@pytest.mark.parametrize("dash", "-–—")
def test_a_dash_within_a_subtitle_does_not_begin_a_line(dash):
    """A dash at the beginning of a line marks another speaker."""
    data = f"1\n00:00:01,000 --> 00:00:02,000\nI do not know what to say\n{dash}ever {dash} again\n".encode()
    once = unchanged("a.srt", data)
    assert f"\n{dash} " not in once.decode()
    assert unchanged("a.srt", once) == once


def test_cues_of_one_sentence_are_translated_together():
    cues = ["I think that the old house", "near the river is", "very beautiful.", "Yes."]
    data = "".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{cue}\n\n" for i, cue in enumerate(cues)).encode()
    document = read_document("a.srt", data, "de")
    assert document.texts == (" ".join(cues[:3]), "Yes.")
    assert document.write(document.texts) == data
    made = document.write(["Ich denke, dass das alte Haus am Fluss sehr schön ist.", "Ja."]).decode()
    lines = [line for line in made.split("\n") if line and not line[0].isdigit()]
    assert (len(lines), lines[3]) == (4, "Ja.")
    assert " ".join(lines[:3]) == "Ich denke, dass das alte Haus am Fluss sehr schön ist."
    assert "…" in document.write(["Kurz", "Ja."]).decode()

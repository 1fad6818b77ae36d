"""Subtitles: cues, lines and speakers are kept."""

from __future__ import annotations

import random
import re

import pytest

from server.documents.document import tagged_of
from server.documents.formats.subtitles import TIMES
from server.documents.reader_process import read_document
from server.translation.coded_text import MARK
from tests.support.texts.document_files import SRT, VTT, change, unchanged


def test_subtitles_keep_everything_except_the_text():
    expected = SRT
    for words in ("Hello there", "Tom & Jerry", "Yes", "No ", "way"):
        expected = expected.replace(words, words.upper())
    assert change("a.srt", SRT.encode()).decode() == expected
    assert change("a.vtt", VTT.encode()).decode() == VTT.replace(
        "Hi &amp; <00:01.500>bye", "HI &amp; <00:01.500>BYE"
    )


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
def test_line_ends_are_kept(name, line_end):
    lines = ["WEBVTT"] * (name == "a.vtt") + [
        "",
        "1",
        "00:00:01.000 --> 00:00:02.000",
        "Hello,",
        "you",
        "",
        "",
    ]
    data = line_end.join(
        [*lines, "00:00:03.000 --> 00:00:04.000", "Bye"] + ["", "NOTE me"] * (name == "a.vtt")
    )
    assert read_document(name, data.encode(), "de").texts == ("Hello, you", "Bye")
    expected = data.replace("Hello", "HELLO").replace("you", "YOU").replace("Bye", "BYE")
    assert change(name, data.encode()).decode() == expected


def test_times_of_words_stay_in_order():
    cue = (
        "WEBVTT\n\n00:01.000 --> 00:04.000\n<00:01.000><c>Never</c> <00:02.000>give <00:03.500>up\n"
    )
    document = read_document("a.vtt", cue.encode(), "de")
    assert document.write(document.texts).decode() == cue
    [text] = document.texts
    first, opened, closed, *others = [mark[0] for mark in MARK.findall(text)]
    new = f"Gib {others[0]}niemals {first}{opened}auf{closed} {others[1]}hier"
    made = document.write([new]).decode()
    assert made.endswith("Gib <00:01.000>niemals <00:02.000><c>auf</c> <00:03.500>hier\n")


def test_a_cue_keeps_its_number_of_lines():
    document = read_document("a.srt", SRT.encode(), "de")
    _, yes, no = document.texts
    texts = ["one two three four five six", yes.replace("Yes.", "Ja"), re.sub("No.*", "Nein", no)]
    made = document.write(texts).decode()
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
    data = "".join(
        f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{cue}\n\n" for i, cue in enumerate(cues)
    ).encode()
    document = read_document("a.srt", data, "de")
    assert document.texts == (" ".join(cues[:3]), "Yes.")
    assert document.write(document.texts) == data
    made = document.write(
        ["Ich denke, dass das alte Haus am Fluss sehr schön ist.", "Ja."]
    ).decode()
    lines = [line for line in made.split("\n") if line and not line[0].isdigit()]
    assert (len(lines), lines[3]) == (4, "Ja.")
    assert " ".join(lines[:3]) == "Ich denke, dass das alte Haus am Fluss sehr schön ist."
    assert "…" in document.write(["Kurz", "Ja."]).decode()


def cues_written(text: str, name: str, translate) -> tuple[tuple[str, ...], str]:
    document = read_document(name, text.encode(), "de")
    return document.texts, document.write([translate(each) for each in document.texts]).decode()


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
@pytest.mark.parametrize("seed", range(6))
def test_generated_subtitles_keep_all_but_their_text(name, seed):
    """With and without empty lines, numbers, settings, styles, notes and empty subtitles."""
    rng = random.Random(seed)
    parts, texts = ["WEBVTT"] if name == "a.vtt" else [], []
    for number in range(40):
        if parts and rng.random() < 0.7:
            parts.append("")
        if rng.random() < 0.8:
            parts.append(str(number))
        settings = rng.choice(["", " X1:10 X2:20", " line:0 align:start"])
        parts.append(f"00:00:{number:02d}.000 --> 00:00:{number:02d}.900{settings}")
        for _ in range(rng.randrange(4)):
            line = rng.choice(
                [
                    "Hello there, Bob.",
                    "<i>How are you?</i>",
                    "It is 10 --> 12.",
                    "Yes.",
                    "♪ La la ♪",
                    "{\\an8}Up!",
                ]
            )
            parts.append(line)
            texts.append(line)
        if name == "a.srt" and parts[-1].endswith(".") and rng.random() < 0.3:
            parts += ["", "After an empty line."]
    for line_end in ("\n", "\r\n"):
        source = line_end.join(parts)
        found, written = cues_written(source, name, str)
        assert written == source
        assert "-->" not in re.sub(r"10 --(?:>|&gt;) 12", "", " ".join(found))
        _, shouted = cues_written(source, name, str.upper)
        kept = [
            line
            for line in source.split(line_end)
            if TIMES.match(line) or not line or line.isdigit()
        ]
        assert kept == [
            line
            for line in shouted.split(line_end)
            if TIMES.match(line) or not line or line.isdigit()
        ]
        assert ("AFTER AN EMPTY LINE." in shouted) == ("After an empty line." in source)


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["I see.", "We will all be going home now."], ["I see.", "We will all be going home now."]),
        (["<i>Who are you?", "I am Bob.</i>"], ["<i>Who are you?", "I am Bob.</i>"]),
        (["One. Two.", "Three four", "five."], ["One. Two.", "Three four five."]),
        (["I saw Dr.", "Smith and his", "dog."], ["I saw Dr. Smith and his dog."]),
        (["<b>Wait…", "what is <i>this</i>?</b>"], ["<b>Wait… what is <i>this</i>?</b>"]),
    ],
)  # fmt: skip
def test_a_line_ends_with_its_sentence(lines, texts):
    head = "1\n00:00:01,000 --> 00:00:02,000\n"
    document = read_document("a.srt", (head + "\n".join(lines) + "\n").encode(), "de")
    assert [MARK.sub("", text) for text in document.texts] == [
        re.sub("<[^<>]*>", "", text) for text in texts
    ]
    made = (
        document.write(["Ein ganz langer Text davor. " + text for text in texts])
        .decode()
        .removeprefix(head)
    )
    assert len(made.splitlines()) == len(lines)
    if len(texts) == len(lines):
        assert made.splitlines() == [
            line.replace(text, "Ein ganz langer Text davor. " + text)
            for line, text in zip(lines, texts, strict=True)
        ]


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
@pytest.mark.parametrize("sound", ["(LAUGHS)", "[DOOR OPENS]", "<i>(MUSIC)"])
def test_a_sound_is_a_text_of_its_own(name, sound):
    end = "</i>" if "<i>" in sound else ""
    head = "WEBVTT\n\n" * (name == "a.vtt") + "00:00:01.000 --> 00:00:02.000\n"
    document = read_document(name, f"{head}{sound} That is\nfunny!{end}\n".encode(), "de")
    [text] = document.texts
    first, second = tagged_of(text, "coded").passages()
    assert (first.text, second.text) == (sound.removeprefix("<i>"), "That is funny!")
    assert document.write(document.texts).decode() == f"{head}{sound} That is\nfunny!{end}\n"
    made = (
        document.write([text.lower().replace("that is funny", "Das ist lustig")])
        .decode()
        .removeprefix(head)
    )
    assert made.replace("\n", " ") == f"{sound.lower()} Das ist lustig!{end} "
    for text in ("(Laughs) That is funny!", "(LAUGHS)", "Yes (NO) Maybe"):
        assert not tagged_of(
            read_document(name, f"{head}{text}\n".encode(), "de").texts[0], "coded"
        ).codes


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
@pytest.mark.parametrize("first", ["(SIGHS)", "<i>[A door opens]</i>", "♪ La la ♪", "Is it hot"])
@pytest.mark.parametrize(
    "second",
    [
        "♪ Happy birthday ♪",
        "(Music plays)",
        "<v Anna>I am glad",
        "<v.loud Bob>No",
        "&gt;&gt; Thank you",
        "MARY: Hello",
    ],
)
def test_voices_sounds_and_songs_keep_their_lines(name, first, second):
    head = "WEBVTT\n\n" * (name == "a.vtt") + "00:00:01.000 --> 00:00:02.000\n"
    document = read_document(name, f"{head}{first}\n{second}\n".encode(), "de")
    assert len(document.texts) == 2
    made = document.write([f"{text} and many more words of it" for text in document.texts]).decode()
    assert [line[:6] for line in made.removeprefix(head).splitlines()] == [first[:6], second[:6]]


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
@pytest.mark.parametrize(
    "text",
    ["", "\n", "WEBVTT", "00:01.000 --> 00:02.000", "1\n00:00:01,000 --> 00:00:02,000\n\n\nText\n"],
)
def test_files_with_little_in_them(name, text):
    document = read_document(name, text.encode(), "de")
    assert document.write(document.texts).decode() == text


@pytest.mark.parametrize("space", ["\xa0", "&nbsp;"])
def test_spaces_without_a_break_are_written_as_they_were(space):
    given = f"WEBVTT\n\n00:01.000 --> 00:02.000\nIl a dit{space}: bon\n"
    assert change("a.vtt", given.encode()).decode() == given.replace(
        "Il a dit", "IL A DIT"
    ).replace("bon", "BON")

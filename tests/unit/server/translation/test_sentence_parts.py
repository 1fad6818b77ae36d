"""A sentence over the model's length is one sentence again: no capital letter in the middle, no
lost comma."""

from __future__ import annotations

import dataclasses

import pytest

from model.search.options import Hypothesis
from server.engine.ipc.messages import JobResult
from server.text.finishing import Finished
from server.text.glossary import Entry, TermIndex
from server.text.spans import edited
from server.text.tagged import Code, Tagged
from server.translation.catalog import ModelCatalog
from server.translation.finish import mark_edits, with_mark
from tests.support.engine.fake_engine import FIRST, FakeEngine, FakeTokenizer, fake_model
from tests.support.engine.translating import translated

NOUNS = ("Kinder", "Anna", "UNO", "Garten.")
SHORT = dataclasses.replace(fake_model(), pairs=(("de", "en"),), max_length=200, segment_length=34)
CATALOG = ModelCatalog([SHORT])


class Copyist(FakeEngine):
    """Copies a text with a capital first letter and without its last comma. Within a sentence it
    prefers small letters, but for NOUNS."""

    async def _translate(self, ids, options, on_progress) -> JobResult:
        answer = await super()._translate(ids, options, on_progress)
        text = FakeTokenizer().decode([i for i in ids if i >= FIRST])
        score = -0.1
        if options.target is not None:
            text = FakeTokenizer().decode(options.target)
            assert text.startswith(", ")
            word = text[2:].split()[0].rstrip(",")
            score = (
                -0.1 if word in NOUNS or (word.islower() and word.title() not in NOUNS) else -1.0
            )
        else:
            text = (text[:1].upper() + text[1:]).rstrip(",")
        tokens = FakeTokenizer().encode_target(text)
        return dataclasses.replace(
            answer, hypotheses=(Hypothesis(tokens, (score,), score, "stop"),) * options.hypotheses
        )


@pytest.mark.parametrize(
    "text",
    [
        "Er sagte heute, und die anderen hörten, dass es regnet.",
        "Er sagte es heute, Kinder spielten draussen im Garten.",
        "Er sagte es heute, als Anna im kleinen Garten sass.",
        "Er sagte es heute, und es war spät im kleinen Garten.",
        "Er sagte es uns heute: Wir gehen in den kleinen Garten.",
        "Er sagte es uns allen; wir gehen in den kleinen Garten.",
        "Er sagte heute, UNO und EU tagen bald im grossen Garten.",
    ],
)
def test_the_parts_of_a_long_sentence_are_joined_as_one(text):
    found = translated(Copyist(), text, "de", "en", CATALOG)
    assert len(found.legs[0].sentences) > 1 and found.text == text


def test_a_term_of_a_glossary_keeps_its_capital():
    glossary = TermIndex([Entry("die Akkus", "Die Akkus")])
    text = "Er sagte es heute, die Akkus seien im kleinen Garten."
    assert ", Die Akkus" in translated(Copyist(), text, "de", "en", CATALOG, glossary=glossary).text


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("the end", "das Ende,", "the end,"),
        ("the end.", "das Ende,", "the end,"),
        ("the end.", "das Ende", "the end"),
        ("the end,", "das Ende,", "the end,"),
        ("and so on ...", "und so weiter,", "and so on ..."),
        ("etc.", "usw.", "etc."),
        ("“the end”", "„das Ende“,", "“the end”"),
        ("", "das,", ""),
    ],
)
def test_the_mark_at_the_end_of_a_part_is_kept(text, source, expected):
    assert with_mark(text, source) == expected


def with_marks(text: str, source: str) -> str:
    return edited(text, mark_edits(source, text))[0]


@pytest.mark.parametrize("marks", ["!!", "!!!", "?!", "!?!", "! !", "??"])
@pytest.mark.parametrize("written", ["! ! ! !", "!!!", "!?", "? ?", "!", "?"])
@pytest.mark.parametrize("rest", ["", " et part", "” Il part."])
def test_marks_are_as_many_as_in_the_source(marks: str, written: str, rest: str) -> None:
    text, source, own = f"“Arrête {written}{rest}", f"“Stop{marks}{rest}", "".join(marks.split())
    same = len(written) > 1 or written in marks
    assert with_marks(text, source) == f"“Arrête {own if same else written}{rest}"
    for other in ("“Arrête.", "", f"¡Para{written}", f"Vraiment ? Arrête {written}{rest}."):
        assert with_marks(other, source) == other
    assert with_marks(text, f"“Stop!{rest}") == text


@pytest.mark.parametrize("dots", ["...", "…", "..", "....."])
@pytest.mark.parametrize("written", ["..", "...", "....", "....."])
@pytest.mark.parametrize("form", ["Ja{}", "Ja{} nein", "Ja{} nein{} doch.", "{}ja?"])
def test_dots_are_as_many_as_in_the_source(dots: str, written: str, form: str) -> None:
    wanted = form.replace("{}", dots)
    assert with_marks(form.replace("{}", written), form.replace("{}", dots)) == wanted
    for text in ("Ja.", "Ja", "", "Ja… nein."):
        assert with_marks(text, form.replace("{}", dots)) == text
    assert with_marks(form.replace("{}", written), "Yes.") == form.replace("{}", written)


def test_codes_stay_at_their_words_where_marks_change() -> None:
    source = Tagged("Yes...", (Code(0, 0, "<b>", "sc", 1), Code(6, 6, "</b>", "ec", 1)))
    finished = Finished(source, "Ja..", ((0, 0, 0), (1, 4, 4)))
    assert finished.edited([(2, 4, "...")]).tagged.write() == "<b>Ja...</b>"


@pytest.mark.parametrize("text", ["!" * 100_000 + "x", "! " * 100_000 + "x", "a!" * 100_000])
def test_marks_are_found_in_linear_time(text: str) -> None:
    """A search from each mark on would take minutes."""
    assert with_marks(text, text) == text

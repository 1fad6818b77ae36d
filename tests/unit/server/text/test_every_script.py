"""Every script and every general category of Unicode: a word or a character that a vocabulary
cannot write comes back unchanged, and the model reads the words around it as those of the sentence
without it."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
import regex

from model.tokenizer import Tokenizer
from server.text.finishing import finish, unchanged
from server.text.reading import read
from server.text.tagged import Tagged
from server.text.vocabulary import with_unwritable
from server.translation.catalog import Leg, readable
from server.translation.preparation import segment_text
from tests.support.engine.fake_engine import fake_model
from tests.support.models.marian_models import train_sentencepiece, vocabulary_with

SEED, EACH, FIRST = 48, 4, 400
"""Words and characters of each script and category, and the number of its first characters among
which they are chosen."""
PLACES = ("{} the house is red", "the {} house is red", "the house is red {}")
JOINED = (
    "the house{} is red",
    "the {}house is red",
    "the “{}” house, {}, is red.",
    "the house ({}) is <b>{}</b>red",
    "{}{}",
)
"""Places where a sample may be one with the words beside it."""
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Cf Co Cn".split()
"""All but line and paragraph ends, controls and surrogates, which separate sentences or are no
text."""


def embedded(folder: Path) -> Tokenizer:
    return Tokenizer(Path("weights/general-en-de-fr-es/tokenizer.model"))


def opus(folder: Path) -> Tokenizer:
    """A vocabulary of its own beside that of SentencePiece, and an unknown piece."""
    pieces = train_sentencepiece(folder / "source.spm", 1)
    return Tokenizer(
        folder / "source.spm",
        vocabulary=vocabulary_with(pieces, {"</s>": 0, "<unk>": 1, "<pad>": 2}),
        eos_id=0,
    )


def firefox(folder: Path) -> Tokenizer:
    """The ids of SentencePiece, with a piece for each byte."""
    train_sentencepiece(
        folder / "vocab.spm", 2, 500, eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, byte_fallback=True
    )
    return Tokenizer(folder / "vocab.spm", eos_id=0)


@cache
def characters() -> str:
    """All characters but those that separate sentences or are no text."""
    text = "".join(
        map(chr, (*range(33, 0x7F), *range(0xA0, 0xD800), *range(0xE000, sys.maxunicode + 1)))
    )
    return text.translate({0x2028: None, 0x2029: None})


def scripts() -> list[str]:
    """Returns the names of all scripts that `regex` knows."""
    _, names, *_ = regex._regex.get_properties()["SCRIPT"]
    first = {value: name for name, value in reversed(list(names.items()))}
    return sorted(first.values())


def samples(pattern: str, chance: random.Random) -> Iterator[str]:
    """Yields single characters of a class, and words of a letter with its marks and further
    letters."""
    found = [match[0] for match in islice(regex.finditer(pattern, characters()), FIRST)]
    letters = [character for character in found if regex.match(r"\p{L}", character)]
    marks = [character for character in found if regex.match(r"\p{M}", character)]
    yield from chance.sample(found, min(EACH, len(found)))
    for _ in range(EACH if letters else 0):
        word = "".join(
            [
                chance.choice(letters) + chance.choice([*marks[:40], "", ""])
                for _ in range(chance.randint(2, 6))
            ]
        )
        yield word


def spaced(text: str) -> str:
    return " ".join(text.split())


def same(text: str) -> str:
    """Returns a text as two texts are compared: white space does not count, nor does the
    compatibility form."""
    return "".join(unicodedata.normalize("NFKC", readable(text)).split())


@pytest.mark.slow
@pytest.mark.parametrize("make", [embedded, opus, firefox])
def test_what_a_vocabulary_lacks_comes_back(
    make: Callable[[Path], Tokenizer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer, chance = make(tmp_path), random.Random(SEED)
    classes = [
        *[rf"\p{{Script={name}}}" for name in scripts()],
        *[rf"\p{{{name}}}" for name in CATEGORIES],
    ]
    faults: list[str] = []
    count = 0
    for pattern in classes:
        for sample in samples(pattern, chance):
            for place in PLACES:
                count += 1
                faults += [
                    f"{pattern} {sample!a} {place}: {fault}"
                    for fault in faults_of(place, sample, tokenizer)
                ]
            for place in JOINED:
                count += 1
                faults += [
                    f"{pattern} {sample!a}: {fault}"
                    for fault in written_faults(place.replace("{}", sample), tokenizer)
                ]
    with capsys.disabled():
        print(  # noqa: T201
            f"\nregex {regex.__version__}, Unicode {unicodedata.unidata_version}: {count} "
            f"sentences, seed {SEED}"
        )
    assert not faults, f"{len(faults)}\n" + "\n".join(faults[:60])


def written_faults(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields what is wrong with a whole text that is not changed by its model."""
    segmented = segment_text(text, Leg(replace(fake_model(), tokenizer=tokenizer), "en", "de"))
    targets = [
        finish(each.tagged, each.reading, each.read, ()) if each.ids else unchanged(each.tagged)
        for each in segmented.segments
    ]
    if (written := segmented.join(targets).write()) != text:
        yield f"{text!a} is written as {written!a}"


def faults_of(place: str, sample: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yields what is wrong with a sentence that contains a sample."""
    text, without = place.format(sample), spaced(place.format(""))
    tagged = with_unwritable(Tagged(text), tokenizer, readable)
    reading = read(tagged, (), tokenizer, "en")
    finished = finish(tagged, reading, reading.text, ()) if reading.text else unchanged(tagged)
    if finished.tagged.write() != text:
        yield f"written as {finished.tagged.write()!a}"
    ids = tokenizer.encode_ids(readable(reading.text))
    if tagged.codes:
        around = spaced(reading.without_stand_ins(reading.text))
        if around != without:
            yield f"read as {around!a}"
        if tokenizer.may_spell(ids):
            yield f"spelled in {readable(reading.text)!a}"
        return
    known = tokenizer.decode(tokenizer.encode_target(readable(text)))
    letters = [unicodedata.normalize("NFD", character)[0].lower() for character in readable(sample)]
    canonical = all(
        tokenizer.spelled(letter) is not None or unicodedata.combining(letter) for letter in letters
    )
    if tokenizer.may_spell(ids) and not canonical:
        yield f"spelled in {readable(reading.text)!a}"
    elif not tokenizer.may_spell(ids) and same(known) != same(text):
        yield f"comes back as {known!a}"

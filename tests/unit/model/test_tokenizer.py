"""Tests of the tokenizer: ids, pieces and character offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from model.symbols import FORMAL, INFORMAL
from model.tokenizer import Tokenizer, load_vocabulary
from tests.support.models.marian_models import OUR_IDS, made_up_text, train_sentencepiece

TAGS = {"de": ">>de<<", "fr": ">>fr<<"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a SentencePiece model with byte fallback and language tags."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    train_sentencepiece(
        path,
        seed=20,
        size=700,
        byte_fallback=True,
        **OUR_IDS,
        pad_piece="<pad>",
        user_defined_symbols=[*TAGS.values(), FORMAL, INFORMAL],
        normalization_rule_name="nmt_nfkc",
    )
    return path


@pytest.fixture(scope="module")
def tokenizer(file: Path) -> Tokenizer:
    return Tokenizer(file, tags=TAGS)


def check_offsets(text: str, offsets: tuple[tuple[int, int], ...]) -> None:
    """Checks that offsets are ordered, inside the text, equal or disjoint, and cover every visible
    character."""
    covered = set()
    last = (0, 0)
    for start, end in offsets:
        assert 0 <= start <= end <= len(text)
        assert start >= last[1] or (start, end) == last or start == end
        covered |= set(range(start, end))
        last = (start, end)
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)


@pytest.mark.parametrize(
    "text", [*made_up_text(seed=20, lines=40), *made_up_text(seed=21, lines=40)]
)
def test_offsets_cover_the_text_exactly(text: str, tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode(text)
    assert len(encoding.ids) == len(encoding.pieces) == len(encoding.offsets)
    check_offsets(text, encoding.offsets)
    assert encoding.offsets[-1] == (len(text), len(text))


@given(text=st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=40))
@settings(max_examples=100, deadline=None)
def test_offsets_are_inside_the_text(text: str, tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode(text, "de")
    assert len(encoding.ids) == len(encoding.pieces) == len(encoding.offsets)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    assert all(0 <= i < 700 for i in encoding.ids)


@pytest.mark.parametrize("text", [*made_up_text(seed=22, lines=30), "日本 🙂 ß", "x"])
def test_offsets_of_target_pieces_cover_the_text(text: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_target(text)
    decoding = tokenizer.decode_pieces(ids)
    assert decoding.text == tokenizer.decode(ids)
    assert len(decoding.pieces) == len(decoding.offsets) == len(ids)
    check_offsets(decoding.text, decoding.offsets)
    written = ""
    for (start, end), before in zip(decoding.offsets, [(0, 0), *decoding.offsets], strict=False):
        written += decoding.text[start:end] if (start, end) != before else ""
    assert written.replace(" ", "") == decoding.text.replace(" ", "")


@pytest.mark.parametrize("text", ["Hello world", "🙂🙂", "東京 – 北海道", "a" * 300, "ÀÉÎõü", ""])
def test_byte_fallback_restores_every_character(text: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode_target(text)) == text
    assert 1 not in tokenizer.encode(text).ids  # the text contains no unknown piece


@given(
    parts=st.lists(
        st.sampled_from([("\u2581",), ("\u2581a",), ("b",), ("<0xC3>", "<0xB6>")]), max_size=10
    )
)
@settings(max_examples=100, deadline=None)
def test_a_lone_space_before_a_word_is_no_second_space(
    parts: list[tuple[str, ...]], tokenizer: Tokenizer, file: Path
) -> None:
    pieces = [piece for part in parts for piece in part]
    ids = tokenizer.piece_ids(pieces)
    decoding = tokenizer.decode_pieces(ids)
    processor = SentencePieceProcessor(model_file=str(file))
    written = processor.decode_pieces(pieces)
    assert (
        tokenizer.decode(ids)
        == decoding.text
        == " ".join([word for word in written.split(" ") if word])
    )
    check_offsets(decoding.text, decoding.offsets)
    for piece, (start, end) in zip(pieces, decoding.offsets, strict=True):
        if piece in ("\u2581a", "b"):
            assert decoding.text[start:end] == piece.strip("\u2581")
    imported = Tokenizer(
        file, vocabulary={tokenizer.piece(i): i for i in range(processor.get_piece_size())}
    )
    assert imported.decode(ids) == imported.decode_pieces(ids).text == written


@pytest.mark.slow
@given(
    text=st.text(max_size=40) | st.sampled_from(made_up_text(seed=22, lines=40)),
    language=st.sampled_from(["", "de"]),
)
@settings(max_examples=100, deadline=None)
def test_ids_are_those_of_sentencepiece(
    text: str, language: str, tokenizer: Tokenizer, file: Path
) -> None:
    encoding = tokenizer.encode(text, language)
    head = 1 if language else 0
    assert list(encoding.ids[head:-1]) == SentencePieceProcessor(model_file=str(file)).encode(text)
    renumbered = Tokenizer(file, vocabulary={"<unk>": 0, "</s>": 1, "e": 2, "<0xE2>": 3})
    for each in (tokenizer, renumbered):
        encoding = each.encode(text, language)
        assert each.may_spell(encoding.ids) or not any(
            piece.startswith("<0x") for piece in encoding.pieces
        )


def test_pieces_of_a_target_have_their_ids(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_target("the cat sleeps")
    assert tokenizer.piece_ids([tokenizer.piece(i) for i in ids]) == ids
    for piece in ("</s>", "<s>", "no such piece"):
        with pytest.raises(ValueError, match="The model writes no piece"):
            tokenizer.piece_ids([piece])


def test_a_tag_is_first_and_covers_no_characters(tokenizer: Tokenizer) -> None:
    plain, tagged = tokenizer.encode("wörld"), tokenizer.encode("wörld", "fr")
    assert tagged.pieces == (">>fr<<", *plain.pieces)
    assert tagged.ids[1:] == plain.ids
    assert tagged.offsets == ((0, 0), *plain.offsets)
    assert tokenizer.encode("wörld", "it") == plain


def test_special_tokens_in_the_text_are_ordinary_text(tokenizer: Tokenizer) -> None:
    for text in ("</s>", "<pad>", "<s> a </s>", "<0x41>"):
        assert not {0, 2, 3} & set(tokenizer.encode(text).ids[:-1])
        assert tokenizer.decode(tokenizer.encode_target(text)) == text


def test_a_vocabulary_renumbers_the_pieces(file: Path, tokenizer: Tokenizer) -> None:
    pieces = {
        tokenizer.encode(text).pieces[i]
        for text in made_up_text(seed=20, lines=50)
        for i in range(2)
    }
    vocabulary = {
        piece: i * 2 for i, piece in enumerate(["<unk>", "</s>", *sorted(pieces - {"</s>"})])
    }
    renumbered = Tokenizer(file, vocabulary=vocabulary, unk_id=0, eos_id=2)
    for text in made_up_text(seed=20, lines=20):
        plain, ids = tokenizer.encode(text), renumbered.encode(text)
        assert ids.offsets == plain.offsets
        assert ids.ids == tuple(vocabulary.get(piece, 0) for piece in plain.pieces)
    assert (
        renumbered.decode([vocabulary[piece] for piece in vocabulary if piece.isalpha()][:3]) != ""
    )


def test_each_vocabulary_has_its_end_of_sentence(file: Path) -> None:
    source, target = {"</s>": 5, "<unk>": 6, "a": 0}, {"</s>": 1, "<unk>": 2, "a": 0}
    tokenizer = Tokenizer(file, vocabulary=source, target_vocabulary=target, unk_id=2, eos_id=1)
    assert tokenizer.encode("東").ids[-1] == 5
    assert set(tokenizer.encode("東").ids[:-1]) == {6}
    assert set(tokenizer.encode_target("東")) == {2}


def test_a_tag_outside_the_vocabulary_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match=">>xx<<, the tag for it"):
        Tokenizer(file, tags={"it": ">>xx<<"})


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"a": "b"}', '{"a": -1}', '{"a": true}', "{", "[" * 100_000]
)
def test_invalid_vocabulary_files_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(ValueError, match=r"vocab\.json"):
        load_vocabulary(tmp_path / "vocab.json")
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 1}))
    assert load_vocabulary(tmp_path / "vocab.json") == {"a": 1}


def test_pieces_of_the_source_model_are_decoded_with_spaces(file: Path, tmp_path: Path) -> None:
    """A shared vocabulary has pieces that only the source's SentencePiece model knows."""
    train_sentencepiece(tmp_path / "target.model", seed=77, size=190)
    vocabulary = {
        piece: i for i, piece in enumerate(["<unk>", "</s>", "▁Xyz", "q", "▁Wort", "▁", "ß", "."])
    }
    shared = Tokenizer(file, tmp_path / "target.model", vocabulary=vocabulary)
    assert shared.decode([2, 3, 4, 6, 7]) == "Xyzq Wortß."
    assert shared.decode([5, 2, 4]) == "Xyz Wort"
    decoding = shared.decode_pieces([2, 3, 4, 6, 7])
    assert decoding.text == "Xyzq Wortß."
    assert [decoding.text[start:end] for start, end in decoding.offsets] == [
        "Xyz",
        "q",
        "Wort",
        "ß",
        ".",
    ]


def test_the_tag_of_the_source_language_is_first_and_first_tokens_are_not_in_the_source(
    file: Path,
) -> None:
    languages = Tokenizer(file, source_tags=TAGS, first_tokens=TAGS)
    plain = languages.encode("abc").ids
    assert languages.encode("abc", "fr", "de").ids == (
        languages.encode("abc", None, "de").ids[0],
        *plain,
    )
    assert languages.encode("abc", "fr", "de").pieces[0] == ">>de<<"
    assert languages.first_token("fr") == languages.encode("abc", None, "fr").ids[0]
    assert languages.first_token("en") is None
    with pytest.raises(ValueError, match="first token"):
        Tokenizer(file, first_tokens={"it": ">>it<<"})


def test_the_form_of_address_stands_after_the_tag(tokenizer):
    text = "a text"
    plain = tokenizer.encode(text, "de")
    symbols = (FORMAL, INFORMAL)
    for symbol in symbols:
        formal = tokenizer.encode(text, "de", symbol=symbol)
        assert formal.pieces == (">>de<<", symbol, *plain.pieces[1:])
        assert formal.offsets == ((0, 0), *plain.offsets)
        assert tokenizer.symbol_of(formal.ids, "de", "en", symbols) == symbol
    assert (
        tokenizer.symbol_of(plain.ids, "de", "en", symbols)
        == tokenizer.symbol_of((), "de", "en", symbols)
        == ""
    )
    assert (
        tokenizer.symbol_of(tokenizer.encode(FORMAL + text, "de").ids, "de", "en", symbols) == ""
    )  # a text is no option


@given(
    words=st.lists(
        st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=8), max_size=6
    )
)
def test_beginnings_are_the_first_visible_pieces_of_words(
    words: list[str], tokenizer: Tokenizer
) -> None:
    written = [
        [i for i in tokenizer.encode_target(word) if tokenizer.piece(i) != "\u2581"]
        for word in words
    ]
    found = tokenizer.beginnings(words)
    assert len(found) == len(words)
    assert all(ids[0] == first for ids, first in zip(written, found, strict=True) if ids)

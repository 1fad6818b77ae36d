"""Cross-attention and words of given sentence pairs: the model force-decodes one sentence from the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.alignment.gold import Links, Written, moved
from model.analysis.attention_alignment import AlignmentLayer, Word, alignment_map, to_words, words
from model.analysis.pair_alignment import (
    Scores,
    WordedSentence,
    alignment_probabilities,
    links,
    spellings,
    word_evidence,
)
from model.analysis.types import AttentionMaps
from model.model_folder import ModelFolder


@dataclass(frozen=True, slots=True)
class Maps:
    """The attention of force-decoding a pair and the words of both sides. The `numbers` are the indices of these words in
    the written sentence (None for tags and ends)."""

    maps: AttentionMaps
    source: tuple[Word, ...]
    target: tuple[Word, ...]
    source_numbers: tuple[int | None, ...]
    target_numbers: tuple[int | None, ...]

    def contributions(self, layer: AlignmentLayer, shape: tuple[int, int]) -> Scores:
        """Returns what source words contribute to target words, shape (source words, target words)."""
        return self._between(alignment_map(self.maps, layer), shape)

    def weights(self, layer: AlignmentLayer, head: int, shape: tuple[int, int]) -> Scores:
        """Returns the weights of a head between words, shape (source words, target words)."""
        soft = self.maps.cross[layer.layer, head]
        return self._between(np.concatenate([soft[1:], soft[-1:]]) if layer.shift else soft, shape)

    def _between(self, soft: Scores, shape: tuple[int, int]) -> Scores:
        by_word = to_words(soft, self.target, self.source)
        found = np.zeros(shape, dtype=np.float32)
        for t, j in enumerate(self.target_numbers):
            for s, i in enumerate(self.source_numbers):
                if i is not None and j is not None:
                    found[i, j] += by_word[t, s]
        return found


class Aligner:
    """Aligns sentence pairs with the model of a folder."""

    def __init__(self, folder: ModelFolder, threads: int) -> None:
        import torch

        from model.checkpoint import load_model

        torch.set_num_threads(threads)
        self.transformer = load_model(folder)
        self.tokenizer = folder.load_tokenizer()

    def maps(self, source: Written, target: Written, language: str) -> Maps:
        """Returns the attention of force-decoding `target` in `language`. Raises ValueError for a pair that is too long
        for the model."""
        from model.backends.torch.attention_maps import attention_maps

        encoding = self.tokenizer.encode(source.text, language)
        ids = self.tokenizer.encode_target(target.text)
        decoding = self.tokenizer.decode_pieces(ids)
        spans = target.spans
        if decoding.text != target.text:  # normalised characters: offsets refer to the text of the model
            spans = moved(spans, target.text, decoding.text)
        found = attention_maps(self.transformer, encoding.ids, ids)
        source_words = words(source.text, encoding.pieces, encoding.offsets, source.spans)
        target_words = words(decoding.text, decoding.pieces, decoding.offsets, spans)
        end = Word("</s>", len(decoding.text), len(decoding.text), (len(ids),))
        return Maps(
            found,
            source_words,
            (*target_words, end),
            word_indices(source_words, source.spans),
            (*word_indices(target_words, spans), None),
        )

    def combined(self, first: Written, second: Written, languages: tuple[str, str], attention: Scores) -> Links:
        """Returns (first word, second word) links as the server aligns them. `attention` (first words, second words)
        are the contributions from force-decoding the second sentence."""
        from model.backends.torch.word_reading import read_words

        one, one_numbers = self._worded(first, languages[1])
        other, other_numbers = self._worded(second, languages[0])
        known = read_words(self.transformer, one, other.beginnings)
        back = read_words(self.transformer, other, one.beginnings)
        texts = [_texts(side, numbers) for side, numbers in ((first, one_numbers), (second, other_numbers))]
        seen = attention[np.ix_(one_numbers, other_numbers)]
        found = links(alignment_probabilities(word_evidence(one, other, known, back), seen, *texts))
        return {(one_numbers[i], other_numbers[j]) for i, j in found}

    def _worded(self, sentence: Written, language: str) -> tuple[WordedSentence, list[int]]:
        """Returns the words that have pieces, and their indices in the sentence."""
        encoding = self.tokenizer.encode(sentence.text, language)
        found = words(sentence.text, encoding.pieces, encoding.offsets, sentence.spans)
        runs, numbers = [], []
        for word, number in zip(found, word_indices(found, sentence.spans), strict=True):
            if number is not None:
                runs.append((word.pieces[0], word.pieces[-1] + 1))
                numbers.append(number)
        beginnings = self.tokenizer.beginnings(spellings(_texts(sentence, numbers)))
        return WordedSentence(encoding.ids, tuple(runs), beginnings), numbers


def by_attention(first: Written, second: Written, attention: Scores) -> Links:
    """Returns (first word, second word) links by the contributions alone, as the server aligns them."""
    texts = [_texts(side, range(len(side.spans))) for side in (first, second)]
    return set(links(alignment_probabilities(None, attention, *texts)))


def _texts(sentence: Written, numbers: Sequence[int]) -> list[str]:
    return [sentence.text[slice(*sentence.spans[number])] for number in numbers]


def word_indices(found: Sequence[Word], spans: Sequence[tuple[int, int]]) -> tuple[int | None, ...]:
    """Returns the index in `spans` of each word, or None."""
    numbers = {span: number for number, span in reversed(list(enumerate(spans)))}
    return tuple(numbers.get((word.start, word.end)) if not word.special else None for word in found)

"""What a backend knows about the words of a pair of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.analysis.pair_alignment import WordedSentence, WordEvidence, word_evidence
from model.backends.cpu.backend import CpuBackend

if TYPE_CHECKING:
    from server.engine.worker.backend_loader import Backend


def evidence(backend: Backend, first: WordedSentence, second: WordedSentence) -> WordEvidence:
    """Which words of two sentences fit, from what decodes. Raises ValueError for what the model cannot read."""
    if isinstance(backend, CpuBackend):
        known, back = backend.read_words(first, second.beginnings), backend.read_words(second, first.beginnings)
    else:
        from model.backends.torch.word_reading import read_words

        known = read_words(backend.transformer, first, second.beginnings)
        back = read_words(backend.transformer, second, first.beginnings)
    return word_evidence(first, second, known, back)

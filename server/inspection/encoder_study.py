"""Studies of an encoder on one sentence: what its layers add and what the order of its words changes.

The PyTorch model computes them in a process of its own, `model.analysis.encoder_study`, so translations do not wait.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from model.analysis.attention_alignment import Word, words
from model.convert.sample_sentences import SENTENCES
from model.model_folder import FolderError, read_folder
from server.errors import InvalidRequest, TextTooLong, Unavailable
from server.inspection.inspector import Inspector
from server.translation.time_limit import time_limit

PARAMETERS_LIMIT = 100_000_000
"""Largest encoder that is studied, in weights of its matrices: each study reads all of them from the disk."""


async def study_encoder(
    inspector: Inspector, text: str, source: str, target: str, deadline: float | None
) -> dict[str, Any]:
    """Returns the study of one sentence as in EncoderAnswer. Counts as an attention request. Raises InvalidRequest for an
    encoder that is too large and for directions that need two models, TextTooLong, Overloaded, DeadlineExceeded, Unavailable."""
    if find_spec("torch") is None:
        raise Unavailable("Studies of an encoder need PyTorch, which is not installed on this server.")
    subject = inspector.given(text, "", source, target)
    leg, text = subject.leg, subject.pair.source_text
    encoding = leg.encode(text)
    limit = min(inspector.token_limit, leg.model.max_length)
    if len(encoding.ids) > limit:
        raise TextTooLong(f"The encoder is studied with at most {limit} tokens; this sentence has {len(encoding.ids)}.")
    samples = [leg.encode(sentence) for sentence in SENTENCES.get(leg.source, ())]
    task = {
        "folder": str(leg.model.folder),
        "ids": encoding.ids,
        "order": reversed_words(words(text, encoding.pieces, encoding.offsets)),
        "samples": [(x.ids, [i for i, (start, end) in enumerate(x.offsets) if start < end]) for x in samples],
    }
    try:
        config = read_folder(leg.model.folder).model
        weights = config.encoder_layers * config.d_model * (4 * config.d_model + 2 * config.d_ff)
        if weights > PARAMETERS_LIMIT:
            raise InvalidRequest(
                f"Only encoders of at most {PARAMETERS_LIMIT // 1_000_000} million weights are studied; this one has "
                f"{weights / 1e6:.0f} million."
            )
        async with time_limit(deadline):
            with inspector.admission.admit(1, deadline):
                study = await inspector.encoders.run(task)
    except (FolderError, MemoryError, TimeoutError):
        raise Unavailable("The model's weights cannot be read.") from None
    return {
        "model": leg.model.name,
        "language": {"source": leg.source, "target": leg.target},
        "source": {"text": text, "pieces": encoding.pieces, "offsets": encoding.offsets},
        **study,
    }


def reversed_words(sentence: tuple[Word, ...]) -> list[int]:
    """Returns the pieces of a sentence with its words in reverse order. Pieces without text keep their place."""
    backwards = iter([word for word in reversed(sentence) if not word.special])
    return [i for word in sentence for i in (word if word.special else next(backwards)).pieces]

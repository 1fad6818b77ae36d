"""Studies an encoder on one sentence: the engine shows what its layers add, and a separate process
(`model.analysis.encoder_study`) what the order of the words changes."""

from __future__ import annotations

import asyncio
from typing import Any

from model.analysis.attention_alignment import words
from model.analysis.encoder_study import SENTENCES
from model.analysis.types import Followed
from server.access.authentication import Caller
from server.errors import InvalidRequest, TextTooLong, Unavailable
from server.inspection.inspector import ANYBODY, Inspector
from server.inspection.types import InspectedSentence

BYTES_LIMIT = 1_000_000_000
"""Largest weight files of a model that is studied: each study reads all of them."""

_SAMPLES = 24
"""Number of sentences on which the places of pieces are read."""
_LAYERS = {
    "carried_past_attention": "self.carried",
    "attention": "self.added",
    "carried_past_feed_forward": "feed_forward.carried",
    "feed_forward": "feed_forward.added",
    "active": "feed_forward.share",
}
"""Fields of a layer in EncoderAnswer, and their tensors."""


async def study_encoder(
    inspector: Inspector,
    text: str,
    source: str,
    target: str,
    deadline: float | None,
    caller: Caller = ANYBODY,
) -> dict[str, Any]:
    """Returns the study of one sentence as in EncoderAnswer. Counts as an attention request. Raises
    InvalidRequest for too large a model and for directions that need two, TextTooLong, Overloaded,
    TimeoutError, Unavailable."""
    subject = inspector.given(text, "", source, target)
    leg, text = subject.leg, subject.pair.source_text
    encoding = leg.encode(text)
    limit = min(inspector.token_limit, leg.model.max_length)
    if len(encoding.ids) > limit:
        raise TextTooLong(
            f"The encoder is studied with at most {limit} tokens; this sentence has "
            f"{len(encoding.ids)}."
        )
    if leg.model.bytes > BYTES_LIMIT:
        raise InvalidRequest(
            f"Only encoders of models with at most {BYTES_LIMIT / 1e9:.0f} GB of weights are "
            "studied."
        )
    samples = [leg.encode(sentence) for sentence in SENTENCES.get(leg.source, ())[:_SAMPLES]]
    sentence = words(text, encoding.pieces, encoding.offsets)
    # pieces without text keep their place
    backwards = iter([word for word in reversed(sentence) if not word.special])
    task = {
        "folder": str(leg.model.folder),
        "ids": encoding.ids,
        "order": [
            i for word in sentence for i in (word if word.special else next(backwards)).pieces
        ],
        "samples": [
            (x.ids, [i for i, (start, end) in enumerate(x.offsets) if start < end]) for x in samples
        ],
    }
    async with asyncio.timeout_at(deadline):
        with inspector.admit(caller, deadline, 2 * limit):
            try:
                study = await inspector.encoders.run(task, caller.name)
            except (MemoryError, TimeoutError):
                raise Unavailable("The model's weights cannot be read.") from None
    layers = [
        await _layer(inspector, subject, layer, deadline, caller)
        for layer in range(study.pop("layers"))
    ]
    return {
        "model": leg.model.name,
        "language": {"source": leg.source, "target": leg.target},
        "source": {"text": text, "pieces": encoding.pieces, "offsets": encoding.offsets},
        "layers": layers,
        **study,
    }


async def _layer(
    inspector: Inspector,
    subject: InspectedSentence,
    layer: int,
    deadline: float | None,
    caller: Caller,
) -> dict[str, list[float]]:
    choice = Followed("encoder", layer, names=(*_LAYERS.values(),)).choice
    result = await inspector.attend(subject, deadline, caller=caller, choice=choice, method=None)
    tensors = result.attention.maps.tensors or {}
    return {name: tensors[tensor].tolist() for name, tensor in _LAYERS.items()}

"""One trial sentence: finite weights can still overflow when they are multiplied."""

from __future__ import annotations

import numpy as np

from model.config import ModelConfig
from model.model_folder import FolderError
from model.search.base import Backend

_TOKENS, _STEPS = 12, 4


def check_trial_sentence(backend: Backend, config: ModelConfig) -> None:
    """Translates the first tokens of one made-up sentence in slot 0. Raises FolderError unless all scores are
    finite."""
    vocabulary = min(config.vocab_size, config.source_vocab_size or config.vocab_size)
    source = [*range(0, vocabulary, 1 + vocabulary // _TOKENS)][: config.max_length - 1]
    backend.prefill([[*source, min(config.eos_id, vocabulary - 1)]], [0])
    token = config.decoder_start_id
    try:
        for _ in range(min(_STEPS, config.max_length)):
            output = backend.step([0], [token], 1, [-1])
            if not np.isfinite(output.scores).all():
                raise FolderError("The weights give no finite scores for a trial sentence.")
            token = int(output.ids[0, 0])
    finally:
        backend.free([0])

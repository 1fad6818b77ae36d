"""Word readings in PyTorch: the states of a sentence after the last encoder layer, and the first tokens that the
decoder predicts per word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from model.analysis.pair_alignment import WordedSentence, WordReading, check_words
from model.backends.torch.inputs import pad_ids, to_array
from model.transformer import Transformer


@torch.inference_mode()
def read_words(transformer: Transformer, sentence: WordedSentence, wanted: Sequence[int]) -> WordReading:
    """Returns the states after the last encoder layer, and for each word the log-probabilities of the `wanted` tokens.

    These are predicted in the decoder's first step, where cross-attention sees only the pieces of that word. Raises
    ValueError for what the model cannot read."""
    config = transformer.config
    check_words(config, sentence, wanted)
    transformer.eval()
    ids, mask = pad_ids([sentence.ids], config.pad_id, next(transformer.parameters()).device)  # (1, S)
    last: list[Tensor] = []  # the states (S, d_model) before the final norm of a pre-norm model
    with transformer.encoder[-1].register_forward_hook(lambda _, __, output: last.append(output[0])):
        memory = transformer.encode(ids, mask)[0]  # (S, d_model)
    states = to_array(last[0])
    if not sentence.words:
        return WordReading(states, np.empty((0, len(wanted)), dtype=np.float32))
    pieces, seen = _pieces(memory, sentence.words)
    start = torch.full((len(pieces), 1), config.decoder_start_id, device=memory.device)
    said = transformer.logits(transformer.decode(pieces, seen, start))[:, 0]  # (W, vocabulary)
    return WordReading(states, to_array(said.float().log_softmax(dim=-1)[:, list(wanted)]))


def _pieces(memory: Tensor, words: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Returns each word's pieces, memory (S, d_model) -> (W, P, d_model) with P the most pieces of a word, and their
    mask (W, P)."""
    most = max(end - first for first, end in words)
    places = torch.tensor(
        [[min(first + i, end - 1) for i in range(most)] for first, end in words], device=memory.device
    )
    lengths = torch.tensor([end - first for first, end in words], device=memory.device)
    return memory[places], torch.arange(most, device=memory.device) < lengths[:, None]

"""Word readings in PyTorch: the encoder states of a sentence, and the first tokens that the decoder predicts per
word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from model.analysis.pair_alignment import Scores, WordedSentence, WordReading, check_words
from model.backends.torch.inputs import pad_ids
from model.transformer import Transformer


@torch.inference_mode()
def read_words(transformer: Transformer, sentence: WordedSentence, wanted: Sequence[int]) -> WordReading:
    """Returns encoder states, and for each word the log-probabilities of the `wanted` tokens in the decoder's first
    step, where cross-attention sees only the pieces of that word. Raises ValueError for what the model cannot read."""
    config = transformer.config
    check_words(config, sentence, wanted)
    transformer.eval()
    ids, mask = pad_ids([sentence.ids], config.pad_id, next(transformer.parameters()).device)  # (1, S)
    with _recorded(transformer) as layers:
        memory = transformer.encode(ids, mask)[0]  # (S, d_model)
    states = torch.stack(layers)
    if not sentence.words:
        return WordReading(_array(states), np.empty((0, len(wanted)), dtype=np.float32))
    pieces, seen = _pieces(memory, sentence.words)
    start = torch.full((len(pieces), 1), config.decoder_start_id, device=memory.device)
    said = transformer.logits(transformer.decode(pieces, seen, start))[:, 0]  # (W, vocabulary)
    return WordReading(_array(states), _array(said.float().log_softmax(dim=-1)[:, list(wanted)]))


@contextmanager
def _recorded(transformer: Transformer) -> Iterator[list[Tensor]]:
    """Records the output (S, d_model) of every encoder layer while the block runs."""
    layers: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, output: layers.append(output[0][0])) for layer in transformer.encoder
    ]
    try:
        yield layers
    finally:
        for hook in hooks:
            hook.remove()


def _pieces(memory: Tensor, words: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Returns each word's pieces, memory (S, d_model) -> (W, P, d_model) with P the most pieces of a word, and their
    mask (W, P)."""
    most = max(end - first for first, end in words)
    places = torch.tensor(
        [[min(first + i, end - 1) for i in range(most)] for first, end in words], device=memory.device
    )
    lengths = torch.tensor([end - first for first, end in words], device=memory.device)
    return memory[places], torch.arange(most, device=memory.device) < lengths[:, None]


def _array(tensor: Tensor) -> Scores:
    return np.ascontiguousarray(tensor.float().cpu().numpy())

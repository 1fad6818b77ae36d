"""The PyTorch backend: prefill and decode steps of a Transformer with a KVCache, attention maps and
word readings."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from model.analysis.pair_alignment import WordedSentence, WordReading, check_words
from model.analysis.types import EVERYTHING, AttentionMaps, Head, HeadMask, MapChoice
from model.backends.interface import ForcedPasses
from model.backends.torch.attention_maps import attention_maps
from model.backends.torch.inputs import head_gates, pad_ids, to_array
from model.kv_cache import KVCache
from model.search.backend_interface import MaskedHeads, Restriction, StepOutput, with_forced
from model.transformer import HeadGates, Transformer


class TorchBackend(ForcedPasses):
    """Runs a Transformer in evaluation mode on any device, without gradients and without
    shortlists, which save no time here."""

    def __init__(self, transformer: Transformer, slots: int) -> None:
        parameter = next(transformer.parameters())
        self.transformer, self.slots = transformer.eval(), slots
        self.device = parameter.device
        self.cache = KVCache(transformer.config, slots, parameter.dtype, self.device)
        self._masked: dict[int, MaskedHeads] = {}

    @torch.inference_mode()
    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Sequence[MaskedHeads] = (),
        restrictions: Sequence[Restriction] = (),
    ) -> None:
        ids, mask = pad_ids(sources, self.transformer.config.pad_id, self.device)
        for slot, masked in zip(slots, masked_heads or [()] * len(slots), strict=True):
            self._set_mask(slot, masked)
        memory = self.transformer.encode(ids, mask, self._gates(slots))
        self.transformer.write_cross(
            memory, [len(source) for source in sources], self.cache, list(slots)
        )

    @torch.inference_mode()
    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        inputs = torch.tensor(tokens, device=self.device)
        logits = self.transformer.decode_step(inputs, self.cache, list(slots), self._gates(slots))
        return choose(logits, candidates, forced)

    @torch.inference_mode()
    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        self.cache.reorder(list(targets), list(origins))
        if self._masked:
            masked = [self._masked.get(origin, ()) for origin in origins]
            for target, mask in zip(targets, masked, strict=True):
                self._set_mask(target, mask)

    @torch.inference_mode()
    def free(self, slots: Sequence[int], *, broken: bool = False) -> None:
        """Releases the rows. What `broken` ones stored becomes 0: a mask gives NaN a weight of 0,
        which is NaN."""
        self.cache.free(list(slots))
        if broken:
            self.cache.clear(list(slots))
        for slot in slots:
            self._masked.pop(slot, None)

    shortlist = ""

    def has_shortlist(self, digest: str) -> bool:
        return True

    @property
    def details(self) -> Mapping[str, str]:
        """Device and dtype are reported by the caller."""
        return {"kernels": "torch"} if self.device.type == "cuda" else {}

    @property
    def gpu_bytes(self) -> int:
        """Memory of weights and cache on a GPU."""
        tensors = [*self.transformer.parameters(), *self.cache.tensors()]
        return sum(tensor.nbytes for tensor in tensors if tensor.device.type != "cpu")

    def attention_passes(
        self,
        source: Sequence[int],
        target: Sequence[int],
        masked_heads: HeadMask = (),
        vectors_of: Head | None = None,
        shortlist: str | None = None,
        choice: MapChoice = EVERYTHING,
    ) -> Generator[None, None, AttentionMaps]:
        yield from ()
        return attention_maps(
            self.transformer, source, target, masked_heads, vectors_of, choice.followed
        )

    def soft_maps(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], choice: MapChoice
    ) -> list[AttentionMaps]:
        return [attention_maps(self.transformer, source, target) for source, target in pairs]

    def read_words(
        self, sentences: Sequence[WordedSentence], wanted: Sequence[Sequence[int]]
    ) -> list[WordReading]:
        return [
            read_words(self.transformer, *arguments)
            for arguments in zip(sentences, wanted, strict=True)
        ]

    def close(self) -> None:
        """Does nothing: Python frees the memory."""

    def _set_mask(self, slot: int, masked: MaskedHeads) -> None:
        if masked:
            self._masked[slot] = masked
        else:
            self._masked.pop(slot, None)

    def _gates(self, slots: Sequence[int]) -> HeadGates | None:
        if not self._masked.keys() & set(slots):
            return None
        return head_gates(self.transformer, [self._masked.get(slot, ()) for slot in slots])


def choose(logits: Tensor, candidates: int, forced: Sequence[int]) -> StepOutput:
    """Returns the likeliest tokens of logits (B, V): ids and natural log-probabilities (B, C),
    forced tokens in column 0."""
    scores = torch.log_softmax(logits.float(), dim=-1)
    if candidates == 1:
        best, ids = scores.max(dim=-1, keepdim=True)
    else:
        best, ids = scores.topk(min(candidates, scores.shape[-1]), dim=-1)
    output = StepOutput(ids.cpu().numpy(), best.cpu().numpy())
    if not any(token >= 0 for token in forced):
        return output
    wanted = torch.tensor(forced, device=scores.device).clamp(min=0)[:, None]
    return with_forced(output, forced, scores.gather(1, wanted)[:, 0].cpu().numpy())


@torch.inference_mode()
def read_words(
    transformer: Transformer, sentence: WordedSentence, wanted: Sequence[int]
) -> WordReading:
    """Returns the states after the last encoder layer, and for each word the log-probabilities of
    the `wanted` tokens in the decoder's first step, where cross-attention sees only the pieces of
    that word. Raises ValueError for what the model cannot read."""
    config = transformer.config
    check_words(config, sentence, wanted)
    transformer.eval()
    # (1, S)
    ids, mask = pad_ids([sentence.ids], config.pad_id, next(transformer.parameters()).device)
    last: list[Tensor] = []  # the states (S, d_model) before the final norm of a pre-norm model
    with transformer.encoder[-1].register_forward_hook(
        lambda _, __, output: last.append(output[0])
    ):
        memory = transformer.encode(ids, mask)[0]  # (S, d_model)
    states = to_array(last[0])
    if not sentence.words:
        return WordReading(states, np.empty((0, len(wanted)), dtype=np.float32))
    pieces, seen = _pieces(memory, sentence.words)
    start = torch.full((len(pieces), 1), config.decoder_start_id, device=memory.device)
    logits = transformer.logits(transformer.decode(pieces, seen, start))[:, 0]  # (W, vocabulary)
    return WordReading(states, to_array(logits.float().log_softmax(dim=-1)[:, list(wanted)]))


def _pieces(memory: Tensor, words: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Returns each word's pieces, memory (S, d_model) -> (W, P, d_model) with P the most pieces of
    a word, and their mask (W, P)."""
    most = max(end - first for first, end in words)
    places = torch.tensor(
        [[min(first + i, end - 1) for i in range(most)] for first, end in words],
        device=memory.device,
    )
    lengths = torch.tensor([end - first for first, end in words], device=memory.device)
    return memory[places], torch.arange(most, device=memory.device) < lengths[:, None]

"""The torch backend of search: prefill and decode steps of a Transformer over a KVCache, on any device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.kv_cache import KVCache
from model.search.base import StepOutput
from model.transformer import HeadGates, Transformer

MaskedHeads = tuple[tuple[str, int, int], ...]


class TorchBackend:
    """Runs a Transformer in evaluation mode. All of its methods run without gradients."""

    def __init__(self, transformer: Transformer, slots: int) -> None:
        parameter = next(transformer.parameters())
        self.transformer, self.slots = transformer.eval(), slots
        self.device = parameter.device
        self.cache = KVCache(transformer.config, slots, parameter.dtype, self.device)
        self._masked: dict[int, MaskedHeads] = {}

    @torch.inference_mode()
    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encode the sources as one batch and write their cross-attention keys and values."""
        ids, mask = pad_ids(sources, self.transformer.config.pad_id, self.device)
        for slot, masked in zip(slots, masked_heads or [()] * len(slots), strict=True):
            self._set_mask(slot, masked)
        memory = self.transformer.encode(ids, mask, self._gates(slots))
        self.transformer.write_cross(memory, [len(source) for source in sources], self.cache, list(slots))

    @torch.inference_mode()
    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        """One token for each row; the `candidates` likeliest next tokens of each."""
        inputs = torch.tensor(tokens, device=self.device)
        logits = self.transformer.decode_step(inputs, self.cache, list(slots), self._gates(slots))
        return choose(logits, candidates, forced)

    @torch.inference_mode()
    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Row targets[i] continues from row origins[i]."""
        masked = [self._masked.get(origin, ()) for origin in origins]
        self.cache.reorder(list(targets), list(origins))
        for target, mask in zip(targets, masked, strict=True):
            self._set_mask(target, mask)

    def free(self, slots: Sequence[int]) -> None:
        """Forget the rows."""
        self.cache.free(list(slots))
        for slot in slots:
            self._masked.pop(slot, None)

    def _set_mask(self, slot: int, masked: MaskedHeads) -> None:
        if masked:
            self._masked[slot] = masked
        else:
            self._masked.pop(slot, None)

    def _gates(self, slots: Sequence[int]) -> HeadGates | None:
        if not any(slot in self._masked for slot in slots):
            return None
        return head_gates(self.transformer, [self._masked.get(slot, ()) for slot in slots])


def choose(logits: Tensor, candidates: int, forced: Sequence[int]) -> StepOutput:
    """Likeliest tokens of logits (B, V): ids and natural log-probabilities (B, C), forced tokens in column 0."""
    scores = torch.log_softmax(logits.float(), dim=-1)
    if candidates == 1:
        best, ids = scores.max(dim=-1, keepdim=True)
    else:
        best, ids = scores.topk(min(candidates, scores.shape[-1]), dim=-1)
    if any(token >= 0 for token in forced):
        rows = [row for row, token in enumerate(forced) if token >= 0]
        wanted = torch.tensor([forced[row] for row in rows], device=scores.device)
        index = torch.tensor(rows, device=scores.device)
        ids[index], best[index] = ids[index].roll(1, dims=1), best[index].roll(1, dims=1)
        ids[index, 0], best[index, 0] = wanted, scores[index, wanted]
    return StepOutput(ids.cpu().numpy(), best.cpu().numpy())


def pad_ids(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one rectangle (B, S) and its mask (B, S), True at tokens."""
    width = max(len(row) for row in rows)
    ids = to_device(torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows]), device)
    lengths = to_device(torch.tensor([len(row) for row in rows]), device)
    return ids, torch.arange(width, device=device)[None, :] < lengths[:, None]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A host's tensor on `device`. To a GPU it is copied from page-locked memory when the GPU comes to it: the host goes on."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def head_gates(transformer: Transformer, masked: Sequence[MaskedHeads]) -> HeadGates:
    """Gates (B, L, H) that switch off the heads each row names as (kind, layer, head). Raises ValueError for unknown ones."""
    config = transformer.config
    parameter = next(transformer.parameters())
    shapes = {
        "encoder": (len(masked), config.encoder_layers, config.heads),
        "decoder": (len(masked), config.decoder_layers, config.heads),
        "cross": (len(masked), config.decoder_layers, config.heads),
    }
    gates = {kind: torch.ones(shape, dtype=parameter.dtype, device=parameter.device) for kind, shape in shapes.items()}
    for row, heads in enumerate(masked):
        for kind, layer, head in heads:
            if kind not in gates or not (0 <= layer < shapes[kind][1] and 0 <= head < shapes[kind][2]):
                raise ValueError(f"There is no {kind} head {head} in layer {layer}.")
            gates[kind][row, layer, head] = 0.0
    return HeadGates(gates["encoder"], gates["decoder"], gates["cross"])

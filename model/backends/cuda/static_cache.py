"""Key-value cache at fixed addresses, as CUDA graphs require."""

from __future__ import annotations

import torch
from torch import Tensor

from model.backends.torch.inputs import to_device
from model.config import ModelConfig
from model.kv_cache import KVCache

_FIRST_ROOM = 128


class StaticCache(KVCache):
    """A KVCache with fixed storage and with lengths on the device.

    `view(positions)` sets how much of it the next step uses. Inactive slots write to their next position, which is
    overwritten before it is read; their lengths do not change.
    """

    def __init__(self, config: ModelConfig, slots: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(config, slots, dtype, device)
        self.room = 0
        self._longest = config.max_length
        self.ensure(min(_FIRST_ROOM, config.max_length))
        self.live = torch.zeros(slots, dtype=torch.long, device=device)  # lengths on the device
        self.sources = torch.ones(slots, dtype=torch.long, device=device)  # at least 1: a softmax over nothing is NaN
        self.active = torch.zeros(slots, dtype=torch.long, device=device)  # 1 for the active slots of a step
        self._newcomers = torch.zeros(0, dtype=torch.long, device=device)
        self._every = torch.arange(slots, device=device)
        self._seen = 0

    def ensure(self, positions: int) -> None:
        """Makes room for `positions`. Where the storage moves, earlier graphs are invalid. Where memory is short, an error
        leaves the cache as it was."""
        if positions <= self.room:
            return
        room = min(self._longest, max(positions, 2 * self.room))
        held = self.self_keys, self.self_values, self.cross_keys, self.cross_values
        self.self_keys, self.self_values, self.cross_keys, self.cross_values = [
            self._moved(tensor, room) for tensor in held
        ]
        self.room = room

    def view(self, positions: int) -> None:
        """Sets the number of positions that the next step uses."""
        self._seen = positions

    def write_cross(self, layer: int, slots: list[int], keys: Tensor, values: Tensor) -> None:
        """Writes the cross-attention keys and values (B, H, S, D) of new sources. Ignores rows beyond `slots`
        (padding)."""
        if layer == 0:
            self._newcomers = to_device(torch.tensor(slots), self._device)
        self.cross_keys[layer, self._newcomers, :, : keys.shape[2]] = keys[: len(slots)]
        self.cross_values[layer, self._newcomers, :, : keys.shape[2]] = values[: len(slots)]

    def begin(self, slots: list[int], source_lengths: list[int]) -> None:
        super().begin(slots, source_lengths)
        self._mirror(slots)

    def open_step(self, rows: list[int]) -> None:
        """Does nothing: a step has all slots."""

    def step_positions(self) -> Tensor:
        return self.live

    def step_masks(self) -> tuple[Tensor, Tensor]:
        time = torch.arange(self._seen, device=self._device)[None, :]
        return time <= self.live[:, None], time < self.sources[:, None]

    def write_self(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.self_keys[layer, self._every, :, self.live] = key.to(self._dtype)
        self.self_values[layer, self._every, :, self.live] = value.to(self._dtype)
        return self.self_keys[layer, :, :, : self._seen], self.self_values[layer, :, :, : self._seen]

    def read_cross(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.cross_keys[layer, :, :, : self._seen], self.cross_values[layer, :, :, : self._seen]

    def close_step(self) -> None:
        """Adds one to the device lengths of the active slots. The backend updates the host lengths."""
        self.live += self.active

    def reorder(self, targets: list[int], origins: list[int]) -> None:
        super().reorder(targets, origins)
        self._mirror(targets)

    def free(self, slots: list[int]) -> None:
        super().free(slots)
        self._mirror(slots)

    def _mirror(self, slots: list[int]) -> None:
        """Copies the lengths of `slots` to the device, without waiting for the copy."""
        if not slots:
            return
        held = [slots, [self.lengths[slot] for slot in slots], [max(1, self.source_lengths[slot]) for slot in slots]]
        sent = to_device(torch.tensor(held), self._device)
        self.live[sent[0]], self.sources[sent[0]] = sent[1], sent[2]

    def _moved(self, tensor: Tensor, room: int) -> Tensor:
        moved = self._allocate(room)
        moved[:, :, :, : tensor.shape[3]] = tensor
        return moved

"""Key-value cache at fixed addresses, as CUDA graphs require."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from model.config import ModelConfig
from model.kv_cache import KVCache, Slots, to_device

FIRST_ROOM = 128


class StaticCache(KVCache):
    """A KVCache with fixed storage and with lengths on the device.

    `room` is its first number of positions. A step (FusedStep) has all slots. Inactive ones write
    to their next position, which is overwritten before it is read; their lengths and recurrent
    states do not change.

    A beam search copies no keys and values: `places` (slots, room) has the slot that stores each
    position of a row, `origins` (slots,) the slot of its source. A row writes to its own slot, at a
    position that no row of its beam has yet. Its moves wait for the next step with candidates,
    which makes them on the device (`follow`), because operations from the host would take as long
    as the step.
    """

    def __init__(
        self,
        config: ModelConfig,
        slots: int,
        dtype: torch.dtype,
        device: torch.device,
        room: int = FIRST_ROOM,
    ) -> None:
        super().__init__(config, slots, dtype, device)
        self.room = 0
        self._longest = config.max_length
        self._every = torch.arange(slots, device=device)
        self._parents = np.arange(slots)
        """The row that each row continues from, on the host: moves that no step has made yet."""
        self.places = torch.zeros(slots, 0, dtype=torch.long, device=device)
        self._time = self._every[:0]  # the positions of `places`
        self.ensure(min(room, config.max_length))
        # Lengths, source lengths (at least 1: a softmax over nothing is NaN) and slots of the
        # sources.
        self._rows_on_device = torch.stack(
            [torch.zeros_like(self._every), torch.ones_like(self._every), self._every]
        )
        self.live, self.sources, self.origins = self._rows_on_device
        # 1 for the active slots of a step
        self.active = torch.zeros(slots, dtype=torch.long, device=device)
        self._newcomers = torch.zeros(0, dtype=torch.long, device=device)

    def ensure(self, positions: int) -> None:
        """Makes room for `positions`. If the storage moves, earlier graphs are invalid; if memory
        is short, an error leaves the cache as it was."""
        if positions <= self.room:
            return
        room = min(self._longest, max(positions, 2 * self.room))
        held = {"cross_keys": self.cross_keys, "cross_values": self.cross_values}
        if not self._recurrent:
            held |= {"self_keys": self.self_keys, "self_values": self.self_values}
        moved = {name: self._moved(tensor, room) for name, tensor in held.items()}
        moved["_time"] = torch.arange(room, device=self._device)
        moved["places"] = torch.cat(
            [self.places, self._every[:, None].expand(-1, room - self.room)], dim=1
        )
        for name, tensor in moved.items():
            setattr(self, name, tensor)
        self.room = room

    def write_cross(self, layer: int, slots: list[int], keys: Tensor, values: Tensor) -> None:
        """Writes the cross-attention keys and values (B, H, S, D) of new sources; ignores padding
        rows."""
        if layer == 0:
            self._newcomers = to_device(torch.tensor(slots), self._device)
        self.cross_keys[layer, self._newcomers, :, : keys.shape[2]] = keys[: len(slots)]
        self.cross_values[layer, self._newcomers, :, : keys.shape[2]] = values[: len(slots)]

    def begin(self, slots: list[int], source_lengths: list[int]) -> None:
        super().begin(slots, source_lengths)
        self._mirror(slots)

    def read_state(self, layer: int) -> Tensor:
        states: Tensor = self.states[layer]
        return states

    def write_state(self, layer: int, state: Tensor) -> None:
        active = (self.active > 0)[:, None]
        self.states[layer] = torch.where(active, state.to(self._dtype), self.states[layer])

    def close_step(self) -> None:
        """Adds one to the device lengths of the active slots. The backend updates those of the
        host."""
        self.live += self.active

    def free(self, slots: list[int]) -> None:
        super().free(slots)
        self._mirror(slots)

    def take_parents(self) -> Slots:
        """Returns the row that each row continues from in the next step (slots,), and forgets the
        moves."""
        parents, self._parents = self._parents, np.arange(len(self._parents))
        return parents

    def follow(self, parents: Tensor) -> None:
        """Makes the moves of `parents` (slots,) on the device, and resets them."""
        written = self._time < self.live[parents][:, None]
        torch.where(written, self.places[parents], self._every[:, None], out=self.places)
        if self._recurrent:
            self.states.copy_(self.states[:, parents])
        self._rows_on_device.copy_(self._rows_on_device[:, parents])
        parents.copy_(self._every)

    @torch.inference_mode()
    def settle(self, slots: list[int] | Slots) -> None:
        """Makes the waiting moves if one of them is into `slots`, or from them into another row."""
        moved = self._parents != np.arange(len(self._parents))
        among = np.zeros_like(moved)
        among[slots] = True
        if (moved & (among | among[self._parents])).any():
            self.follow(to_device(torch.from_numpy(self.take_parents()), self._device))

    def _move(self, to: Slots, of: Slots) -> None:
        self._parents[to] = self._parents[of]

    @torch.inference_mode()
    def _mirror(self, slots: list[int]) -> None:
        """Copies the lengths of `slots` to the device, without waiting; they read what they
        stored."""
        if not slots:
            return
        self.settle(slots)
        rows = np.array(slots)
        sent = self._on_device(
            rows, self.lengths[rows], np.maximum(1, self.source_lengths[rows]), rows
        )
        self._rows_on_device[:, sent[0]] = sent[1:]
        self.places[sent[0]] = sent[0][:, None]

    def _moved(self, tensor: Tensor, room: int) -> Tensor:
        moved = self._allocate(room)
        moved[:, :, :, : tensor.shape[3]] = tensor
        return moved

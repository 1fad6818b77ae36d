"""Cache of the decoder's keys and values, one slot per sequence."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.config import ModelConfig

_GROWTH = 32
"""Storage grows by multiples of this number of positions: rarely, and with little unused memory."""


Slots = NDArray[np.int64]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a host tensor on `device`. A copy to a GPU is asynchronous, from page-locked
    memory."""
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )


class KVCache:
    """Storage for `slots` sequences.

    Self-attention keys and values (L, slots, H, T, D) grow by one position per step;
    cross-attention keys and values (L, slots, H, S, D) are written once per source. T and S grow to
    the longest sequence so far. A decoder with a recurrence has a state (L, slots, d_model) instead
    of self-attention keys and values.

    A step is `open_step(rows)`, then `write_self` (or `read_state` and `write_state`) and
    `read_cross` for each layer, then `close_step()`.
    """

    def __init__(
        self, config: ModelConfig, slots: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots}.")
        self.slots = slots
        self._shape = (config.decoder_layers, slots, config.heads, config.head_dim)
        self._dtype, self._device = dtype, device
        self.self_keys, self.self_values = self._allocate(0), self._allocate(0)
        self.cross_keys, self.cross_values = self._allocate(0), self._allocate(0)
        self._recurrent = config.recurrence != "none"
        width = config.d_model if self._recurrent else 0
        self.states = torch.zeros(config.decoder_layers, slots, width, dtype=dtype, device=device)
        self.lengths, self.source_lengths = np.zeros((2, slots), dtype=np.int64)
        self._rows: list[int] = []
        self._index: Tensor | slice = slice(0, 0)
        self._positions = torch.zeros(0, dtype=torch.long, device=device)
        self._live = 0

    def begin(self, slots: list[int], source_lengths: list[int]) -> None:
        """Starts new sequences in `slots` with `source_lengths` source tokens each."""
        self.lengths[slots], self.source_lengths[slots] = 0, source_lengths
        if self._recurrent:
            self.states.index_fill_(1, to_device(torch.tensor(slots), self._device), 0)

    def write_cross(self, layer: int, slots: list[int], keys: Tensor, values: Tensor) -> None:
        """Writes the cross-attention keys and values (B, H, S, D) of new sources."""
        source = keys.shape[2]
        if source > self.cross_keys.shape[3]:
            self.cross_keys, self.cross_values = [
                self._grow(tensor, source) for tensor in (self.cross_keys, self.cross_values)
            ]
        index = torch.tensor(slots, device=self._device)
        self.cross_keys[layer, index, :, :source] = keys
        self.cross_values[layer, index, :, :source] = values

    def open_step(self, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Begins a step of the slots in `rows`, at least one. Returns the position that each row
        writes (B,), and True where a row may attend: self (B, T) up to its own position, cross (B,
        S) its source tokens."""
        self._rows = rows
        run = range(rows[0], rows[0] + len(rows))
        # A slice is a view; other rows are copied.
        self._index = (
            slice(run.start, run.stop)
            if rows == list(run)
            else torch.tensor(rows, device=self._device)
        )
        lengths = self.lengths[rows]
        self._positions = torch.tensor(lengths, device=self._device)
        self._live = int(lengths.max()) + 1
        if self._live > self.self_keys.shape[3] and not self._recurrent:
            self.self_keys, self.self_values = [
                self._grow(tensor, self._live) for tensor in (self.self_keys, self.self_values)
            ]
        time = torch.arange(self._live, device=self._device)
        sources = self.source_lengths[rows]
        source = torch.arange(int(sources.max()), device=self._device)
        limits = torch.tensor(sources, device=self._device)
        return (
            self._positions,
            time[None, :] <= self._positions[:, None],
            source[None, :] < limits[:, None],
        )

    def write_self(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Appends key and value (B, H, D). Returns all keys and values (B, H, T, D) of the step's
        rows."""
        rows = torch.tensor(self._rows, device=self._device)
        self.self_keys[layer, rows, :, self._positions] = key.to(self._dtype)
        self.self_values[layer, rows, :, self._positions] = value.to(self._dtype)
        live = slice(0, self._live)
        return self.self_keys[layer][self._index][:, :, live], self.self_values[layer][self._index][
            :, :, live
        ]

    def read_state(self, layer: int) -> Tensor:
        """Returns the recurrent states (B, d_model) of the step's rows, 0 at their first
        position."""
        return self.states[layer][self._index]

    def write_state(self, layer: int, state: Tensor) -> None:
        """Replaces the recurrent states (B, d_model) of the step's rows."""
        self.states[layer][self._index] = state.to(self._dtype)

    def read_cross(self, layer: int) -> tuple[Tensor, Tensor]:
        """Returns the cross-attention keys and values (B, H, S, D) of the step's rows, S their
        longest source."""
        live = slice(0, int(self.source_lengths[self._rows].max()))
        return self.cross_keys[layer][self._index][:, :, live], self.cross_values[layer][
            self._index
        ][:, :, live]

    def close_step(self) -> None:
        """Ends the step: the length of each row grows by one."""
        self.lengths[self._rows] += 1

    def reorder(self, targets: list[int], origins: list[int]) -> None:
        """Copies sequences (beam search): slot targets[i] continues from what slot origins[i] held
        before the call."""
        to, of = np.array(targets), np.array(origins)
        moved = to != of
        if not moved.any():
            return
        to, of = to[moved], of[moved]
        self._move(to, of)
        self.lengths[to], self.source_lengths[to] = self.lengths[of], self.source_lengths[of]

    def _move(self, to: Slots, of: Slots) -> None:
        """Copies the storage of sequences from the slots `of` to the slots `to`."""
        live, source = int(self.lengths[of].max()), int(self.source_lengths[of].max())
        left, right = self._on_device(to, of)
        if self._recurrent:
            self.states[:, left] = self.states[:, right]
        else:
            for tensor in (self.self_keys, self.self_values):
                tensor[:, left, :, :live] = tensor[:, right, :, :live]
        changed = (self.source_lengths[to] != self.source_lengths[of]) | (self.lengths[to] == 0)
        if changed.any():
            left, right = self._on_device(to[changed], of[changed])
            for tensor in (self.cross_keys, self.cross_values):
                tensor[:, left, :, :source] = tensor[:, right, :, :source]

    def _on_device(self, *slots: Slots) -> Tensor:
        return to_device(torch.from_numpy(np.stack(slots)), self._device)

    def tensors(self) -> list[Tensor]:
        """Returns the storage."""
        return [self.self_keys, self.self_values, self.cross_keys, self.cross_values, self.states]

    def free(self, slots: list[int]) -> None:
        """Frees the sequences in `slots`. The storage is reused."""
        self.lengths[slots] = self.source_lengths[slots] = 0

    def clear(self, slots: list[int]) -> None:
        """Sets what these slots store to 0."""
        index = to_device(torch.tensor(slots), self._device)
        for tensor in self.tensors():
            tensor.index_fill_(1, index, 0)

    def _allocate(self, positions: int) -> Tensor:
        layers, slots, heads, width = self._shape
        return torch.zeros(
            layers, slots, heads, positions, width, dtype=self._dtype, device=self._device
        )

    def _grow(self, tensor: Tensor, positions: int) -> Tensor:
        """Returns a copy for at least `positions`, half as large again at least: constant cost per
        position."""
        room = max(positions, tensor.shape[3] * 3 // 2)
        grown = self._allocate(-(-room // _GROWTH) * _GROWTH)
        grown[:, :, :, : tensor.shape[3]] = tensor
        return grown

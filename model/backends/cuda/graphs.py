"""The CUDA backend: decode steps of fixed shape, replayed from CUDA graphs.

- A step always computes all R slots, also inactive ones. Products of other shapes may sum in
  another order; with one shape a row's result does not depend on the other rows.
- Lengths are on the device and mask unused positions, so one graph serves all mixtures of lengths.
  With the Triton kernels each row reads only its own positions.
- Next tokens are selected on the device, for greedy rows in every step, also beside beams: a row's
  token and score do not depend on what others need. Several greedy steps run without the host.

A graph is captured at the third use of its number of candidates. Without capture (on a CPU) the
same steps run operation by operation.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.backends.cuda.device import check_device
from model.backends.cuda.fused_step import KERNELS, FusedStep, SlotKernels
from model.backends.cuda.static_cache import FIRST_ROOM, StaticCache
from model.backends.torch.backend import TorchBackend
from model.backends.torch.inputs import pad_ids
from model.kv_cache import Slots, to_device
from model.search.backend_interface import MaskedHeads, Restriction, StepOutput, with_forced
from model.transformer import HeadGates, Transformer

log = logging.getLogger(__name__)
CAPTURE_AFTER = 3
"""Uses of a number of candidates before its capture, which costs as much as many steps."""
_MIN_ENCODED = 2048
"""Smallest number of padded tokens of a batch that is encoded on a GPU."""
_CANDIDATES = (1, 8, 16, 64)
_WARM_UP = 2
_GRAPHS = threading.Lock()
"""Held by captures, replays and the release of graphs: another model may be loading in another
thread, and no graph runs while memory that it may use changes hands."""
_streams: dict[torch.device, torch.cuda.Stream] = {}
"""The stream of all captures of a device. PyTorch returns the same 32 streams in turn: a new one
may be one that copies or encodes."""


class GraphedBackend(TorchBackend):
    """A TorchBackend with steps of fixed shape, replayed from CUDA graphs if `capture`. `captured`
    counts the replayed steps."""

    cache: StaticCache

    def __init__(
        self,
        transformer: Transformer,
        slots: int,
        *,
        capture: bool,
        kernels: SlotKernels = KERNELS,
        room: int = FIRST_ROOM,
    ) -> None:
        super().__init__(transformer, slots)
        parameter = next(transformer.parameters())
        self.cache = StaticCache(transformer.config, slots, parameter.dtype, self.device, room)
        self.captured = 0
        self._rows = slots
        """Rows of a step. A search may use fewer `slots`."""
        self._fused = FusedStep(self.transformer, self.cache, kernels)
        self._captures = capture
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """By the number of candidates of each row."""
        self._uses: Counter[int] = Counter()
        self._uncaptured: set[int] = set()
        """Numbers of candidates whose capture failed."""
        self._pool: Any = None
        """The memory pool of all graphs, which never run at the same time."""
        self._inputs = torch.zeros(4, slots, dtype=torch.long, device=self.device)
        self._tokens, self._forced, self.cache.active, self._parents = self._inputs
        self._forbidden: tuple[int, ...] = ()
        self._barred = torch.zeros(transformer.config.vocab_size, device=self.device)
        """-inf for the tokens that a greedy step does not choose."""

    @torch.inference_mode()
    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Sequence[MaskedHeads] = (),
        restrictions: Sequence[Restriction] = (),
    ) -> None:
        width = max(len(source) for source in sources)
        self._room(width)
        if any(masked_heads) or self.device.type == "cpu":
            super().prefill(sources, slots, masked_heads)
            return
        # Small products sum in another order than large ones: padding rows make every batch a large
        # one.
        pad = self.transformer.config.pad_id
        filling = [[pad]] * max(0, -(-_MIN_ENCODED // width) - len(sources))
        ids, mask = pad_ids([*sources, *filling], pad, self.device)
        for slot in slots:
            self._set_mask(slot, ())
        memory = self.transformer.encode(ids, mask)
        self.transformer.write_cross(
            memory, [len(source) for source in sources], self.cache, list(slots)
        )

    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        self._forbid(())
        return self._queue(slots, tokens, [candidates] * len(slots), forced, 1)()[0]

    def queue_steps(
        self,
        slots: Sequence[int],
        tokens: Sequence[int],
        steps: int,
        forbidden: Sequence[int] = (),
        candidates: Sequence[int] = (),
        forced: Sequence[int] = (),
    ) -> Callable[[], list[StepOutput]]:
        self._forbid(tuple(forbidden))
        rows = len(slots)
        return self._queue(slots, tokens, candidates or [1] * rows, forced or [-1] * rows, steps)

    @property
    def details(self) -> Mapping[str, str]:
        return {"kernels": self._fused.kernels.name}

    def close(self) -> None:
        """Ends the graphs."""
        self._release()

    # -- parts
    # ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _queue(
        self,
        slots: Sequence[int],
        tokens: Sequence[int],
        candidates: Sequence[int],
        forced: Sequence[int],
        steps: int,
    ) -> Callable[[], list[StepOutput]]:
        # Rows that pause write to their next position too.
        rows, lengths = np.array(slots), self.cache.lengths
        longest = max(
            lengths[rows].max() + steps, lengths.max() + 1, self.cache.source_lengths[rows].max()
        )
        self._room(int(longest))
        most = max(candidates)
        width = next((c for c in _CANDIDATES if c >= most), most)
        width = min(width, self.transformer.config.vocab_size)
        gates = self._gates(range(self._rows))
        self._uses[width] += gates is None
        known = width in self._graphs or width in self._uncaptured
        if gates is None and self._captures and not known and self._uses[width] >= CAPTURE_AFTER:
            self._try_to_capture(width)
        if width == 1:  # such a step makes no moves
            self.cache.settle(rows)
        self._send(rows, np.array(tokens), np.array(forced), moves=width > 1)
        with _GRAPHS:
            # (steps, R, 3 + 2 C)
            results = torch.stack([self._once(width, gates) for _ in range(steps)])
        results = results.to("cpu", non_blocking=True)
        copied = (
            torch.cuda.current_stream(self.device).record_event()
            if self.device.type == "cuda"
            else None
        )
        lengths[rows] += steps

        def read() -> list[StepOutput]:
            if copied is not None:
                copied.synchronize()
            copy = results.numpy()[:, rows]
            chosen, wanted, likeliest = (
                copy[:, :, :2],
                copy[:, :, 2].astype(np.float32),
                copy[:, :, 3:],
            )
            pairs = (
                likeliest.reshape(*copy.shape[:2], 2, -1)[..., :most]
                if most > 1
                else chosen[..., None]
            )
            alone = np.equal(candidates, 1)
            pairs[:, alone, :, :1] = chosen[:, alone, :, None]
            ids, scores = pairs[:, :, 0].astype(np.int64), pairs[:, :, 1].astype(np.float32)
            first, *others = [StepOutput(*step) for step in zip(ids, scores, strict=True)]
            return [with_forced(first, forced, wanted[0]), *others]

        return read

    def _once(self, candidates: int, gates: HeadGates | None) -> Tensor:
        if gates is not None or candidates not in self._graphs:
            return self._compute(candidates, gates)
        self.captured += 1
        graph, result = self._graphs[candidates]
        graph.replay()
        return result.clone()  # the next replay overwrites it

    def _compute(self, candidates: int, gates: HeadGates | None) -> Tensor:
        """Computes one step, in shapes that do not depend on the data. Returns (R, 3 + 2 C) in
        float64, which holds ids and scores exactly: the chosen token, its log-probability, that of
        the forced token, and the ids and log-probabilities of C candidates; (R, 3) if C is 1."""
        if candidates > 1:
            self.cache.follow(self._parents)
        logits = self._fused.logits(self._tokens, gates)  # (R, V)
        chosen = self._fused.kernels.choose(logits, self._forced, self._barred, self._tokens)
        if candidates == 1:
            return chosen
        best, ids = torch.log_softmax(logits.float(), dim=-1).topk(candidates, dim=-1)
        return torch.cat([chosen, ids.double(), best.double()], dim=1)

    def _forbid(self, tokens: tuple[int, ...]) -> None:
        if tokens != self._forbidden:
            self._forbidden = tokens
            self._barred.zero_()
            self._barred.index_fill_(
                0, to_device(torch.tensor(tokens, dtype=torch.long), self.device), -math.inf
            )

    def _try_to_capture(self, candidates: int) -> None:
        """Captures a step, which is computed operation by operation from then on if that fails.
        Raises the error of a broken device."""
        inputs = self._inputs.clone()  # a capture also chooses tokens
        try:
            with _GRAPHS:
                self._capture(candidates)
        except Exception as error:  # noqa: BLE001  a capture may raise anything
            self._uncaptured.add(candidates)
            log.warning(
                "steps with %s candidates are not captured: %s: %s",
                candidates,
                type(error).__name__,
                str(error)[:200],
            )
            check_device(self.device)
        self._inputs.copy_(inputs)

    def _capture(self, candidates: int) -> None:
        """Captures a step as a graph. All slots are inactive meanwhile, so no length changes."""
        self.cache.active.zero_()
        self._parents.copy_(torch.arange(self._rows, device=self.device))
        stream = _streams.setdefault(self.device, torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
        current = torch.cuda.current_stream(self.device)
        stream.wait_stream(current)
        # cuBLAS keeps a workspace for each stream, and the end of any graph frees that of its
        # stream (PyTorch issue 193402). So each capture starts without one and takes its own from
        # the pool of its model, as in Inductor.
        clear_workspaces = torch._C._cuda_clearCublasWorkspaces  # type: ignore[attr-defined, unused-ignore]
        clear_workspaces()
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._compute(candidates, None)
        current.wait_stream(stream)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        clear_workspaces()
        try:
            with torch.cuda.graph(
                graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"
            ):
                result = self._compute(candidates, None)
        finally:
            # PyTorch leaves a thread on the stream of a capture that failed
            torch.cuda.set_stream(current)
            clear_workspaces()
        self._graphs[candidates] = graph, result

    def _send(self, rows: Slots, tokens: Slots, forced: Slots, *, moves: bool) -> None:
        """Copies tokens, forced tokens, active slots and the `moves` of a beam search to the
        device. Rows with a token of -1 keep theirs."""
        sent = np.zeros((4, self._rows), dtype=np.int64)
        sent[0, rows], sent[1, rows], sent[2, rows] = tokens, np.maximum(0, forced), 1
        if moves:
            sent[3] = self.cache.take_parents()
        inputs = torch.from_numpy(sent)
        chosen = self._tokens.clone() if tokens.min() < 0 else None
        # From page-locked memory, without waiting. Earlier steps may still have to read theirs.
        self._inputs.copy_(
            inputs.pin_memory() if self.device.type == "cuda" else inputs, non_blocking=True
        )
        if chosen is not None:
            torch.where(self._tokens < 0, chosen, self._tokens, out=self._tokens)

    def _room(self, positions: int) -> None:
        """Makes room for `positions`. Before the cache moves, all graphs are discarded, because
        they hold addresses."""
        if positions > self.cache.room:
            self._release()
            self.cache.ensure(positions)

    def _release(self) -> None:
        """Ends the graphs, after the last replay. Their memory may go to another stream."""
        if self._graphs and self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        with _GRAPHS:
            self._graphs.clear()
            self._pool = None  # PyTorch may refuse a pool whose last graph is gone

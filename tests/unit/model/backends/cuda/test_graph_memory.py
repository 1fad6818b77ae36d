"""Graphs of several models on one stream, with a fake of PyTorch's captures: no graph replays with
memory that was freed.

The fake has what PyTorch does: cuBLAS keeps one workspace for each stream; it comes from the pool
of a graph where it is first used in a capture; the end of any graph frees the workspace of its
stream.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from model.backends.cuda import graphs
from model.backends.cuda.graphs import CAPTURE_AFTER, GraphedBackend
from tests.unit.model.backends.cuda.test_graphs import transformer


class Workspace:
    def __init__(self, pooled: bool) -> None:
        self.pooled, self.freed = pooled, False


class Stream:
    def wait_stream(self, other: object) -> None:
        """Does nothing: the fake computes in order."""


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.used = cuda, set[Workspace]()
        self.stream: Stream | None = None

    def replay(self) -> None:
        assert graphs._GRAPHS.locked()
        assert not any(workspace.freed for workspace in self.used)
        self.cuda.replays += 1

    def __del__(self) -> None:
        if self.stream is not None:
            self.cuda.unlocked_ends += not graphs._GRAPHS.locked()
            self.cuda.free(self.stream)


class FakeCuda:
    def __init__(self) -> None:
        self.main = self.current = Stream()
        self.capturing: FakeGraph | None = None
        self.workspaces: dict[Any, Workspace] = {}
        self.failing = False
        self.replays = self.unlocked_ends = 0

    def free(self, stream: Any) -> None:
        if (workspace := self.workspaces.pop(stream, None)) is not None:
            workspace.freed = True

    def clear(self) -> None:
        for workspace in self.workspaces.values():  # a graph's pool keeps its own
            workspace.freed = not workspace.pooled
        self.workspaces.clear()

    def product(self) -> None:
        workspace = self.workspaces.setdefault(self.current, Workspace(self.capturing is not None))
        assert not workspace.freed
        if self.capturing is not None:
            self.capturing.used.add(workspace)

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextlib.contextmanager
    def capture(self, graph: FakeGraph, *, stream: Stream, **_: Any) -> Iterator[None]:
        assert graphs._GRAPHS.locked()
        self.capturing, self.current, before = graph, stream, self.current
        try:
            yield
        finally:
            self.capturing = None
        if self.failing:
            # the thread stays on the stream
            raise RuntimeError("operation not permitted when stream is capturing")
        graph.stream, self.current = stream, before


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", fake.on)
    monkeypatch.setattr(torch.cuda, "graph", fake.capture)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: FakeGraph(fake))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: fake.current)
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: setattr(fake, "current", stream))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", fake.clear, raising=False)
    monkeypatch.setattr(graphs, "_streams", {})
    monkeypatch.setattr(graphs, "check_device", lambda device: None)
    return fake


def backend(cuda: FakeCuda) -> GraphedBackend:
    made = GraphedBackend(transformer(), 2, capture=True)
    logits = made._fused.logits

    def multiplied(*arguments: Any) -> torch.Tensor:
        cuda.product()
        return logits(*arguments)

    made._fused.logits = multiplied  # type: ignore[method-assign]
    made.prefill([[5, 6, 3]], [0])
    return made


@pytest.mark.parametrize("seed", range(4))
def test_no_graph_replays_with_freed_memory(seed: int, cuda: FakeCuda) -> None:
    rng = random.Random(seed)
    models: list[GraphedBackend] = []
    for _ in range(40):
        action = rng.random()
        if not models or (action < 0.15 and len(models) < 4):
            models.append(backend(cuda))
        elif action < 0.25:
            models.pop(rng.randrange(len(models))).close()
        elif action < 0.35:
            one = rng.choice(models)
            one.free([0])
            one.prefill([[7] * rng.choice((3, one.cache.room, min(149, one.cache.room + 1)))], [0])
        else:
            one = rng.choice(models)
            if one.cache.lengths[0] < 20:
                for _ in range(CAPTURE_AFTER + 1):
                    one.step([0], [9], rng.choice((1, 2)), [-1])
    assert cuda.replays > 20 and not cuda.unlocked_ends


def test_a_thread_leaves_the_stream_of_a_capture_that_failed(cuda: FakeCuda) -> None:
    one = backend(cuda)
    cuda.failing = True
    for _ in range(CAPTURE_AFTER + 1):
        one.step([0], [9], 1, [-1])
    assert cuda.current is cuda.main and not graphs._GRAPHS.locked()

"""What a chunk of steps costs beside matrix products: launches, copies to the device, and waits of
the host for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from model import kv_cache
from model.backends.cuda import graphs, static_cache
from model.backends.cuda.fused_step import KERNELS, SlotKernels
from model.backends.cuda.graphs import GraphedBackend
from model.config import ModelConfig
from model.transformer import Transformer

WAITS = (
    torch.Tensor.cpu,
    torch.Tensor.numpy,
    torch.Tensor.item,
    torch.Tensor.tolist,
    torch.Tensor.nonzero,
)


class Launches(TorchDispatchMode):
    """Counts operations that compute, as `where` says: neither views nor allocations."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts, self.where = counts, "outside"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(
            one.alias_info is not None and not one.alias_info.is_write
            for one in func._schema.returns
        )
        if not views and not func.name().startswith(
            ("aten::empty", "aten::detach", "aten::lift_fresh")
        ):
            self.counts[self.where] += 1
        return func(*args, **(kwargs or {}))


class Calls(TorchFunctionMode):
    """Counts calls for which the host waits, as they would be with tensors on a GPU."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts["blocking copies"] += (
            func is torch.tensor and (kwargs or {}).get("device") is not None
        )
        self.counts["waits"] += func in WAITS
        return func(*args, **(kwargs or {}))


def counted(
    action: Callable[[GraphedBackend], object], monkeypatch: pytest.MonkeyPatch, **shape: Any
) -> Counter[str]:
    """Returns the counts of `action` on three rows; `step` are launches of one step, which a graph
    has."""
    config = ModelConfig(
        vocab_size=97, d_model=32, heads=2, d_ff=64, encoder_layers=1, decoder_layers=6, **shape
    )
    counts: Counter[str] = Counter()
    launches = Launches(counts)

    def once(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*arguments: Any) -> Any:
            counts[launches.where] += 1
            with _disable_current_modes():
                return kernel(*arguments)

        return launch

    def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        counts["copies"] += 1
        with _disable_current_modes():
            return tensor.clone()

    kernels = SlotKernels(
        "counted",
        *(once(getattr(KERNELS, name)) for name in ("attend_self", "attend", "add_norm", "choose")),
    )
    backend = GraphedBackend(Transformer(config).eval(), 4, capture=False, kernels=kernels)
    compute = backend._compute

    def step(*arguments: Any) -> torch.Tensor:
        before, launches.where = counts["step"], "step"
        result = compute(*arguments)
        launches.where = "outside"
        counts["step"] = max(before, counts["step"] - before)
        return result

    backend.prefill([[5, 6, 3]], [0])
    monkeypatch.setattr(backend, "_compute", step)
    for module in (kv_cache, static_cache, graphs):
        monkeypatch.setattr(module, "to_device", copied)
    with torch.inference_mode(), Calls(counts), launches:
        action(backend)
    return counts


@pytest.mark.parametrize(
    "shape", [{}, {"norm": "pre"}, {"recurrence": "ssru", "zero_start_embedding": True}]
)
def test_a_greedy_chunk_waits_once(shape: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(
        lambda backend: backend.queue_steps([0, 1, 2], [2, 2, 2], 4)(), monkeypatch, **shape
    )
    assert (found["waits"], found["blocking copies"], found["copies"]) == (1, 0, 0)
    assert found["step"] <= (76 if not shape else 130)
    assert found["outside"] <= 8
    following = counted(
        lambda backend: backend.queue_steps([0, 1, 2], [2, -1, -1], 4), monkeypatch, **shape
    )
    assert (following["waits"], following["blocking copies"], following["copies"]) == (0, 0, 0)
    assert following["outside"] <= 8


def test_a_beam_step_waits_once_and_copies_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(backend: GraphedBackend) -> None:
        backend.step([0, 1, 2], [2, 2, 2], 6, [-1] * 3)
        keys = backend.cache.self_keys.clone()
        backend.reorder([0, 1, 2], [2, 0, 1])
        assert torch.equal(backend.cache.self_keys, keys)

    found = counted(step, monkeypatch)
    assert (found["waits"], found["blocking copies"], found["copies"]) == (1, 0, 0)
    assert found["step"] <= 83
    assert found["outside"] <= 7

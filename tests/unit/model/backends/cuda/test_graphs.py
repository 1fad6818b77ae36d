"""Tests that steps of fixed shape equal plain steps, without graph capture. tests/gpu tests
captured graphs.

Steps in PyTorch promise equal tokens and scores within 1e-4, because the order of float32 sums
depends on the shape.
"""

from __future__ import annotations

import copy
import random
import weakref
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.backends.cuda import graphs, self_check
from model.backends.cuda.graphs import CAPTURE_AFTER, GraphedBackend
from model.backends.cuda.self_check import disagreement
from model.backends.cuda.static_cache import StaticCache
from model.backends.torch.backend import TorchBackend
from model.config import ModelConfig
from model.search.backend_interface import StepOutput
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from tests.support.models.random_models import VARIANTS

pytestmark = pytest.mark.numeric

SHAPES = [
    *(
        "the paper's",
        "pre-norm",
        "swish, half-and-half, bias, zero start",
        "gelu, learned, unscaled",
    ),
    *("recurrence", "untied"),
]


def transformer(variant: str = "the paper's") -> Transformer:
    torch.manual_seed(3)
    shape = {
        "d_model": 32,
        "heads": 2,
        "d_ff": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_length": 150,
    }
    return Transformer(ModelConfig(vocab_size=97, **shape, **VARIANTS[variant])).eval()


def sources(number: int, longest: int = 40) -> list[list[int]]:
    rng = random.Random(5)
    return [
        [rng.randrange(4, 97) for _ in range(rng.randint(1, longest))] + [3] for _ in range(number)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beam", [1, 3])
def test_fixed_shapes_give_the_same_translations(shape: str, beam: int) -> None:
    model = transformer(shape)
    options = DecodingOptions(beam_size=beam, hypotheses=beam, max_length=45)
    inputs = sources(11)
    found = [
        translate(backend, inputs, options, model.config)
        for backend in (TorchBackend(model, 7), GraphedBackend(model, 7, capture=False))
    ]
    for plain, fixed in zip(*found, strict=True):
        assert [one.tokens for one in plain] == [one.tokens for one in fixed]
        for one, other in zip(plain, fixed, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)


@pytest.mark.parametrize("candidates", [1, 2])
def test_forced_tokens_and_masked_heads(candidates: int) -> None:
    model = transformer()
    plain, fixed = TorchBackend(model, 4), GraphedBackend(model, 4, capture=False)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3], [8, 3]], [3, 1], [(), (("cross", 1, 0),)])
    for step in range(5):
        forced = [11 + step, -1]
        left, right = (
            backend.step([3, 1], [9, 10], candidates, forced) for backend in (plain, fixed)
        )
        assert left.ids.tolist() == right.ids.tolist() and right.ids[0, 0] == forced[0]
        assert left.scores == pytest.approx(right.scores, abs=1e-4)


def test_a_row_that_pauses_at_the_end_of_its_storage_continues() -> None:
    model = transformer()
    plain, fixed = TorchBackend(model, 2), GraphedBackend(model, 2, capture=False)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3], [8, 3]], [0, 1])
    room = fixed.cache.room
    # row 0 fills the storage, then pauses for a step of row 1
    for rows in [*([[0]] * room), [1], [0]]:
        left, right = (backend.step(rows, [9], 2, [-1]) for backend in (plain, fixed))
        assert left.scores == pytest.approx(right.scores, abs=1e-4)


def test_the_self_check_finds_numbers_that_are_not_finite() -> None:
    class Broken(GraphedBackend):
        def step(self, *arguments: Any) -> StepOutput:
            self.captured += 1
            output = super().step(*arguments)
            return StepOutput(output.ids, output.scores * np.nan)

    assert (
        disagreement(Broken(transformer(), 4, capture=False))
        == "Replayed steps differ from float32 by nan, plain ones by 0."
    )


@pytest.mark.parametrize(("shift", "found"), [(0.0, False), (0.1, True)])
def test_the_self_check_compares_with_the_error_of_half_precision(
    shift: float, found: bool
) -> None:
    class Shifted(GraphedBackend):
        def step(self, *arguments: Any) -> StepOutput:
            self.captured += 1
            output = super().step(*arguments)
            return StepOutput(output.ids, output.scores + np.float32(shift))

    assert (disagreement(Shifted(transformer().bfloat16(), 4, capture=False)) is not None) == found


class Live(TorchDispatchMode):
    """Counts the bytes of the float32 tensors that exist at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.most = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, (tuple, list)) else [found]:
            if (
                isinstance(tensor, torch.Tensor)
                and tensor.dtype == torch.float32
                and not tensor._is_view()
            ):
                self.bytes += tensor.nbytes
                self.most = max(self.most, self.bytes)
                weakref.finalize(tensor, self.release, tensor.nbytes)
        return found

    def release(self, size: int) -> None:
        self.bytes -= size


@pytest.mark.parametrize("shape", SHAPES)
def test_the_self_check_converts_few_weights_at_a_time(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "_PART", 1 << 12)
    torch.manual_seed(3)
    shapes = {"d_model": 32, "heads": 2, "d_ff": 64, "encoder_layers": 2, "max_length": 30}
    layers = 40
    model = Transformer(
        ModelConfig(vocab_size=97, decoder_layers=layers, **shapes, **VARIANTS[shape])
    ).eval()
    small, exact = model.bfloat16(), copy.deepcopy(model).float()
    backend, reference = self_check._Float32Backend(small, 2), TorchBackend(exact, 2)
    with Live() as live:
        for each in (backend, reference):
            each.prefill([[5, 6, 7], [8, 3]], [0, 1])
            live.most = live.bytes
            for step in range(3):
                found = each.step([0, 1], [9, 10 + step], 8, [step, -1])
            if each is backend:
                steps, most = found, live.most
    assert steps.ids.tolist() == found.ids.tolist()
    assert steps.scores == pytest.approx(found.scores, abs=1e-5)
    weights = sum(parameter.numel() for parameter in model.parameters()) * 4
    held = sum(tensor.nbytes for tensor in backend.cache.tensors())
    assert most - held < weights / 8, (most, held, weights)


@pytest.mark.parametrize(
    "shape", ["the paper's", "swish, half-and-half, bias, zero start", "untied"]
)
def test_the_projection_is_padded_without_a_second_copy(shape: str) -> None:
    model = transformer(shape)
    expected = model.logits(torch.ones(2, 32))
    backend = GraphedBackend(model, 2, capture=False)
    logits = backend._fused.logits(torch.tensor([5, 6]))
    assert logits.shape == (2, 97) and logits.stride(0) == 128
    assert torch.equal(model.logits(torch.ones(2, 32)), expected)
    weight = model.embedding.weight if model.config.tied_embeddings else model.projection.weight
    assert weight.untyped_storage().nbytes() == 128 * 32 * 4


def test_forbidden_tokens_are_left_out_on_the_device() -> None:
    one, many = (GraphedBackend(transformer(), 2, capture=False) for _ in range(2))
    for backend in (one, many):
        backend.prefill(sources(2), [0, 1])
    likely = tuple(int(token) for token in one.step([0], [2], 2, [-1]).ids[0])
    one.free([0])
    one.prefill(sources(1), [0])
    tokens = [2, 2]
    for output in many.queue_steps([0, 1], tokens, 3, likely)():
        single = one.step([0, 1], tokens, 3, [-1, -1])
        columns = [next(c for c in range(3) if row[c] not in likely) for row in single.ids.tolist()]
        tokens = [int(row[column]) for row, column in zip(single.ids, columns, strict=True)]
        assert output.ids[:, 0].tolist() == tokens
        assert output.scores[:, 0] == pytest.approx(single.scores[[0, 1], columns], abs=1e-5)
    assert int(many.step([0], [2], 1, [-1]).ids[0, 0]) >= 0


def test_the_choice_of_a_greedy_row_has_the_same_bits_beside_beams() -> None:
    alone, beside = (GraphedBackend(transformer(), 3, capture=False) for _ in range(2))
    for backend in (alone, beside):
        backend.prefill(sources(3), [0, 1, 2])
    first = alone.queue_steps([0, 1, 2], [2, 2, 2], 1, (7,))()
    mixed = beside.queue_steps([0, 1, 2], [2, 2, 2], 1, (7,), [1, 6, 1], [-1, -1, 9])()
    for one, other in zip(first, mixed, strict=True):
        assert (one.ids[0, 0], one.scores[0, 0]) == (other.ids[0, 0], other.scores[0, 0])
        assert other.ids[2, 0] == 9 and len(set(other.ids[1].tolist())) == 6
    followed = [backend.queue_steps([0], [-1], 1)()[0] for backend in (alone, beside)]
    assert (followed[0].ids == followed[1].ids).all() and (
        followed[0].scores == followed[1].scores
    ).all()


def test_without_capture_nothing_is_replayed() -> None:
    backend = GraphedBackend(transformer(), 4, capture=False)
    assert disagreement(backend) == "No step was captured."
    assert backend.captured == 0


class Scarce(StaticCache):
    """A cache that runs out of memory when it allocates its `left`-th tensor from now on."""

    left = 1 << 30

    def _allocate(self, positions: int) -> torch.Tensor:
        self.left -= 1
        if self.left < 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super()._allocate(positions)


@pytest.mark.parametrize("left", range(4))
def test_a_cache_that_cannot_grow_stays_as_it_was(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "StaticCache", Scarce)
    model = transformer()
    plain, fixed = TorchBackend(model, 2), GraphedBackend(model, 2, capture=False)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3]], [0])
    room = fixed.cache.room
    fixed.cache.left = left
    with pytest.raises(torch.OutOfMemoryError):
        fixed.prefill([[7] * (room + 1)], [1])
    held = (
        fixed.cache.self_keys,
        fixed.cache.self_values,
        fixed.cache.cross_keys,
        fixed.cache.cross_values,
    )
    assert {fixed.cache.room} == {tensor.shape[3] for tensor in held} == {room}
    left_output, right_output = (backend.step([0], [9], 2, [-1]) for backend in (plain, fixed))
    assert left_output.scores == pytest.approx(right_output.scores, abs=1e-4)


def test_the_storage_of_plain_steps_grows_whole_or_not_at_all() -> None:
    backend = TorchBackend(transformer(), 2)
    backend.prefill([[5, 6, 3]], [0])
    backend.cache._allocate = Mock(
        side_effect=[backend.cache._allocate(64), torch.OutOfMemoryError]
    )
    with pytest.raises(torch.OutOfMemoryError):
        backend.prefill([[7] * 50], [1])
    assert backend.cache.cross_keys.shape == backend.cache.cross_values.shape


def test_a_shape_that_cannot_be_captured_is_computed_and_said_once(caplog, monkeypatch) -> None:
    class Uncapturable(GraphedBackend):
        def _capture(self, candidates: int) -> None:
            self._inputs.zero_()
            raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "check_device", lambda device: None)
    model = transformer()
    plain, fixed = TorchBackend(model, 2), Uncapturable(model, 2, capture=True)
    for backend in (plain, fixed):
        backend.prefill([[5, 6, 3]], [0])
    token = 9
    for step in range(CAPTURE_AFTER + 3):  # the device keeps its tokens
        left, [right] = (
            plain.step([0], [token], 1, [-1]),
            fixed.queue_steps([0], [-1 if step else 9], 1)(),
        )
        token = int(left.ids[0, 0])
        assert right.ids[0, 0] == token and left.scores == pytest.approx(right.scores, abs=1e-4)
    assert caplog.text.count("operation not permitted") == 1


def test_a_capture_that_breaks_the_device_is_an_error(monkeypatch) -> None:
    backend = GraphedBackend(transformer(), 2, capture=True)
    monkeypatch.setattr(backend, "_capture", Mock(side_effect=RuntimeError("capture")))
    monkeypatch.setattr(
        graphs, "check_device", Mock(side_effect=RuntimeError("CUDA error: illegal memory access"))
    )
    backend.prefill([[5, 6, 3]], [0])
    with pytest.raises(RuntimeError, match="illegal memory access"):
        for _ in range(CAPTURE_AFTER):
            backend.step([0], [9], 1, [-1])

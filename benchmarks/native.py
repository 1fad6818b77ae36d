"""The native engine as a backend of searches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.checkpoint import load_model
from model.folder import ModelFolder
from model.native import build
from model.native.engine import NativeEngine
from model.search import StepOutput


class NativeBackend:
    """NativeEngine with the step output that searches read."""

    def __init__(self, engine: NativeEngine) -> None:
        self.engine, self.slots = engine, engine.slots

    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Sequence[tuple[tuple[str, int, int], ...]] = (),
    ) -> None:
        if any(masked_heads):
            raise ValueError("The native engine cannot switch heads off.")
        self.engine.prefill(sources, slots)

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        ids, scores, forced_scores = self.engine.step(slots, tokens, candidates, forced)
        wide = ids.astype(np.int64)
        for row, token in enumerate(forced):
            if token >= 0:
                wide[row, 0], scores[row, 0] = token, forced_scores[row]
        return StepOutput(wide, scores)

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        self.engine.reorder(targets, origins)

    def free(self, slots: Sequence[int]) -> None:
        self.engine.free(slots)


def native_backend(folder: ModelFolder, *, precision: str, slots: int, threads: int) -> NativeBackend:
    """Compile the engine if need be and load a folder's weights into it."""
    if precision not in ("float32", "int8"):
        raise ValueError(f"The native engine has float32 and int8, not {precision}.")
    transformer = load_model(folder)
    tensors = {name: tensor.numpy() for name, tensor in transformer.state_dict().items()}
    positions = transformer.get_buffer("position_table").numpy()
    engine = NativeEngine(
        build.build(), folder.model, tensors, positions, slots=slots, threads=threads,
        precision="int8" if precision == "int8" else "float32",
    )  # fmt: skip
    return NativeBackend(engine)

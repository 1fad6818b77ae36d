"""The native backend of search: the step interface of model.inference.TorchBackend on the compiled engine. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from model.folder import FolderError, ModelFolder
from model.maps import CANDIDATES, AttentionMaps, Head, check_pair
from model.native.build import NativeUnavailable
from model.native.engine import NativeEngine, Precision
from model.native.tensors import SafetensorFiles, position_table, weight_files
from model.native.watch import Watch
from model.native.weights import unsupported
from model.search import Backend, StepOutput

MaskedHeads = tuple[tuple[str, int, int], ...]


def open_backend(
    folder: ModelFolder, library: Path, *, slots: int, threads: int, precision: Precision,
    looking: Callable[[], Backend] | None = None,
) -> NativeBackend:  # fmt: skip
    """The backend of a model folder, straight from its safetensors. Raises NativeUnavailable for shapes the engine lacks,
    FolderError for broken weights."""
    if reason := unsupported(folder.model):
        raise NativeUnavailable(reason)
    tensors = SafetensorFiles(weight_files(folder.path))
    try:
        engine = NativeEngine(
            library, folder.model, tensors, position_table(folder.model, tensors), slots=slots, threads=threads,
            precision=precision,
        )  # fmt: skip
    except ValueError as error:
        raise FolderError(str(error)) from None
    return NativeBackend(engine, looking)


class NativeBackend:
    """Rows run on the engine. Rows with masked heads, which it does not have, run on the backend that `looking` makes
    when the first of them comes; it must have as many slots. Without `looking` they are refused with a ValueError."""

    def __init__(self, engine: NativeEngine, looking: Callable[[], Backend] | None = None) -> None:
        self.engine, self.slots, self.end = engine, engine.slots, engine.config.eos_id
        self._make_looking = looking
        self._looking: Backend | None = None
        self._elsewhere: set[int] = set()  # slots whose rows run on the other backend

    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[MaskedHeads] = ()
    ) -> None:
        """Encode sources and begin a row for each in its slot."""
        masks = list(masked_heads) or [()] * len(slots)
        masked = [i for i, mask in enumerate(masks) if mask]
        plain = [i for i, mask in enumerate(masks) if not mask]
        if masked:
            where = [slots[i] for i in masked]
            self._other().prefill([sources[i] for i in masked], where, [masks[i] for i in masked])
            self.engine.free([slot for slot in where if slot not in self._elsewhere])
        where = [slots[i] for i in plain]
        self.engine.prefill([sources[i] for i in plain], where)
        self._leave(where)
        self._elsewhere.update(slots[i] for i in masked)

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        """One token for each row; the `candidates` likeliest next tokens of each, a forced one in column 0."""
        if not self._elsewhere:
            return self._step(slots, tokens, candidates, forced)
        ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = [np.empty(0, np.int64)] * len(slots)
        scores: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = [np.empty(0, np.float32)] * len(slots)
        for there in (False, True):
            rows = [i for i, slot in enumerate(slots) if (slot in self._elsewhere) is there]
            if not rows:
                continue
            run = self._other().step if there else self._step
            output = run([slots[i] for i in rows], [tokens[i] for i in rows], candidates, [forced[i] for i in rows])
            for place, row in enumerate(rows):
                ids[row], scores[row] = output.ids[place], output.scores[place]
        return StepOutput(np.stack(ids), np.stack(scores))

    def burst(self, slots: Sequence[int], tokens: Sequence[int], steps: int) -> list[StepOutput]:
        """`steps` greedy steps of each row without coming back in between: ids and scores (B, 1) of each. What follows a
        row's end of sentence means nothing."""
        if any(slot in self._elsewhere for slot in slots):
            outputs: list[StepOutput] = []
            for _ in range(steps):
                outputs.append(self.step(slots, tokens, 1, [-1] * len(slots)))
                tokens = outputs[-1].ids[:, 0].tolist()
            return outputs
        ids, scores = self.engine.burst(slots, tokens, steps)
        wide = ids.astype(np.int64)
        return [StepOutput(wide[i, :, None], scores[i, :, None]) for i in range(steps)]

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Row targets[i] continues from what row origins[i] held before the call."""
        pairs = list(zip(targets, origins, strict=True))
        there = [(to, of) for to, of in pairs if of in self._elsewhere]
        here = [(to, of) for to, of in pairs if of not in self._elsewhere]
        if there:
            self._other().reorder([to for to, _ in there], [of for _, of in there])
        self.engine.reorder([to for to, _ in here], [of for _, of in here])
        strangers = [to for to, _ in there if to not in self._elsewhere]
        self.engine.free(strangers)
        self._leave([to for to, _ in here])
        self._elsewhere.update(strangers)

    def free(self, slots: Sequence[int]) -> None:
        """Forget the rows."""
        self.engine.free([slot for slot in slots if slot not in self._elsewhere])
        self._leave(slots)

    def attention_maps(
        self, source: Sequence[int], target: Sequence[int], vectors_of: Head | None = None
    ) -> AttentionMaps:
        """Attention of a pair, as decoding computes it (model.attention_maps does the same in torch). Raises ValueError for
        what the model cannot read and for a head it does not have."""
        config = self.engine.config
        check_pair(config, source, target)
        watch = Watch(config, len(source), len(target) + 1, vectors_of)
        inputs, written = [config.decoder_start_id, *target], [*target, config.eos_id]
        ids, scores, forced = self.engine.look(source, inputs, min(CANDIDATES, config.vocab_size), written, watch)
        return AttentionMaps(
            watch.cross, watch.encoder, watch.decoder, forced, ids.astype(np.int64), scores, watch.vectors
        )

    def close(self) -> None:
        """Stop the engine's threads and give its memory back."""
        self.engine.close()

    def _step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        ids, scores, wanted = self.engine.step(slots, tokens, min(candidates, self.engine.config.vocab_size), forced)
        for row, token in enumerate(forced):
            if token >= 0:
                ids[row], scores[row] = np.roll(ids[row], 1), np.roll(scores[row], 1)
                ids[row, 0], scores[row, 0] = token, wanted[row]
        return StepOutput(ids.astype(np.int64), scores)

    def _other(self) -> Backend:
        if self._looking is None:
            if self._make_looking is None:
                raise ValueError("The native engine cannot mask heads.")
            self._looking = self._make_looking()
        return self._looking

    def _leave(self, slots: Sequence[int]) -> None:
        """These slots no longer hold rows of the other backend."""
        left = [slot for slot in slots if slot in self._elsewhere]
        if left:
            self._other().free(left)
            self._elsewhere.difference_update(left)

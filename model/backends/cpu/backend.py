"""The CPU backend: the interface of model.search on the compiled C++ code. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.analysis.pair_alignment import WordedSentence, WordReading, check_words
from model.analysis.types import CANDIDATES, AttentionMaps, Head, HeadMask, check_pair
from model.backends.cpu.attention_capture import AttentionCapture
from model.backends.cpu.bindings import CpuBackendError
from model.backends.cpu.engine import CpuEngine, Precision
from model.backends.cpu.isa import CpuBackendUnavailable
from model.backends.cpu.tensors import SafetensorFiles, position_table
from model.backends.cpu.weights import unsupported
from model.model_folder import FolderError, ModelFolder
from model.search.base import StepOutput
from model.shortlist import Shortlist, ShortlistUse, read_shortlist
from model.weight_files import weight_files


def open_backend(
    folder: ModelFolder, library: Path, *, slots: int, threads: int, precision: Precision, shortlist: ShortlistUse = "off"
) -> CpuBackend:  # fmt: skip
    """Opens a model folder. `shortlist` says whether sentences are limited to the folder's shortlist.

    Raises CpuBackendUnavailable for an unsupported shape, FolderError for invalid weights.
    """
    if reason := unsupported(folder.model):
        raise CpuBackendUnavailable(reason)
    tensors = SafetensorFiles(weight_files(folder.path))
    try:
        engine = CpuEngine(
            library, folder.model, tensors, position_table(folder.model, tensors), slots=slots, threads=threads,
            precision=precision,
        )  # fmt: skip
    except ValueError as error:
        raise FolderError(str(error)) from None
    except CpuBackendError as error:
        raise FolderError(f"The CPU backend cannot load the weights: {error}.") from None
    return CpuBackend(engine, read_shortlist(folder, shortlist))


class CpuBackend:
    """Implements the backend interface of model.search with a CpuEngine. With a `shortlist`, each row writes only tokens
    that its source allows; forced tokens are scored among all."""

    def __init__(self, engine: CpuEngine, shortlist: Shortlist | None = None) -> None:
        self._shortlist = shortlist
        self.engine, self.slots, self.end = engine, engine.slots, engine.config.eos_id
        lists = [] if shortlist is None else shortlist.common()
        self._common = [engine.add_common(tokens) if len(tokens) else -1 for tokens in lists]
        """Numbers of the common lists in the engine, -1 for an empty one."""

    def prefill(
        self, sources: Sequence[Sequence[int]], slots: Sequence[int], masked_heads: Sequence[HeadMask] = ()
    ) -> None:
        """Encodes the sources and starts a row for each in its slot."""
        self.engine.prefill(sources, slots, masked_heads)
        if self._shortlist is not None:
            for source, slot in zip(sources, slots, strict=True):
                split = self._shortlist.split(source, self.end)
                if split is not None:
                    self.engine.restrict(slot, split[1], self._common[split[0]])

    def step(self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]) -> StepOutput:
        """Advances each row by its token. Returns its `candidates` best next tokens, a forced one in column 0."""
        ids, scores, forced_scores = self.engine.step(
            slots, tokens, min(candidates, self.engine.config.vocab_size), forced
        )
        for row, token in enumerate(forced):
            if token >= 0:
                ids[row], scores[row] = np.roll(ids[row], 1), np.roll(scores[row], 1)
                ids[row, 0], scores[row, 0] = token, forced_scores[row]
        return StepOutput(ids.astype(np.int64), scores)

    def multi_step(
        self, slots: Sequence[int], tokens: Sequence[int], steps: int, forbidden: Sequence[int] = ()
    ) -> list[StepOutput]:
        """Runs `steps` greedy steps without returning to Python: ids and scores (B, 1) of each step, without `forbidden`
        tokens. Outputs after a row's end of sentence are undefined."""
        ids, scores = self.engine.multi_step(slots, tokens, steps, forbidden)
        wide = ids.astype(np.int64)
        return [StepOutput(wide[i, :, None], scores[i, :, None]) for i in range(steps)]

    def forced_steps(
        self, slots: Sequence[int], tokens: Sequence[Sequence[int]], forced: Sequence[Sequence[int]]
    ) -> list[NDArray[np.float32]]:
        """Advances each row by several known tokens in one pass, bit for bit as in single steps. Returns the
        log-probabilities of each row's forced tokens."""
        return self.engine.forced_steps(slots, tokens, forced)

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Copies rows: targets[i] continues from what row origins[i] held before the call."""
        self.engine.reorder(targets, origins)

    def free(self, slots: Sequence[int]) -> None:
        """Frees the rows."""
        self.engine.free(slots)

    def attention_maps(
        self, source: Sequence[int], target: Sequence[int], masked_heads: HeadMask = (), vectors_of: Head | None = None
    ) -> AttentionMaps:
        """Returns the attention weights of a pair, equal to those of decoding. Raises ValueError for invalid ids,
        lengths and heads."""
        config = self.engine.config
        check_pair(config, source, target)
        capture = AttentionCapture(config, len(source), len(target) + 1, vectors_of)
        inputs, written = [config.decoder_start_id, *target], [*target, config.eos_id]
        candidates = min(CANDIDATES, config.vocab_size)
        ids, scores, forced = self.engine.forced_decode(source, inputs, candidates, written, capture, masked_heads)
        return AttentionMaps(
            capture.cross,
            capture.encoder,
            capture.decoder,
            forced,
            ids.astype(np.int64),
            scores,
            capture.vectors,
            capture.forget_gates,
        )

    def read_words(self, sentence: WordedSentence, wanted: Sequence[int]) -> WordReading:
        """Returns the evidence for word alignment of a sentence. Raises ValueError for invalid ids, lengths and
        words."""
        check_words(self.engine.config, sentence, wanted)
        return WordReading(*self.engine.read_words(sentence.ids, sentence.words, wanted))

    @property
    def details(self) -> Mapping[str, str]:
        """The instruction set, for /ready."""
        return {"isa": self.engine.isa}

    def close(self) -> None:
        """Stops the threads and frees the memory."""
        self.engine.close()

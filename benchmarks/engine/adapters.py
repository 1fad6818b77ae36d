"""Adapters for the compared engines, all with the same weights: token ids in, token ids out.

Each adapter runs in a separate process and imports only its own library, because memory is
measured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model.backends.cpu.isa import Isa
from model.model_folder import read_folder

Ids = Sequence[int]
Kind = Literal["attentive-native", "attentive-torch", "ctranslate2", "ctranslate2-workers"]
Clock = Literal["wall", "processor"]
"""Elapsed seconds or seconds of processor time. With one thread on an otherwise idle core they are
equal."""
LENGTH_PENALTY = 1.0
"""Exponent of the length by which all engines divide the log-probability of a hypothesis. All of
them stop when as many hypotheses are finished as the beam is wide (CTranslate2's rule), so that all
do the same work."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Configuration of one engine. `exports` contains the CTranslate2 exports of the folder."""

    kind: Kind
    precision: str
    folder: Path
    exports: Path
    threads: int
    rows: int
    device: str = "cpu"
    isa: Isa = "auto"
    clock: Clock = "wall"

    @property
    def name(self) -> str:
        """Name and precision, for example `ctranslate2 int8`."""
        return f"{self.kind} {self.precision}"


def build(spec: Spec) -> Attentive | CTranslate2:
    """Loads the weights. Raises ValueError for an unknown kind.

    `translate` of an engine returns the best target of each source (ids with language tag and end),
    at most `batch` sources at a time. A target ends at the end of sentence or after `limit` tokens.
    """
    if spec.kind in ("attentive-native", "attentive-torch"):
        return Attentive(spec)
    if spec.kind in ("ctranslate2", "ctranslate2-workers"):
        return CTranslate2(spec)
    raise ValueError(f"There is no engine {spec.kind!r}.")


class Attentive:
    """This project: model.search on the CPU backend or on torch."""

    def __init__(self, spec: Spec) -> None:
        from benchmarks.common.model_loader import open_model

        self._opened = open_model(
            spec.folder,
            engine="native" if spec.kind == "attentive-native" else "torch",
            precision=spec.precision,
            device=spec.device,
            slots=spec.rows,
            threads=spec.threads,
            isa=spec.isa,
        )

    def translate(
        self, sources: Sequence[Ids], batch: int, beam: int, limit: int
    ) -> list[tuple[int, ...]]:
        from model.search.driver import translate
        from model.search.options import DecodingOptions

        config = self._opened.config
        # The backend may have more slots than this batch needs; the search uses only these.
        self._opened.backend.slots = batch * beam
        options = DecodingOptions(
            beam_size=beam,
            normalization="average",
            length_penalty=LENGTH_PENALTY,
            early_stopping=True,
            max_length=limit,
        )
        found = translate(self._opened.backend, sources, options, config)
        return [hypotheses[0].tokens for hypotheses in found]


class CTranslate2:
    """CTranslate2's Translator, which sorts by length and forms batches itself. `ctranslate2` uses
    all threads for one batch (intra_threads). `ctranslate2-workers` uses one worker per thread,
    which divide a batch among themselves (inter_threads): this has more throughput but does not
    speed up a single sentence."""

    def __init__(self, spec: Spec) -> None:
        sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # its converters would import torch; they are not used
        import ctranslate2

        from model.convert.vocabulary import folder_pieces

        self._workers = spec.threads if spec.kind == "ctranslate2-workers" else 1
        self._translator = ctranslate2.Translator(
            str(spec.exports / f"ctranslate2-{spec.precision}"),
            device=spec.device,
            inter_threads=self._workers,
            intra_threads=spec.threads // self._workers,
            compute_type=spec.precision,
        )
        folder = read_folder(spec.folder)
        self._longest = folder.model.max_length
        self._source, target = folder_pieces(folder)
        self._ids = {piece: i for i, piece in enumerate(target)}

    def translate(
        self, sources: Sequence[Ids], batch: int, beam: int, limit: int
    ) -> list[tuple[int, ...]]:
        # CTranslate2 appends the end of sentence
        pieces = [[self._source[i] for i in ids[:-1]] for ids in sources]
        results = self._translator.translate_batch(
            pieces,
            max_batch_size=max(1, batch // self._workers),
            beam_size=beam,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=min(self._longest, limit),
        )
        return [tuple(self._ids[piece] for piece in result.hypotheses[0]) for result in results]

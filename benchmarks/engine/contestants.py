"""The engines that are measured beside each other, on the same weights: token ids in, token ids out.

A contestant is built in a process of its own; each imports what it needs and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from model.backends.cpu.isa import Isa
from model.model_folder import read_folder

Ids = Sequence[int]
Kind = Literal["attentive-native", "attentive-torch", "ctranslate2", "ctranslate2-workers", "huggingface"]
Clock = Literal["wall", "processor"]
"""Seconds that pass, or seconds of processor time: with one thread the same where nobody else uses the core."""
_CTRANSLATE2_TYPES = {"int8": "int8", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
LENGTH_PENALTY = 1.0
"""All three divide a hypothesis's log-probability by length to this power and stop at as many finished hypotheses as the beam
is wide, which is CTranslate2's rule, so that beams rank alike and do the same work."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What to build. `exports` holds the folder's CTranslate2 and Hugging Face exports, made beforehand."""

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
        """For example `ctranslate2 int8`."""
        return f"{self.kind} {self.precision}"


class Contestant(Protocol):
    """One engine with weights loaded."""

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> list[tuple[int, ...]]:
        """Best target of each source (ids with tag and end), at most `batch` sources at a time. A target ends at the end of
        sentence or `limit` tokens."""


def build(spec: Spec) -> Contestant:
    """Load the weights. Raises ValueError for an unknown kind."""
    if spec.kind in ("attentive-native", "attentive-torch"):
        return Attentive(spec)
    if spec.kind in ("ctranslate2", "ctranslate2-workers"):
        return CTranslate2(spec)
    if spec.kind == "huggingface":
        return HuggingFace(spec)
    raise ValueError(f"There is no engine {spec.kind!r}.")


class Attentive:
    """Us: model.search on the native engine or on torch."""

    def __init__(self, spec: Spec) -> None:
        from benchmarks.common.model_loader import open_model

        self._opened = open_model(
            spec.folder, engine="native" if spec.kind == "attentive-native" else "torch", precision=spec.precision,
            device=spec.device, slots=spec.rows, threads=spec.threads, isa=spec.isa,
        )  # fmt: skip

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> list[tuple[int, ...]]:
        from model.search.base import translate
        from model.search.options import DecodingOptions

        config = self._opened.config
        # A batch of fewer sentences than the engine has room for: only that many slots are used.
        self._opened.backend.slots = batch * beam
        options = DecodingOptions(
            beam_size=beam, normalization="average", length_penalty=LENGTH_PENALTY, early_stopping=True,
            max_length=limit,
        )  # fmt: skip
        found = translate(
            self._opened.backend, sources, options,
            start=config.decoder_start_id, end=config.eos_id, max_length=config.max_length,
        )  # fmt: skip
        return [hypotheses[0].tokens for hypotheses in found]


class CTranslate2:
    """CTranslate2's Translator; it sorts by length and batches by itself. `ctranslate2` has all threads work on one batch
    (intra_threads); `ctranslate2-workers` has a worker of one thread for each, which share a batch among them
    (inter_threads): more throughput, and a single sentence gains nothing."""

    def __init__(self, spec: Spec) -> None:
        sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # its converters would import it; we need none
        import ctranslate2

        from model.convert.vocabulary import folder_pieces

        self._workers = spec.threads if spec.kind == "ctranslate2-workers" else 1
        self._translator = ctranslate2.Translator(
            str(spec.exports / f"ctranslate2-{spec.precision}"), device=spec.device, inter_threads=self._workers,
            intra_threads=spec.threads // self._workers, compute_type=_CTRANSLATE2_TYPES[spec.precision],
        )  # fmt: skip
        folder = read_folder(spec.folder)
        self._longest = folder.model.max_length
        self._source, target = folder_pieces(folder)
        self._ids = {piece: i for i, piece in enumerate(target)}

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> list[tuple[int, ...]]:
        pieces = [[self._source[i] for i in ids[:-1]] for ids in sources]  # the end of sentence is added by the engine
        results = self._translator.translate_batch(
            pieces, max_batch_size=max(1, batch // self._workers), beam_size=beam, length_penalty=LENGTH_PENALTY,
            max_decoding_length=min(self._longest, limit),
        )  # fmt: skip
        return [tuple(self._ids[piece] for piece in result.hypotheses[0]) for result in results]


class HuggingFace:
    """MarianMTModel.generate on batches sorted by length."""

    def __init__(self, spec: Spec) -> None:
        import torch
        from transformers import MarianMTModel
        from transformers.utils import logging

        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.set_num_threads(spec.threads)
        dtype = getattr(torch, spec.precision)
        loaded: Any = MarianMTModel.from_pretrained(spec.exports / "huggingface", dtype=dtype)
        self._model, self._device = loaded.to(spec.device).eval(), spec.device

    def translate(self, sources: Sequence[Ids], batch: int, beam: int, limit: int) -> list[tuple[int, ...]]:
        import torch

        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        found: list[tuple[int, ...]] = [()] * len(sources)
        config = self._model.generation_config
        for at in range(0, len(order), batch):
            part = order[at : at + batch]
            width = len(sources[part[0]])
            rows = [[*sources[i], *[config.pad_token_id] * (width - len(sources[i]))] for i in part]
            mask = [[1] * len(sources[i]) + [0] * (width - len(sources[i])) for i in part]
            with torch.inference_mode():
                written = self._model.generate(
                    torch.tensor(rows, device=self._device),
                    attention_mask=torch.tensor(mask, device=self._device),
                    num_beams=beam, do_sample=False, length_penalty=LENGTH_PENALTY,
                    early_stopping=beam > 1, max_new_tokens=limit,
                )  # fmt: skip
            for i, row in zip(part, written.tolist(), strict=True):
                found[i] = _until_end(row[1:], config.eos_token_id)  # the first is the start token
        return found


def _until_end(row: list[int], end: int) -> tuple[int, ...]:
    return tuple(row[: row.index(end)] if end in row else row)

"""A worker and a tokenizer without torch: the "translation" of a sentence is its characters in
reverse order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from model.analysis.attention_alignment import AlignmentLayer, alignment_map
from model.analysis.pair_alignment import PairWords, WordedSentence, WordEvidence, word_links
from model.analysis.types import AttentionMaps, HeadMask
from model.search.options import DecodingOptions, Hypothesis
from model.symbols import FORMAL, INFORMAL
from model.tokenizer import Decoding, Encoding
from server.engine.client.model_pool import EngineModel, ModelHandle
from server.engine.client.status import WorkerFailure, WorkerStatus
from server.engine.client.worker_pool import USUAL_PRICES
from server.engine.ipc.messages import (
    Job,
    JobResult,
    ModelLoaded,
    Timings,
)
from server.translation.catalog import ModelCatalog, ServedModel

EOS = 3
TAGS = {
    code: 10 + i
    for i, code in enumerate(["en", "de", "fr", "es", "it", "ru", "pt-BR", "zh-Hans", "zh-Hant"])
}
FORMS = {FORMAL: 30, INFORMAL: 31}
FIRST = 100
"""Id of the character U+0000; the ids of the others follow in order."""


class FakeTokenizer:
    """One id per character, a tag before and the end of sentence after."""

    joint = True

    def encode(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> Encoding:
        tags = (TAGS[target_language or "en"], *([FORMS[symbol]] if symbol else []))
        return Encoding(
            ids=(*tags, *(FIRST + ord(character) for character in text), EOS),
            pieces=(f">>{target_language}<<", *([symbol] if symbol else []), *text, "</s>"),
            offsets=(
                *((0, 0) for _ in tags),
                *((i, i + 1) for i in range(len(text))),
                (len(text), len(text)),
            ),
        )

    def encode_ids(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> tuple[int, ...]:
        return self.encode(text, target_language, symbol=symbol).ids

    def symbol_of(
        self, ids: Sequence[int], target_language: str, source_language: str, symbols: Sequence[str]
    ) -> str:
        return next((symbol for symbol, id in FORMS.items() if id == ids[1]), "")

    def first_token(self, target_language: str) -> int | None:
        return None

    def may_spell(self, ids: Iterable[int]) -> bool:
        return False

    def spelled(self, text: str) -> str | None:
        return text

    def is_piece(self, text: str) -> bool:
        return False

    def beginnings(self, words: Sequence[str]) -> tuple[int, ...]:
        return tuple(FIRST + ord(word[0]) for word in words)

    def as_source(self, ids: Sequence[int], target_language: str) -> tuple[tuple[int, ...], int]:
        return (TAGS[target_language], *ids, EOS), 1

    def encode_target(self, text: str) -> tuple[int, ...]:
        return tuple(FIRST + ord(character) for character in text)

    def encode_target_pieces(self, text: str) -> Encoding:
        return Encoding(
            self.encode_target(text), tuple(text), tuple((i, i + 1) for i in range(len(text)))
        )

    def piece_ids(self, pieces: Sequence[str]) -> tuple[int, ...]:
        if wrong := [piece for piece in pieces if len(piece) != 1]:
            raise ValueError(f"The model writes no piece \u201c{wrong[0]}\u201d.")
        return self.encode_target("".join(pieces))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i - FIRST) for i in ids)

    def piece(self, id: int) -> str:
        return chr(id - FIRST)

    def decode_pieces(self, ids: Sequence[int]) -> Decoding:
        text = "".join(chr(i - FIRST) for i in ids)
        return Decoding(text, tuple(text), tuple((i, i + 1) for i in range(len(ids))))


class FakeEngine:
    """The interface of WorkerPool, answered in this process after `delay` seconds.

    `submitted` holds every sentence's ids, `cancelled` counts jobs that were given up, `failures`
    maps a source to the failure it raises. Hypothesis k of a beam ends with k letters x.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.gate: threading.Event | None = None
        """Where it is set, nothing is answered before its flag is."""
        self.ready = True
        self.submitted: list[tuple[str, tuple[int, ...], DecodingOptions, int, str]] = []
        self.weights: list[float] = []
        self.cancelled = 0
        self.failures: dict[str, WorkerFailure] = {}
        self.load_error: str | None = None
        """Where it is set, no model can be loaded, for this reason."""
        self.loaded: dict[str, Path] = {}
        self.handles: dict[str, ModelHandle] = {}
        self.on_failed: Callable[[EngineModel, str], None] = lambda model, error: None
        self.rests = False
        self.attended: list[
            tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[str, int, int], ...]]
        ] = []
        self.stopped = False
        self.decoder_heads: int | None = None
        """Number of heads of the decoder's maps; None means all."""

    async def start(self) -> None:
        self.stopped = False

    async def stop(self, grace_seconds: float) -> None:
        self.stopped = True

    async def load(self, model: ModelHandle) -> ModelLoaded:
        self.handles[model.key] = model
        answer = await self.opened(model.key, model.model.folder)
        if answer.error is not None:
            self.fail(model.key, answer.error)
        else:
            self.loaded[model.key] = model.model.folder
            model.loaded = answer
            model.resolve()
        return answer

    async def opened(self, model: str, folder: Path) -> ModelLoaded:
        return ModelLoaded(model, error=self.load_error)

    def fail(self, key: str, error: str) -> None:
        """No worker can load a model, the first time or after a restart."""
        self.on_failed(self.handles[key].model, error)
        self.handles[key].fail(error)

    async def unload(self, model: ModelHandle) -> None:
        del self.loaded[model.key]

    def submit(
        self, job: Job, on_progress: Callable[[tuple[int, ...]], None] | None = None
    ) -> asyncio.Future:
        if job.look is not None:
            self.attended.append((job.source, job.target, job.options.masked_heads))
            return self._future(
                self._attend(job.source, job.target, job.look.words, job.options.masked_heads)
            )
        self.submitted.append((job.model, job.source, job.options, job.priority, job.client))
        self.weights.append(job.weight)
        return self._future(self._translate(job.source, job.options, on_progress))

    @property
    def computation(self) -> tuple[str, ...]:
        return ("cpu", "float32", "fake")

    prices = USUAL_PRICES
    up = 1

    def status(self) -> WorkerStatus:
        ready = self.ready and bool(self.loaded or self.rests)
        return WorkerStatus(ready, "cpu", "float32", "fake", {}, 0, tuple(sorted(self.loaded)))

    def _future(self, work):
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._count)
        return task

    def _count(self, task: asyncio.Future) -> None:
        self.cancelled += task.cancelled()

    async def _translate(self, ids, options, on_progress) -> JobResult:
        characters = [i for i in ids if i >= FIRST]
        if failure := self.failures.get(FakeTokenizer().decode(characters)):
            raise failure
        tokens = tuple(reversed(characters))[: options.max_length]
        tokens = (
            (*options.prefix, *tokens[len(options.prefix) :])
            if options.target is None
            else options.target
        )
        if on_progress:
            for count in range(1, len(tokens) + 1):
                on_progress(tokens[:count])
        await self._work()
        return JobResult(
            id=0,
            hypotheses=tuple(
                self._hypothesis(tokens, k, options.max_length) for k in range(options.hypotheses)
            ),
            timings=Timings(queue=0.001, encode=0.002, decode=0.003, first_token=0.004),
            steps=len(tokens) + 1,
        )

    async def _work(self) -> None:
        if self.gate is not None:
            await asyncio.to_thread(self.gate.wait, 60)
        await asyncio.sleep(self.delay)

    def _hypothesis(self, tokens: tuple[int, ...], rank: int, limit: int | None) -> Hypothesis:
        tokens = (*tokens, *[FIRST + ord("x")] * rank)
        scores = tuple(-0.01 for _ in range(len(tokens) + 1))  # sure, so that no text is read twice
        return Hypothesis(tokens, scores, sum(scores), "length" if limit == len(tokens) else "stop")

    async def _attend(
        self,
        source: tuple[int, ...],
        target: tuple[int, ...],
        words: PairWords | None,
        masked: HeadMask,
    ) -> JobResult:
        """Two layers of two heads. Each map's rows are uniform; cross-attention of the last layer
        looks at the mirrored place."""
        await self._work()
        rows, columns = len(target) + 1, len(source)
        shapes = {
            "cross": (2, 2, rows, columns),
            "encoder": (2, 2, columns, columns),
            "decoder": (2, 2, rows, rows),
        }
        maps = {}
        for kind, shape in shapes.items():
            maps[kind] = np.full(shape, 1.0 / shape[-1], dtype=np.float32)
        maps["cross"][:] = 0.0
        for t in range(rows):
            maps["cross"][:, :, t, max(0, columns - 2 - t) if t < rows - 1 else columns - 1] = 1.0
        maps["decoder"] = np.tril(maps["decoder"])
        maps["decoder"] /= maps["decoder"].sum(axis=-1, keepdims=True)
        maps["decoder"] = maps["decoder"][:, : self.decoder_heads]
        products = np.ones((2, columns, 2, 2), dtype=np.float32)
        for layer, head in [(layer, head) for kind, layer, head in masked if kind == "cross"]:
            products[layer, :, head] = products[layer, :, :, head] = 0.0
        likeliest = np.array([[token] for token in (*target, FIRST)])
        looked = AttentionMaps(
            **maps,
            token_scores=np.full(rows, -0.1),
            candidate_ids=likeliest,
            candidate_scores=np.full((rows, 1), -0.1),
            value_products=products,
            forget_gates=np.full((2, rows), 0.25, dtype=np.float32)
            if self.decoder_heads == 0
            else None,
        )
        return JobResult(0, looked=looked, links=linked(words, looked))


def attention_result(cross: np.ndarray, words: PairWords | None) -> JobResult:
    """The result of an attention job whose one head of cross-attention has these weights (1, 1, T,
    S)."""
    empty = np.zeros((1, 1, 1, 1), dtype=np.float32)
    maps = AttentionMaps(
        cross=cross,
        encoder=empty,
        decoder=empty,
        token_scores=np.zeros(1, dtype=np.float32),
        candidate_ids=np.zeros((1, 1), dtype=np.int64),
        candidate_scores=np.zeros((1, 1), dtype=np.float32),
        value_products=np.ones((1, cross.shape[-1], 1, 1), dtype=np.float32),
    )
    return JobResult(0, looked=maps, links=linked(words, maps))


def linked(words: PairWords | None, maps: AttentionMaps) -> tuple[tuple[int, int, float], ...]:
    """The links of the mirrored words, by attention where they are not compared."""
    if words is None:
        return ()
    evidence = mirrored(*words.read) if words.read is not None else None
    return returned(word_links([(words, evidence, alignment_map(maps, FIRST_LAYER))]))[0]


def returned(steps):
    """The value that a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def mirrored(first: WordedSentence, second: WordedSentence) -> WordEvidence:
    """A word fits the one with the same characters in reverse order."""
    space = FIRST + ord(" ")
    characters = [
        [[i for i in sentence.ids[start:end] if i != space] for start, end in sentence.words]
        for sentence in (first, second)
    ]
    same = np.array(
        [[float(a == b[::-1]) for b in characters[1]] for a in characters[0]], dtype=np.float32
    )
    same = same.reshape(len(first.words), len(second.words))
    return WordEvidence(2 * same - 1, 8 * same - 9, 8 * same - 9)


FIRST_LAYER = AlignmentLayer(0)
"""The layer of cross-attention that aligns the words of fake models."""


def fake_model(
    name: str = "toy", pairs: Sequence[tuple[str, str]] | None = None, max_length: int = 256
) -> ServedModel:
    """A model between English, German and French in every direction with English, unless `pairs`
    says otherwise."""
    pairs = pairs or (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
    return ServedModel(
        name,
        Path("weights") / name,
        tuple(pairs),
        "CC0-1.0",
        max_length,
        FakeTokenizer(),
        FIRST_LAYER,
    )


def fake_catalog() -> ModelCatalog:
    return ModelCatalog([fake_model()])

"""Runs the models of one device: prefill, decode steps, attention passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from collections.abc import Sequence as Items
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from model.analysis.attention_alignment import chosen_alignment
from model.analysis.pair_alignment import (
    WordedSentence,
    WordEvidence,
    WordLink,
    WordReading,
    check_runs,
    word_evidence,
    word_links,
)
from model.analysis.tensors import check_followed, layer_tensors
from model.analysis.types import AttentionMaps, check_choice, check_head, check_pair
from model.search.backend_interface import supports_forced_steps
from model.search.driver import SearchDriver, search_kind
from model.search.search import Search
from server.engine.ipc.messages import (
    Failed,
    FailureKind,
    Job,
    JobResult,
    Look,
    ModelLoaded,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.backend_loader import LoadedModel, try_to_open
from server.engine.worker.device_config import failure_kind, find_device
from server.engine.worker.sequence import Sequence, shared_pass

_SHORT_PASS = 512
"""Tokens of looks up to which maps and words are computed in one pass."""


class ModelRunner:
    """Runs any number of models on one device. All methods are called from the worker's loop."""

    def __init__(self, options: WorkerOptions, index: int, pinned: bool = False) -> None:
        self._device = find_device(options, index, pinned)
        self.cuda = self._device.cuda
        if self.cuda:
            import torch

            # events, graphs and kernels use the thread's current device
            torch.cuda.set_device(self._device.device)
        self._options = options
        self._loader = ThreadPoolExecutor(1, "load")  # models load while the loop continues
        self._loads: list[Future[tuple[ModelLoaded, LoadedModel | None]]] = []
        self._models: dict[str, LoadedModel] = {}
        self._drivers: dict[str, SearchDriver] = {}
        self._searches: dict[int, Search] = {}
        self._ready = self._describe()

    # -- models
    # ----------------------------------------------------------------------------------------------

    def ready(self) -> WorkerReady:
        """Returns the device and how it computes."""
        return self._ready

    def load(self, model: str, folder: str, ends: int = 0) -> None:
        """Starts to load a model in a thread; `loaded` returns the outcome."""
        self._loads.append(
            self._loader.submit(try_to_open, model, folder, self._device, self._options, ends)
        )

    def loading(self) -> bool:
        """Returns whether `loaded` may return something soon."""
        return bool(self._loads)

    def loaded(self) -> list[ModelLoaded]:
        """Returns the loads that ended since the last call. Raises the error of one that broke the
        device."""
        answers = []
        while self._loads and self._loads[0].done():
            answer, loaded = self._loads.pop(0).result()
            answers.append(answer)
            if loaded is not None:
                self.attach(answer.model, loaded)
        return answers

    def attach(self, model: str, loaded: LoadedModel) -> None:
        """Uses a loaded model for jobs of the name `model`."""
        self._models[model] = loaded
        forbidden = loaded.folder.generation.forbidden
        self._drivers[model] = SearchDriver(loaded.backend, loaded.folder.model, forbidden)
        self._ready = self._describe()

    def slots(self, model: str) -> int:
        """Returns how many rows a loaded model decodes at once."""
        return self._models[model].backend.slots

    def reads_known(self, model: str) -> bool:
        """Returns whether a step may read several tokens of a given target."""
        return supports_forced_steps(self._models[model].backend)

    def unload(self, model: str) -> None:
        """Releases a model, which has no jobs any more."""
        del self._drivers[model]
        self._models.pop(model).backend.close()
        self._ready = self._describe()

    # -- jobs
    # ----------------------------------------------------------------------------------------------

    def refusal(self, job: Job) -> Failed | None:
        """Returns why the model cannot run this job, or None. An id outside the vocabulary would
        break a device."""
        options, backend = job.options, self._models[job.model].backend
        try:
            self._check(job)
        except ValueError as error:
            return Failed(job.id, "invalid", str(error))
        if options.shortlist and not backend.has_shortlist(options.shortlist):
            return Failed(
                job.id, "gone", "The shortlist with which this was translated is no longer there."
            )
        return None

    def _check(self, job: Job) -> None:
        """Raises ValueError for ids, heads, words and maps that the model does not have."""
        options, look = job.options, job.look
        first, target = options.first_token, (*options.prefix, *(options.target or ()))
        heads = list(options.masked_heads)
        config = self._models[job.model].folder.model
        check_pair(config, job.source, target if first is None else (first, *target))
        if look is not None:
            check_choice(config, look.choice)
            check_followed(config, look.choice.followed, job.source, target)
            heads += [] if look.vectors_of is None else [look.vectors_of]
            if look.words is not None:
                if look.choice.soft is None:
                    raise ValueError("Words are linked by a soft alignment, and none is chosen.")
                check_runs(look.words, (len(job.source), len(target)))
        for head in heads:
            check_head(config, head)

    def prefill(self, model: str, sequences: list[Sequence]) -> Callable[[], float | None]:
        """Encodes the sources of new sequences. Returns a function that returns the seconds for it,
        or None while a GPU has not done it: the host only queues its work."""
        begin = self._mark()
        config, generation = self._models[model].folder.model, self._models[model].folder.generation
        started = []
        for sequence in sequences:
            job = sequence.job
            search = search_kind(job.options)(
                job.options, config, job.source, generation, sequence.slots, sequence
            )
            self._searches[sequence.id] = search
            started.append(search)
        self._drivers[model].start(started)
        end = self._mark()
        if not self.cuda:
            return lambda: float(end - begin)
        return lambda: float(begin.elapsed_time(end)) / 1000 if end.query() else None

    def _mark(self) -> Any:
        """Returns the time, on a GPU an event at this point of its work."""
        if not self.cuda:
            return time.monotonic()
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def step(self, model: str, sequences: list[Sequence]) -> tuple[list[Sequence], int]:
        """Advances sequences by one token or a few, and sets the hypotheses of those that end.
        Returns the sequences that took steps, and how many: on a GPU those of the previous call."""
        running = [self._searches[sequence.id] for sequence in sequences]
        for search, sequence in zip(running, sequences, strict=True):
            search.room = sequence.room
        searches, steps = self._drivers[model].step(running)
        advanced = []
        for search in searches:
            if search.slots:  # not released meanwhile
                owner = search.owner
                advanced.append(owner)
                owner.read = max(1, (search.steps - owner.steps) // steps)
                owner.steps, owner.finite = search.steps, search.finite
                if search.done and search.finite:
                    owner.hypotheses, owner.trace = search.hypotheses(), tuple(search.trace)
        return advanced, steps

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        """Returns the tokens so far."""
        search = self._searches.get(sequence.id)
        return () if search is None else tuple(search.generated)

    def release(self, sequence: Sequence) -> None:
        """Frees the slots of a sequence."""
        search = self._searches.pop(sequence.id, None)
        if search is not None:
            self._drivers[sequence.job.model].stop(search)

    def attend(self, jobs: list[Job]) -> Generator[list[JobResult] | None, None, None]:
        """Runs looks that share a pass (`shared_pass`), or one look. Yields None after each part of
        the work, so that other jobs can run, and the results at the end."""
        backend, looks = self._models[jobs[0].model].backend, [job.look or Look() for job in jobs]
        options, choice = jobs[0].options, looks[0].choice
        hidden = () if options.first_token is None else (options.first_token,)
        pairs = [(job.source, (*hidden, *job.target)) for job in jobs]
        worded = [look.words for look in looks if look.words is not None]
        read = [words.read for words in worded if words.read is not None]
        readings: list[WordReading] = []
        short = sum(len(source) + len(target) for source, target in pairs) <= _SHORT_PASS
        if short and len(read) == len(jobs) and shared_pass(jobs[0]) is not None:
            found, readings = backend.linked_maps(pairs, choice, *both_sides(read))
        elif len(jobs) > 1:
            found = backend.soft_maps(pairs, choice)
        else:
            [(source, target)], vectors_of = pairs, looks[0].vectors_of
            masked, shortlist = options.masked_heads, options.shortlist
            maps_of_one = backend.attention_passes(
                source, target, masked, vectors_of, shortlist, choice.after(hidden)
            )
            found = [(yield from maps_of_one)]
            if len(source) + len(target) > _SHORT_PASS:
                yield None
        maps = []
        for each in found:
            maps.append((yield from chosen_alignment(each, choice)))
        if hidden:
            maps = [each.without_first_token(looks[0].vectors_of) for each in maps]
        if (followed := choice.followed) is not None:
            config = self._models[jobs[0].model].folder.model
            maps = [replace(each, tensors=layer_tensors(config, followed, each)) for each in maps]
        sentences, wanted = both_sides(read if not readings else ())
        for part in _parts(sentences):
            yield None
            readings += backend.read_words(sentences[part], wanted[part])
        links = yield from _links(looks, maps, iter(pairs_evidence(read, readings)))
        yield [
            JobResult(job.id, looked=each if look.maps else None, links=found)
            for job, look, each, found in zip(jobs, looks, maps, links, strict=True)
        ]

    @property
    def not_finite(self) -> str:
        """The message for a text that the model cannot compute in this precision."""
        dtype = self._device.dtype
        remedy = (
            " Start the server with --dtype float32."
            if dtype in ("float16", "bfloat16", "int8")
            else ""
        )
        return f"The model's numbers overflow in {dtype} for this text.{remedy}"

    def failure_kind(self, error: Exception) -> FailureKind | None:
        """See device_config.failure_kind."""
        return failure_kind(error, self._device)

    def _describe(self) -> WorkerReady:
        device = self._device
        slots = [loaded.backend.slots for loaded in self._models.values()]
        details = {"threads": str(device.threads), "slots": str(min(slots, default=device.slots))}
        if device.reason is not None:
            details["reason"] = device.reason
        for model, loaded in self._models.items():
            details[f"engine of {model}"] = loaded.engine
            details |= loaded.backend.details
            if loaded.reason is not None:
                details["reason"] = loaded.reason
        engine = ", ".join(sorted({loaded.engine for loaded in self._models.values()}))
        return WorkerReady(device.name, device.dtype, engine, details, device.gpus)


def _links(
    looks: Items[Look], maps: Items[AttentionMaps], evidence: Iterator[WordEvidence]
) -> Generator[None, None, list[tuple[WordLink, ...]]]:
    """Returns the links of each look, none without words; yields where other work may run."""
    pairs = []
    for look, each in zip(looks, maps, strict=True):
        if look.words is not None and each.soft is not None:
            pairs.append((look.words, next(evidence) if look.words.read else None, each.soft))
    found = iter((yield from word_links(pairs)))
    return [() if look.words is None else next(found) for look in looks]


def _parts(sentences: Items[WordedSentence]) -> Iterator[slice]:
    """Yields slices of sentences with at most _SHORT_PASS tokens, or of one sentence."""
    first = tokens = 0
    for number, sentence in enumerate(sentences):
        if number > first and tokens + len(sentence.ids) > _SHORT_PASS:
            yield slice(first, number)
            first, tokens = number, 0
        tokens += len(sentence.ids)
    if sentences:
        yield slice(first, len(sentences))


def both_sides(
    pairs: Items[tuple[WordedSentence, WordedSentence]],
) -> tuple[list[WordedSentence], list[tuple[int, ...]]]:
    """Returns the sentences of pairs, and for each the tokens to be read there: the beginnings of
    the words of the other one."""
    sentences = [sentence for pair in pairs for sentence in pair]
    return sentences, [other.beginnings for first, second in pairs for other in (second, first)]


def pairs_evidence(
    pairs: Items[tuple[WordedSentence, WordedSentence]], readings: Items[WordReading]
) -> list[WordEvidence]:
    """Returns how well the words of the sentences of each pair fit."""
    return [
        word_evidence(*pair, *readings[2 * number : 2 * number + 2])
        for number, pair in enumerate(pairs)
    ]

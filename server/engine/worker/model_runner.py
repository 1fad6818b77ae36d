"""Runs the models of one device: prefill, decode steps, attention passes."""

from __future__ import annotations

from model.analysis.pair_alignment import WordedSentence, WordEvidence, word_evidence
from model.backends.interface import InspectableBackend
from model.search.driver import RunningSearch, SearchDriver
from server.engine.ipc.messages import (
    AttentionJob,
    AttentionResult,
    FailureKind,
    ModelLoaded,
    TranslateJob,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker import job_check
from server.engine.worker.backend_loader import COMPILING
from server.engine.worker.device_config import find_device
from server.engine.worker.model_loader import ModelLoader, UpgradeOutcome
from server.engine.worker.runner_interface import FinishedSequence, LoadedModel, LoadOutcome, StepResult
from server.engine.worker.sequence import AttentionRequest, Sequence


class ModelRunner:
    """Implements `Runner` for one device and any number of models."""

    def __init__(self, options: WorkerOptions, index: int) -> None:
        self._device = find_device(options, index)
        if self._device.cuda:
            import torch

            torch.cuda.set_device(self._device.device)  # events, graphs and kernels use the thread's current device
        self._loader = ModelLoader(self._device, options)
        self._models: dict[int, LoadedModel] = {}
        self._drivers: dict[int, SearchDriver] = {}
        self._current: dict[str, LoadedModel] = {}
        self._searches: dict[int, RunningSearch] = {}
        self._ready = self._describe()

    # -- models --------------------------------------------------------------------------------------------------------

    def ready(self) -> WorkerReady:
        return self._ready

    def load(self, model: str, folder: str) -> None:
        self._loader.load(model, folder)

    def loading(self) -> bool:
        return self._loader.active()

    def loaded(self) -> list[LoadOutcome]:
        outcomes = []
        for outcome in self._loader.finished():
            if isinstance(outcome, LoadOutcome):
                outcomes.append(outcome)
            elif (upgraded := self._upgraded(outcome)) is not None:
                outcomes.append(upgraded)
        return outcomes

    def attach(self, queue_id: int, outcome: LoadOutcome) -> None:
        loaded = outcome.loaded
        if not isinstance(loaded, LoadedModel):
            raise TypeError(f"{type(loaded).__name__} is not a model of this runner.")
        config = loaded.folder.model
        self._models[queue_id] = self._current[outcome.model] = loaded
        self._drivers[queue_id] = SearchDriver(
            loaded.backend,
            end=config.eos_id,
            max_length=config.max_length,
            forbidden=loaded.folder.generation.forbidden,
        )
        self._ready = self._describe()
        if loaded.reason == COMPILING:
            self._loader.upgrade(outcome.model, loaded)

    def detach(self, queue_id: int) -> None:
        loaded = self._models.pop(queue_id)
        del self._drivers[queue_id]
        self._current = {model: current for model, current in self._current.items() if current is not loaded}
        loaded.backend.close()
        self._ready = self._describe()

    def _upgraded(self, outcome: UpgradeOutcome) -> LoadOutcome | None:
        """Returns the load of a faster backend; None where it failed or its model is not current any more."""
        model, better = outcome.model, outcome.better
        if better is None:
            outcome.previous.reason = outcome.reason
            self._ready = self._describe()
            return None
        if self._current.get(model) is not outcome.previous:  # unloaded or replaced in the meantime
            better.backend.close()
            return None
        answer = ModelLoaded(model, better.seconds)
        return LoadOutcome(model, better, self._device.slots, answer, announce=False)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def refusal(self, queue_id: int, job: TranslateJob | AttentionJob) -> str | None:
        return job_check.refusal(self._models[queue_id].folder, job)

    def prefill(self, queue_id: int, sequences: list[Sequence]) -> None:
        folder = self._models[queue_id].folder
        started = []
        for sequence in sequences:
            job = sequence.job
            search = RunningSearch(
                job_check.search_for(folder, job), job.source, sequence.slots, job.options.masked_heads
            )
            self._searches[sequence.id] = search
            started.append(search)
        self._drivers[queue_id].start(started)

    def step(self, queue_id: int, sequences: list[Sequence]) -> StepResult:
        running = [self._searches[sequence.id] for sequence in sequences]
        steps = self._drivers[queue_id].step(running)
        finished = []
        for sequence, item in zip(sequences, running, strict=True):
            sequence.steps = item.steps
            if item.search.done:
                finished.append(FinishedSequence(sequence, item.search.hypotheses(), tuple(item.search.trace)))
        return StepResult(steps, tuple(finished))

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        item = self._searches.get(sequence.id)
        return () if item is None else tuple(item.search.generated)

    def release(self, queue_id: int, sequence: Sequence) -> None:
        item = self._searches.pop(sequence.id, None)
        if item is not None:
            self._drivers[queue_id].stop(item)

    def attend(self, request: AttentionRequest) -> AttentionResult:
        backend, job = self._models[request.queue_id].backend, request.job
        hidden = () if job.first_token is None else (job.first_token,)
        maps = backend.attention_maps(job.source, (*hidden, *job.target), job.masked_heads, job.vectors_of)
        if hidden:
            maps = maps.without_first_token(job.vectors_of)
        return AttentionResult(job.id, maps, None if job.words is None else pair_evidence(backend, *job.words))

    def failure_kind(self, error: Exception) -> FailureKind | None:
        name, text = type(error).__name__, str(error)
        if isinstance(error, MemoryError) or name == "OutOfMemoryError" or "out of memory" in text:
            self._release_cached_memory()
            return "out_of_memory"
        if self._device.cuda and (name == "AcceleratorError" or "CUDA" in text or "cuDNN" in text):
            return None
        return "internal"

    def _release_cached_memory(self) -> None:
        """Returns memory that torch has cached to the device: the jobs that failed run again one by one."""
        if self._device.cuda:
            import torch

            torch.cuda.empty_cache()

    def _describe(self) -> WorkerReady:
        device, current = self._device, self._current
        details = {"threads": str(device.threads), "slots": str(device.slots)}
        for model, loaded in current.items():
            details[f"engine of {model}"] = loaded.engine
            details |= loaded.backend.details
            if loaded.reason is not None:
                details["reason"] = loaded.reason
        engine = ", ".join(sorted({loaded.engine for loaded in current.values()}))
        return WorkerReady(device.device, device.dtype, engine, details, device.count)


def pair_evidence(backend: InspectableBackend, first: WordedSentence, second: WordedSentence) -> WordEvidence:
    """Returns how well the words of two sentences fit. Raises ValueError for what the model cannot read."""
    reading, reverse = backend.read_words(first, second.beginnings), backend.read_words(second, first.beginnings)
    return word_evidence(first, second, reading, reverse)

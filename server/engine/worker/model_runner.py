"""Owner of the device in the worker process: models and their backends, prefill, decode steps, looks inside.

Loading and compiling happen in threads beside the loop; what they made is taken in between two steps.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue

from model.backends.cpu.backend import CpuBackend
from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from model.config import ModelConfig
from model.model_folder import FolderError
from model.search.base import Backend, Search, StepOutput, bursts, launches, new_search
from server.engine.ipc.messages import (
    AttentionJob,
    AttentionResult,
    FailureKind,
    ModelLoaded,
    TranslateJob,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.backend_loader import (
    COMPILING,
    Served,
    find_place,
    look_inside,
    measure,
    open_model,
    open_native,
    release,
)
from server.engine.worker.runner_interface import Finished, Loaded, Stepped
from server.engine.worker.sequence import Look, Sequence
from server.engine.worker.word_evidence import evidence

_BURST = 4
"""Steps that a device which chooses tokens itself runs before the host looks."""


class DeviceRunner:
    """One device, any number of models. Public methods are called from the worker's loop alone."""

    def __init__(self, options: WorkerOptions, index: int) -> None:
        self._options = options
        self._place = find_place(options, index)
        self._served: dict[int, Served] = {}
        self._current: dict[str, Served] = {}
        self._searches: dict[int, Search] = {}
        self._arriving: dict[int, list[Sequence]] = {}
        """Newcomers of each lane whose sources are not encoded yet."""
        self._threads: list[threading.Thread] = []
        self._one_load = threading.Lock()
        self._one_build = threading.Lock()
        self._outcomes: SimpleQueue[Callable[[], Loaded | None]] = SimpleQueue()
        self._ready = self._describe()

    # -- models --------------------------------------------------------------------------------------------------------

    def ready(self) -> WorkerReady:
        return self._ready

    def load(self, model: str, folder: str) -> None:
        """Begin to load; `loaded` has the outcome later."""
        self._beside(self._load, model, folder)

    def loading(self) -> bool:
        """Whether `loaded` may have something soon."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return bool(self._threads) or not self._outcomes.empty()

    def loaded(self) -> list[Loaded]:
        """What the threads finished since the last call."""
        outcomes = []
        while not self._outcomes.empty():
            outcomes.append(self._outcomes.get()())
        return [outcome for outcome in outcomes if outcome is not None]

    def attach(self, lane: int, loaded: Loaded) -> None:
        """The scheduler opened `lane` for a loaded model."""
        served = loaded.served
        if not isinstance(served, Served):
            raise TypeError(f"{type(served).__name__} is not a model of this runner.")
        self._served[lane] = self._current[loaded.model] = served
        self._ready = self._describe()
        if served.reason == COMPILING:
            self._beside(self._upgrade, loaded.model, served)

    def detach(self, lane: int) -> None:
        """Nobody is in `lane` any more."""
        served = self._served.pop(lane)
        self._current = {model: current for model, current in self._current.items() if current is not served}
        release(served)
        self._ready = self._describe()

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def refusal(self, lane: int, job: TranslateJob | AttentionJob) -> str | None:
        """One sentence why this job cannot be run on the lane's model; None if it can. A wrong id would break a device."""
        config = self._served[lane].folder.model
        if not 1 <= len(job.source) <= config.max_length:
            return f"A sentence has {len(job.source)} tokens; the model reads 1 to {config.max_length}."
        if max(job.source) >= (config.source_vocab_size or config.vocab_size) or min(job.source) < 0:
            return "A source token is outside the model's vocabulary."
        if isinstance(job, AttentionJob):
            target = job.target
            masked = job.masked_heads if job.vectors_of is None else (*job.masked_heads, job.vectors_of)
            if len(target) >= config.max_length:
                return f"The target has {len(target)} tokens; the model reads at most {config.max_length - 1}."
        else:
            target, masked = (*job.options.prefix, *(job.options.target or ())), job.options.masked_heads
            try:
                self._search(config, job)
            except ValueError as error:
                return str(error)
        if target and (max(target) >= config.vocab_size or min(target) < 0):
            return "A target token is outside the model's vocabulary."
        return _unknown_head(config, masked)

    def prefill(self, lane: int, sequences: list[Sequence]) -> None:
        """Encode newcomers as one batch; each begins in its first slot."""
        served = self._served[lane]
        for sequence in sequences:
            self._searches[sequence.id] = self._search(served.folder.model, sequence.job)
        if launches(served.backend):
            self._arriving.setdefault(lane, []).extend(sequences)  # encoded beside the next step of the others
        else:
            _encode(served.backend, sequences)

    def step(self, lane: int, sequences: list[Sequence]) -> Stepped:
        """One token for every hypothesis of `sequences`, or a few where the device can go on without being asked. Who is
        encoded beside it gets the first one in the next step."""
        arriving = self._arriving.pop(lane, [])
        if arriving and len(arriving) == len(sequences):
            _encode(self._served[lane].backend, arriving)
            arriving = []
        sequences = [sequence for sequence in sequences if sequence not in arriving] if arriving else sequences
        searches = [self._searches[sequence.id] for sequence in sequences]
        rows = [slot for at, search in zip(sequences, searches, strict=True) for slot in at.slots[: len(search.tokens)]]
        tokens = [token for search in searches for token in search.tokens]
        served = self._served[lane]
        steps = self._burst(served, sequences, searches)
        forced = [token for search in searches for token in search.forced]
        candidates = max(search.candidates for search in searches)
        if launches(served.backend):
            room = max((len(sequence.job.source) for sequence in arriving), default=0)
            flight = served.backend.launch(rows, tokens, candidates, forced, steps, room)
            try:
                _encode(served.backend, arriving)
            finally:
                outputs = flight.outputs()
        elif steps > 1 and bursts(served.backend):
            outputs = served.backend.burst(rows, tokens, steps)
        else:
            outputs = [served.backend.step(rows, tokens, candidates, forced)]
        written = sum(self._take(served.backend, sequences, searches, output) for output in outputs)
        self._start_anew(served.backend, sequences, searches)
        finished = tuple(
            Finished(sequence, search.hypotheses(), tuple(search.trace))
            for sequence, search in zip(sequences, searches, strict=True)
            if search.done
        )
        return Stepped(len(outputs), written, finished)

    @staticmethod
    def _burst(served: Served, sequences: list[Sequence], searches: list[Search]) -> int:
        """How many steps may run before the host looks: more than one only if each row just follows its likeliest token."""
        if not bursts(served.backend) or any(
            search.candidates > 1 or search.forced[0] >= 0 for search in searches
        ):
            return 1
        room = served.folder.model.max_length - max(sequence.steps for sequence in sequences)
        return max(1, min(_BURST, room))

    @staticmethod
    def _take(backend: Backend, sequences: list[Sequence], searches: list[Search], output: StepOutput) -> int:
        """Tell every search that still runs what the step brought; returns how many got a token."""
        targets: list[int] = []
        origins: list[int] = []
        begin = written = 0
        for sequence, search in zip(sequences, searches, strict=True):
            end = begin + len(search.tokens)
            if not search.done and not search.again:
                sequence.steps += 1
                written += 1
                for row, parent in enumerate(search.advance(output.ids[begin:end], output.scores[begin:end])):
                    if row != parent:
                        targets.append(sequence.slots[row])
                        origins.append(sequence.slots[parent])
            begin = end
        if targets:
            backend.reorder(targets, origins)
        return written

    @staticmethod
    def _start_anew(backend: Backend, sequences: list[Sequence], searches: list[Search]) -> None:
        """Start the rows of searches that begin again."""
        again = [(sequence, search) for sequence, search in zip(sequences, searches, strict=True) if search.again]
        if again:
            jobs = [sequence.job for sequence, _ in again]
            masked = [job.options.masked_heads for job in jobs]
            backend.free([slot for sequence, _ in again for slot in sequence.slots])
            first = [sequence.slots[0] for sequence, _ in again]
            backend.prefill([job.source for job in jobs], first, masked if any(masked) else ())
        for sequence, search in again:
            search.again, sequence.steps = False, 0

    def progress(self, sequence: Sequence) -> tuple[int, ...]:
        """Tokens so far; a beam has none before it ends."""
        search = self._searches.get(sequence.id)
        return () if search is None else tuple(search.written)

    def release(self, lane: int, sequence: Sequence) -> None:
        """Its slots are for others now."""
        self._searches.pop(sequence.id, None)
        if sequence in self._arriving.get(lane, ()):
            self._arriving[lane].remove(sequence)
        self._served[lane].backend.free(sequence.slots)

    def attend(self, look: Look) -> AttentionResult:
        """One teacher-forced pass on the engine that decodes: its maps are those of the decode."""
        backend, words = self._served[look.lane].backend, look.job.words
        maps = look_inside(backend, look.job)
        return AttentionResult(look.id, maps, None if words is None else evidence(backend, *words))

    def blame(self, error: Exception) -> FailureKind | None:
        """What kind of failure this is; None where the device is broken and only a new process helps."""
        name, text = type(error).__name__, str(error)
        if isinstance(error, MemoryError) or name == "OutOfMemoryError" or "out of memory" in text:
            self._make_room()
            return "out_of_memory"
        if self._place.cuda and (name == "AcceleratorError" or "CUDA" in text or "cuDNN" in text):
            return None
        return "internal"

    def _make_room(self) -> None:
        """Give memory that torch keeps for later back to the device: what failed is tried again in smaller pieces."""
        if self._place.cuda:
            import torch

            torch.cuda.empty_cache()

    # -- beside the loop -----------------------------------------------------------------------------------------------

    def _beside(self, action: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=action, args=arguments, name=action.__name__, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _load(self, model: str, folder: str) -> None:
        served: Served | None = None
        parameters = size = 0
        error: str | None = None
        with self._one_load:
            try:
                served = open_model(folder, self._place, self._options)
                parameters, size = measure(served.folder)
            except FolderError as reason:
                error = str(reason)
            except Exception as reason:  # noqa: BLE001  a load that fails in any way is answered
                traceback.print_exc()
                error = f"The model could not be loaded: {type(reason).__name__}."
            answer = ModelLoaded(model, parameters, size, served.seconds if served else 0.0, error)
            outcome = Loaded(model, served, self._place.slots, answer)
            self._outcomes.put(lambda: outcome)

    def _upgrade(self, model: str, served: Served) -> None:
        """Compile the native engine and move the model to it."""
        with self._one_build:
            try:
                better = open_native(served.folder, build(isa=self._options.isa), self._place)
            except (CpuBackendUnavailable, FolderError, OSError) as reason:
                text = str(reason)
                self._outcomes.put(lambda: self._stay(served, text))
                return
        self._outcomes.put(lambda: self._move(model, served, better))

    def _stay(self, served: Served, reason: str) -> None:
        served.reason = reason
        self._ready = self._describe()

    def _move(self, model: str, served: Served, better: Served) -> Loaded | None:
        if self._current.get(model) is not served:  # unloaded or replaced meanwhile
            release(better)
            return None
        return Loaded(model, better, self._place.slots, ModelLoaded(model, 0, 0, better.seconds), announce=False)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _describe(self) -> WorkerReady:
        place, current = self._place, self._current
        details = {"threads": str(place.threads), "slots": str(place.slots)}
        for model, served in current.items():
            details[f"engine of {model}"] = served.engine
            if isinstance(served.backend, CpuBackend):
                details["isa"] = served.backend.engine.isa
            if served.reason is not None:
                details["reason"] = served.reason
        engine = ", ".join(sorted({served.engine for served in current.values()}))
        return WorkerReady(place.device, place.dtype, engine, details, place.count)

    @staticmethod
    def _search(config: ModelConfig, job: TranslateJob) -> Search:
        return new_search(
            job.options,
            start=config.decoder_start_id,
            end=config.eos_id,
            source=job.source,
            max_length=config.max_length,
        )


def _encode(backend: Backend, sequences: list[Sequence]) -> None:
    """Encode newcomers, if there are any, as one batch."""
    if sequences:
        masked = [sequence.job.options.masked_heads for sequence in sequences]
        sources = [sequence.job.source for sequence in sequences]
        backend.prefill(sources, [sequence.slots[0] for sequence in sequences], masked if any(masked) else ())


def _unknown_head(config: ModelConfig, masked: tuple[tuple[str, int, int], ...]) -> str | None:
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
    for kind, layer, head in masked:
        if not (0 <= layer < layers.get(kind, 0) and 0 <= head < config.heads):
            return f"There is no {kind} head {head} in layer {layer}."
    return None

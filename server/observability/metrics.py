"""Prometheus metrics. No label contains text, a key, an address or an id."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from server.config import set_variable
from server.engine.client.status import WorkerStatus
from server.engine.ipc.messages import JobResult, StepStats

# Without it, each counter has a second series with the time at which it was created.
disable_created_metrics()  # type: ignore[no-untyped-call]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
)
STEP_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
RATIOS = tuple(tenth / 10 for tenth in range(11))
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FLAGS = (
    "truncated repetition omission copied wrong_language source_language number low_confidence "
    "placeholder_restored"
).split()
SENTENCE_TIMES = {
    "request_queue": "Time a sentence waited for a slot.",
    "request_encode": "Time a sentence spent in prefill.",
    "request_decode": "Time a sentence spent in decode steps.",
    "request_latency": "Time from sending a sentence to the worker to its answer.",
    "time_to_first_token": "Time from a sentence's arrival in the worker to its first token.",
}


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU by its number in the driver: bytes of memory used by all processes and in all, and
    the part of the last moments in which it computed."""

    gpu: str
    memory_used: int
    memory_total: int
    utilization: float


def read_gpus() -> list[GpuUse]:
    """Returns the GPUs that NVML can read; none without the package nvidia-ml-py or a driver."""
    nvml = _library()
    if nvml is None:
        return []
    gpus: list[GpuUse] = []
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:  # the driver is gone
        return gpus
    for number in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except nvml.NVMLError:  # lost, or a part of a GPU, which has no utilization
            continue
        gpus.append(GpuUse(str(number), memory.used, memory.total, busy))
    return gpus


@cache
def _library() -> Any:
    """Returns the initialized library, None where there is none."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver
        return None
    return nvml


class Totals(Collector):
    """A counter of one thread: `values` by labels are plain numbers. prometheus_client's takes a
    lock for each addition."""

    def __init__(
        self, name: str, help: str, labels: Sequence[str] = (), *, registry: CollectorRegistry
    ) -> None:
        self.values: defaultdict[tuple[str, ...], float] = defaultdict(
            float, {} if labels else {(): 0.0}
        )
        self._family = partial(CounterMetricFamily, name, help, labels=labels)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = self._family()
        for labels, value in [*self.values.items()]:
            family.add_metric(labels, value)
        yield family


class Distribution(Collector):
    """A histogram of one thread, as Totals."""

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._bounds = buckets
        self._names = [*map(floatToGoString, buckets), "+Inf"]
        self._series: dict[tuple[str, ...], list[float]] = {}
        self._family = partial(HistogramMetricFamily, name, help, labels=labels)
        if not labels:
            self._begin()
        registry.register(self)

    def _begin(self, *labels: str) -> list[float]:
        return self._series.setdefault(labels, [0.0] * (len(self._names) + 1))

    def observe(self, value: float, *labels: str) -> None:
        """Adds a value to the series of these labels."""
        numbers = self._series.get(labels) or self._begin(*labels)
        numbers[bisect_left(self._bounds, value)] += 1.0
        numbers[-1] += value

    def collect(self) -> Iterable[Metric]:
        family = self._family()
        for labels, (*counts, total) in [*self._series.items()]:
            family.add_metric(labels, [*zip(self._names, accumulate(counts), strict=True)], total)
        yield family


class SharedTotals:
    """A counter of one of several processes, as Totals: each addition is written to a file of
    `share_metrics`."""

    class Values(defaultdict[tuple[str, ...], float]):
        """Numbers by labels."""

        def __init__(self, counter: Counter) -> None:
            super().__init__(float)
            self._series: dict[tuple[str, ...], Any] = {}
            self._counter = counter

        def __setitem__(self, labels: tuple[str, ...], value: float) -> None:
            if (series := self._series.get(labels)) is None:
                series = self._series[labels] = (
                    self._counter.labels(*labels) if labels else self._counter
                )
            series.inc(value - self.get(labels, 0.0))
            super().__setitem__(labels, value)

    def __init__(
        self, name: str, help: str, labels: Sequence[str] = (), *, registry: CollectorRegistry
    ) -> None:
        self.values = self.Values(Counter(name, help, labels, registry=registry))


class SharedDistribution:
    """A histogram of one of several processes, as Distribution."""

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._histogram = Histogram(name, help, labels, buckets=buckets, registry=registry)
        self._series: dict[tuple[str, ...], Histogram] = {} if labels else {(): self._histogram}

    def observe(self, value: float, *labels: str) -> None:
        """Adds a value to the series of these labels."""
        if (series := self._series.get(labels)) is None:
            series = self._series[labels] = self._histogram.labels(*labels)
        series.observe(value)


def share_metrics(folder: Path) -> None:
    """Keeps all values in files of a folder from now on: those of all processes are added up, and
    of those that have ended."""
    set_variable("PROMETHEUS_MULTIPROC_DIR", str(folder))
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


class Metrics:
    """Counters, gauges and histograms of one server, in a separate registry. `shared` says that the
    values are in the folder of `share_metrics`.

    A "request" in `attentive_request_*` and `attentive_requests_*` is one sentence that was sent to
    a worker. HTTP requests are counted by `attentive_http_*`. All times are in seconds.
    """

    def __init__(self, version: str, shared: bool = False) -> None:
        self.registry = CollectorRegistry()
        own = CollectorRegistry() if shared else self.registry  # which is not rendered
        counter = partial(Counter, registry=own)
        gauge = partial(Gauge, registry=own, multiprocess_mode="max")
        histogram: Any = partial(SharedDistribution if shared else Distribution, registry=own)
        totals: Any = partial(SharedTotals if shared else Totals, registry=own)
        self._http = totals(
            "attentive_http_requests", "HTTP requests answered.", ("route", "method", "status")
        )
        self._http_seconds = histogram(
            "attentive_http_request_duration_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("route",),
            buckets=SECONDS,
        )
        self.rejected = counter(
            "attentive_requests_rejected",
            "HTTP requests refused because the queue was full, a limit was reached or the time was "
            "too short.",
            ("reason",),
        )
        self._cancelled = counter(
            "attentive_requests_cancelled", "Sentences cancelled because their callers had left."
        )
        self._failed = counter("attentive_request_failures", "Sentences that failed.", ("kind",))
        self._ended = totals(
            "attentive_request_success",
            "Sentences translated, by how decoding ended.",
            ("finish_reason",),
        )
        for reason in ("stop", "length"):
            self._ended.values[reason,] = 0.0
        self.flagged = counter(
            "attentive_sentences_flagged",
            "Sentences whose first translation has a flag, by flag.",
            ("reason",),
        )
        self.retried = counter(
            "attentive_sentences_retried",
            "Flagged sentences translated again, by the translation that was kept.",
            ("kept",),
        )
        self.reranked = counter(
            "attentive_sentences_reranked",
            "Sentences reranked with the reverse direction, by the hypothesis that came first: "
            "that of the search or another.",
            ("first",),
        )
        self._source_tokens = totals(
            "attentive_source_tokens", "Source tokens of translated sentences."
        )
        self._generated_tokens = totals(
            "attentive_generated_tokens", "Tokens of the best hypotheses of translated sentences."
        )
        self._seconds = [
            histogram(f"attentive_{name}_seconds", help, buckets=SECONDS)
            for name, help in SENTENCE_TIMES.items()
        ]
        self._batch_size = histogram("attentive_batch_size", "Rows per decode step.", buckets=ROWS)
        self._padding = histogram(
            "attentive_batch_padding_ratio",
            "Padding among the tokens of a prefill.",
            buckets=RATIOS,
        )
        self._step_seconds = histogram(
            "attentive_decode_step_seconds", "Time of one decode step.", buckets=STEP_SECONDS
        )
        gauge("attentive_build_info", "Version of the server.", ("version",)).labels(version).set(1)
        if shared:
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
            self.registry.register(ProcessesCollector())
        else:
            ProcessCollector(registry=self.registry)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Creates the series of all known labels, so that rates include the first event of each."""
        for counter, labels in (
            (self.rejected, ("queue", "deadline", "caller", "rate", "quota")),
            (self.flagged, FLAGS),
            (self.retried, ("first", "retry")),
            (self.reranked, ("search", "other")),
        ):
            for label in labels:
                counter.labels(label)

    def http(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts one answered HTTP request. `route` is the template of the path."""
        self._http.values[route, method, str(status)] += 1
        self._http_seconds.observe(seconds, route)

    def cancelled(self) -> None:
        """Counts one cancelled sentence."""
        self._cancelled.inc()

    def failed(self, kind: str) -> None:
        """Counts one failed sentence by the kind of its WorkerFailure."""
        self._failed.labels(kind).inc()

    def translated(self, source_tokens: int, answer: JobResult, seconds: float) -> None:
        """Counts one sentence that was translated `seconds` after it was sent to a worker."""
        best, timings = answer.hypotheses[0], answer.timings
        self._ended.values[best.finish_reason,] += 1
        self._source_tokens.values[()] += source_tokens
        self._generated_tokens.values[()] += len(best.token_scores)
        times = (timings.queue, timings.encode, timings.decode, seconds, timings.first_token)
        for histogram, value in zip(self._seconds, times, strict=True):
            histogram.observe(value)

    def record_step(self, stats: StepStats) -> None:
        """Records the steps of a worker since its previous report."""
        if stats.prefill_padded_tokens:
            self._padding.observe(1 - stats.prefill_tokens / stats.prefill_padded_tokens)
        for rows, seconds in stats.steps:
            self._batch_size.observe(rows)
            self._step_seconds.observe(seconds)

    def render(self) -> bytes:
        """Returns all metrics in the text format of `CONTENT_TYPE`."""
        return generate_latest(self.registry)


class ProcessesCollector(Collector):
    """What ProcessCollector reads of the processes of a server, which are the parent of this one
    and its children: added up, or that of the process with the most open files."""

    _combine = {"process_start_time_seconds": min, "process_max_fds": min, "process_open_fds": max}  # noqa: RUF012

    def collect(self) -> Iterable[Metric]:
        """Yields the current values; none where there is no /proc."""
        parent, values = os.getppid(), dict[str, list[Metric]]()
        with contextlib.suppress(OSError):
            children = (
                Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
            )
            for pid in (str(parent), *children):
                for metric in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                    values.setdefault(metric.name, []).append(metric)
        for name, metrics in values.items():
            numbers = [metric.samples[0].value for metric in metrics]
            first = metrics[0]
            first.samples[0] = first.samples[0]._replace(
                value=self._combine.get(name, sum)(numbers)
            )
            yield first


class StateCollector(Collector):
    """Reads the state of workers, queue, history and GPUs at each scrape. `status` and `counters`
    return without blocking, `gpus` after milliseconds."""

    def __init__(
        self,
        status: Callable[[], WorkerStatus],
        counters: Callable[[], Mapping[str, float]],
        gpus: Callable[[], Sequence[GpuUse]] = read_gpus,
    ) -> None:
        self._status, self._counters, self._gpus = status, counters, gpus

    def _gpu_use(self) -> Iterable[Metric]:
        used = GaugeMetricFamily(
            "attentive_gpu_memory_used_bytes", "Memory of a GPU in use.", labels=("gpu",)
        )
        total = GaugeMetricFamily("attentive_gpu_memory_bytes", "Memory of a GPU.", labels=("gpu",))
        busy = GaugeMetricFamily(
            "attentive_gpu_utilization_ratio", "Part of the time a GPU computes.", labels=("gpu",)
        )
        for gpu in self._gpus():
            used.add_metric((gpu.gpu,), gpu.memory_used)
            total.add_metric((gpu.gpu,), gpu.memory_total)
            busy.add_metric((gpu.gpu,), gpu.utilization)
        return used, total, busy

    def collect(self) -> Iterable[Metric]:
        """Yields the current values."""
        status = self._status()
        up = GaugeMetricFamily(
            "attentive_worker_up", "Whether the worker of a device takes jobs.", labels=("device",)
        )
        hangs = CounterMetricFamily(
            "attentive_worker_hangs",
            "Workers that were killed because they hung.",
            labels=("device",),
        )
        for worker in status.workers:
            up.add_metric((worker.device,), float(worker.up))
            hangs.add_metric((worker.device,), worker.hangs)
        models = GaugeMetricFamily(
            "attentive_model_info", "Models that are served.", labels=("model", "dtype", "device")
        )
        for model in status.models:
            models.add_metric((model, status.dtype, status.device), 1.0)
        engine = GaugeMetricFamily(
            "attentive_engine_info",
            "How each worker decodes: path, number format, whose kernels a GPU runs, and why it is "
            "not faster.",
            labels=("worker", "device", "engine", "dtype", "kernels", "reason"),
        )
        for number, worker in enumerate(status.workers):
            engine.add_metric(
                (
                    str(number),
                    worker.device,
                    worker.engine,
                    worker.dtype,
                    worker.kernels,
                    worker.reason,
                ),
                float(worker.up),
            )
        restarts = CounterMetricFamily(
            "attentive_worker_restarts", "Workers that were started again."
        )
        restarts.add_metric((), status.restarts)
        yield from (up, models, engine, restarts, hangs)
        yield from self._gpu_use()
        used, total = (
            sum(r.slots_used for r in status.reports),
            sum(r.slots_total for r in status.reports),
        )
        for name, help, value in (
            (
                "attentive_requests_running",
                "Sentences being decoded.",
                sum(r.running for r in status.reports),
            ),
            (
                "attentive_requests_waiting",
                "Sentences waiting in the worker.",
                sum(r.waiting for r in status.reports),
            ),
            (
                "attentive_kv_slots_in_use_ratio",
                "Key and value slots in use.",
                used / total if total else 0.0,
            ),
        ):
            yield GaugeMetricFamily(name, help, value)
        for name, value in self._counters().items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(f"attentive_{name.removesuffix('_total')}", DESCRIPTIONS[name], value=value)


DESCRIPTIONS = {
    "models_missing": "Models of --models that are not served yet.",
    "models_failed": "Model folders that cannot be used.",
    "data_free_ratio": "Free part of the disk of --data. Only with --data.",
    "queue_device_seconds": "Seconds that accepted and unanswered requests take of a device, by "
    "what workers measured.",
    "queue_tokens": "Source tokens, times beam, of requests accepted and not yet answered; "
    "alignments by their time.",
    "queue_requests": "Translation requests accepted and not yet answered.",
    "requests_shared_total": "Sentences that shared the computation of an identical one in flight.",
    "history_hits_total": "Look-ups by id that found their translation.",
    "history_misses_total": "Look-ups by id that found nothing.",
    "state_up": "Whether the shared state (Redis) can be reached. Only with --state redis://.",
    "state_errors_total": "Failed operations on the shared state (Redis). Only with --state "
    "redis://.",
    "history_errors_total": "Failures of the stored history; its records wait to be written later.",
    "history_lost_total": "Translations dropped from the history before they were written.",
    "cache_hits_total": "Texts whose translation was in the result cache.",
    "cache_misses_total": "Texts that were looked up in the result cache and translated.",
    "cache_shared_hits_total": "Those of the hits that another server, or this one earlier, had "
    "stored in Redis.",
    "cache_bytes": "Approximate bytes of the result cache in memory.",
}

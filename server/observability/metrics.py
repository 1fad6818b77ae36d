"""Prometheus metrics. No label contains text, a key, an address or an id."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from server.engine.client.status import WorkerStatus
from server.engine.ipc.messages import JobResult, StepStats
from server.observability.numbers import Labels, Numbers, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
)  # fmt: skip
STEP_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
RATIOS = tuple(tenth / 10 for tenth in range(11))
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FLAGS = (
    "truncated", "repetition", "omission", "copied", "wrong_language", "source_language", "number",
    "low_confidence", "placeholder_restored",
)  # fmt: skip
SENTENCE_TIMES = {
    "request_queue": "Time a sentence waited for a slot.",
    "request_encode": "Time a sentence spent in prefill.",
    "request_decode": "Time a sentence spent in decode steps.",
    "request_latency": "Time from sending a sentence to the worker to its answer.",
    "time_to_first_token": "Time from a sentence's arrival in the worker to its first token.",
}


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU: its number in the driver, bytes of memory, and the part of the last moments in which
    it computed."""

    gpu: str
    memory_used: int
    memory_total: int
    utilization: float


def read_gpus() -> list[GpuUse]:
    """Returns the GPUs that NVML can read: none without the package nvidia-ml-py or a driver."""
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
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver
        return None
    return nvml


class Totals:
    """A counter of plain numbers: prometheus_client's takes a lock for each addition."""

    def __init__(
        self, numbers: Numbers, name: str, help: str, labels: Sequence[str] = (), known: Labels = ()
    ) -> None:
        """`known` are values of the only label that are shown from the beginning."""
        self.name, self._numbers = name, numbers
        self._series: dict[Labels, Series] = {}
        self._family = partial(CounterMetricFamily, name, help, labels=labels)
        for begun in [(value,) for value in known] if labels else [()]:
            self._begin(*begun)

    def _begin(self, *labels: str) -> Series:
        self._series[labels] = series = self._numbers.series(self.name, labels, 1)
        return series

    def add(self, *labels: str, amount: float = 1.0) -> None:
        (self._series.get(labels) or self._begin(*labels))[0] += amount

    def family(self, series: Mapping[Labels, Sequence[float]]) -> Metric:
        """Returns the metric of these numbers."""
        family = self._family()
        for labels, [value] in series.items():
            family.add_metric(labels, value)
        return family


class Distribution:
    """A histogram of plain numbers: values in each bucket, and their sum."""

    def __init__(
        self,
        numbers: Numbers,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
    ) -> None:
        self.name, self._numbers, self._bounds = name, numbers, buckets
        self._names = [*map(floatToGoString, buckets), "+Inf"]
        self.series: dict[Labels, Series] = {}
        self._family = partial(HistogramMetricFamily, name, help, labels=labels)
        if not labels:
            self._begin()

    def _begin(self, *labels: str) -> Series:
        series = self._numbers.series(self.name, labels, len(self._names) + 1)
        self.series[labels] = series
        return series

    def observe(self, value: float, *labels: str) -> None:
        numbers = self.series.get(labels) or self._begin(*labels)
        numbers[bisect_left(self._bounds, value)] += 1.0
        numbers[-1] += value

    def family(self, series: Mapping[Labels, Sequence[float]]) -> Metric:
        """Returns the metric of these numbers."""
        family = self._family()
        for labels, (*counts, total) in series.items():
            family.add_metric(labels, [*zip(self._names, accumulate(counts), strict=True)], total)
        return family


class Families(Collector):
    """Collects the counters and histograms of all processes, and the version of the server."""

    def __init__(self, numbers: Numbers, version: str) -> None:
        self._numbers, self._version = numbers, version
        self._families: list[Totals | Distribution] = []

    def totals(self, *arguments: Any, **options: Any) -> Totals:
        """Adds a counter."""
        self._families.append(made := Totals(self._numbers, *arguments, **options))
        return made

    def distribution(self, *arguments: Any, **options: Any) -> Distribution:
        """Adds a histogram."""
        self._families.append(made := Distribution(self._numbers, *arguments, **options))
        return made

    def collect(self) -> Iterable[Metric]:
        """Yields the current values."""
        numbers = self._numbers.totals()
        for each in self._families:
            yield each.family(numbers.get(each.name, {}))
        yield family(
            GaugeMetricFamily, "build_info", "Version of the server.", ["version"],
            [([self._version], 1)],
        )  # fmt: skip


class Metrics:
    """The metrics of one server in a registry. Each of several processes has its own `file` in one
    folder.

    A "request" in `attentive_request_*` and `attentive_requests_*` is a sentence that was sent to a
    worker; `attentive_http_*` count HTTP requests. Times are in seconds.
    """

    def __init__(self, version: str, file: Path | None = None) -> None:
        self.registry = CollectorRegistry()
        families = Families(Numbers(file), version)
        totals, histogram = families.totals, families.distribution
        self._http = totals(
            "attentive_http_requests", "HTTP requests answered.", ("route", "method", "status")
        )
        self._http_seconds = histogram(
            "attentive_http_request_duration_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("route",),
            buckets=SECONDS,
        )
        self.rejected = totals(
            "attentive_requests_rejected",
            "HTTP requests refused because the queue was full, a limit was reached or the time was "
            "too short.",
            ("reason",),
            known=("queue", "deadline", "caller", "rate", "quota"),
        )
        self._cancelled = totals(
            "attentive_requests_cancelled", "Sentences cancelled because their callers had left."
        )
        self._failed = totals("attentive_request_failures", "Sentences that failed.", ("kind",))
        self._ended = totals(
            "attentive_request_success",
            "Sentences translated, by how decoding ended.",
            ("finish_reason",),
            known=("stop", "length"),
        )
        self.flagged = totals(
            "attentive_sentences_flagged",
            "Sentences whose first translation has a flag, by flag.",
            ("reason",),
            known=FLAGS,
        )
        self.retried = totals(
            "attentive_sentences_retried",
            "Flagged sentences translated again, by the translation that was kept.",
            ("kept",),
            known=("first", "retry"),
        )
        self.reranked = totals(
            "attentive_sentences_reranked",
            "Sentences reranked with the reverse direction, by the hypothesis that came first: "
            "that of the search or another.",
            ("first",),
            known=("search", "other"),
        )
        self._source_tokens = totals(
            "attentive_source_tokens", "Source tokens of translated sentences."
        )
        self._generated_tokens = totals(
            "attentive_generated_tokens", "Tokens of the best hypotheses of translated sentences."
        )
        self._seconds = [
            histogram(f"attentive_{name}_seconds", help, buckets=SECONDS).series[()]
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
        self.registry.register(families)
        self.registry.register(
            ProcessCollector(registry=None) if file is None else ProcessesCollector()
        )

    def http(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered HTTP request. `route` is the template of the path."""
        self._http.add(route, method, str(status))
        self._http_seconds.observe(seconds, route)

    def cancelled(self) -> None:
        self._cancelled.add()

    def failed(self, kind: str) -> None:
        self._failed.add(kind)

    def translated(self, source_tokens: int, answer: JobResult, seconds: float) -> None:
        """Counts a sentence that was translated in `seconds`."""
        best, timings = answer.hypotheses[0], answer.timings
        self._ended.add(best.finish_reason)
        self._source_tokens.add(amount=source_tokens)
        self._generated_tokens.add(amount=len(best.token_scores))
        times = (timings.queue, timings.encode, timings.decode, seconds, timings.first_token)
        for numbers, value in zip(self._seconds, times, strict=True):
            numbers[bisect_left(SECONDS, value)] += 1.0
            numbers[-1] += value

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
    """Combines what ProcessCollector reads of the processes of a server, which are the parent of
    this one and its children."""

    _combine = {"process_start_time_seconds": min, "process_max_fds": min, "process_open_fds": max}  # noqa: RUF012

    def collect(self) -> Iterable[Metric]:
        """Yields the current values; none without /proc."""
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


def family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    help: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    """Returns a metric with the values of its labels and the number of each sample."""
    metric = kind(f"attentive_{name}", help, labels=labels)
    for values, number in samples:
        metric.add_metric(values, float(number))
    return metric


class StateCollector(Collector):
    """Reads the state of workers, queue, history and GPUs at each scrape."""

    def __init__(
        self,
        status: Callable[[], WorkerStatus],
        counters: Callable[[], Mapping[str, float]],
        gpus: Callable[[], Sequence[GpuUse]] = read_gpus,
    ) -> None:
        self._status, self._counters, self._gpus = status, counters, gpus

    def collect(self) -> Iterable[Metric]:
        """Yields the current values."""
        status, gpus = self._status(), self._gpus()
        workers, reports = status.workers, status.reports
        yield family(
            GaugeMetricFamily, "worker_up", "Whether the worker of a device takes jobs.",
            ["device"], [([worker.device], worker.up) for worker in workers],
        )  # fmt: skip
        yield family(
            GaugeMetricFamily, "model_info", "Models that are served.", ["model", "dtype", "device"],
            [([model, status.dtype, status.device], 1) for model in status.models],
        )  # fmt: skip
        yield family(
            GaugeMetricFamily,
            "engine_info",
            "How each worker decodes: path, number format, whose kernels a GPU runs, and why it is "
            "not faster.",
            ["worker", "device", "engine", "dtype", "kernels", "reason"],
            [
                ([str(number), each.device, each.engine, each.dtype, each.kernels, each.reason], each.up)
                for number, each in enumerate(workers)
            ],
        )  # fmt: skip
        yield family(
            CounterMetricFamily, "worker_restarts", "Workers that were started again.",
            [], [([], status.restarts)],
        )  # fmt: skip
        yield family(
            CounterMetricFamily, "worker_hangs", "Workers that were killed because they hung.",
            ["device"], [([worker.device], worker.hangs) for worker in workers],
        )  # fmt: skip
        for name, help, values in (
            ("gpu_memory_used_bytes", "Memory of a GPU in use.", [gpu.memory_used for gpu in gpus]),
            ("gpu_memory_bytes", "Memory of a GPU.", [gpu.memory_total for gpu in gpus]),
            (
                "gpu_utilization_ratio",
                "Part of the time a GPU computes.",
                [gpu.utilization for gpu in gpus],
            ),
        ):
            samples = [([gpu.gpu], value) for gpu, value in zip(gpus, values, strict=True)]
            yield family(GaugeMetricFamily, name, help, ["gpu"], samples)
        used, total = [
            sum([getattr(report, name) for report in reports])
            for name in ("slots_used", "slots_total")
        ]
        for name, help, value in (
            ("requests_running", "Sentences being decoded.", sum([r.running for r in reports])),
            (
                "requests_waiting",
                "Sentences waiting in the worker.",
                sum([r.waiting for r in reports]),
            ),
            (
                "kv_slots_in_use_ratio",
                "Key and value slots in use.",
                used / total if total else 0.0,
            ),
        ):
            yield family(GaugeMetricFamily, name, help, [], [([], value)])
        for name, value in self._counters().items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            samples = [([], value)]
            yield family(kind, name.removesuffix("_total"), DESCRIPTIONS[name], [], samples)


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

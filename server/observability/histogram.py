"""A Prometheus histogram that is cheap to write to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Histogram(Collector):
    """A histogram that is cheaper to write to than prometheus_client's, which takes a lock and visits all buckets: a value
    takes 0.2 µs instead of 1.3, with a label instead of 2.9 (AMD EPYC). A request for one sentence of ten tokens records
    26 values. The histogram has at most one label and is written to by one thread."""

    def __init__(
        self, name: str, help: str, buckets: tuple[float, ...], registry: CollectorRegistry, label: str = ""
    ) -> None:
        self._name, self._help, self._label = name, help, label
        self._bounds = buckets
        self._series: dict[str, _Series] = {} if label else {"": _Series(len(buckets))}
        registry.register(self)

    def observe(self, value: float, label: str = "") -> None:
        """Counts a value under a value of the label."""
        series = self._series.get(label)
        if series is None:
            series = self._series[label] = _Series(len(self._bounds))
        series.counts[bisect_left(self._bounds, value)] += 1
        series.sum += value

    def collect(self) -> Iterable[Metric]:
        """Yields the histogram with its series."""
        family = HistogramMetricFamily(self._name, self._help, labels=(self._label,) if self._label else ())
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for label, series in self._series.items():
            buckets = list(zip(bounds, accumulate(series.counts), strict=True))
            family.add_metric((label,) if self._label else (), buckets, series.sum)
        yield family


class _Series:
    """`counts[i]` is the number of values in bucket i. The last bucket has no upper bound."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.sum = 0.0

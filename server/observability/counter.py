"""A Prometheus counter that is cheap to write to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class Counter(Collector):
    """A counter that is cheaper to write to than prometheus_client's, which takes a lock and checks its value. It is
    written to by one thread."""

    def __init__(self, name: str, help: str, registry: CollectorRegistry, labels: Sequence[str] = ()) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._values: dict[tuple[object, ...], float] = {} if labels else {(): 0}
        registry.register(self)

    def add(self, amount: float, *values: object) -> None:
        """Adds to the series with these values of the labels; with 0 the series is created."""
        self._values[values] = self._values.get(values, 0) + amount

    def collect(self) -> Iterable[Metric]:
        """Yields the counter with its series."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for values, count in self._values.items():
            family.add_metric(tuple(map(str, values)), count)
        yield family

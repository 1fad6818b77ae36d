"""Our histogram exports the same series as that of prometheus_client."""

from __future__ import annotations

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from server.observability.histogram import Histogram

BUCKETS = (0.001, 0.5, 1.0, 10.0)
values = st.lists(st.sampled_from(BUCKETS) | st.floats(0, 100), max_size=20)


@given(values, st.dictionaries(st.sampled_from(["/a", "/b"]), values))
def test_histogram_equals_that_of_prometheus_client(plain, labelled):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    one = Histogram("plain_seconds", "Help.", BUCKETS, ours)
    other = prometheus_client.Histogram("plain_seconds", "Help.", buckets=BUCKETS, registry=theirs)
    for value in plain:
        other.observe(value)
    one.observe(plain[:5])
    one.observe(plain[5:])
    one = Histogram("route_seconds", "Help.", BUCKETS, ours, "route")
    other = prometheus_client.Histogram("route_seconds", "Help.", ("route",), buckets=BUCKETS, registry=theirs)
    for route, found in labelled.items():
        series = other.labels(route)
        for value in found:
            series.observe(value)
        one.observe(found, route)
    assert numbers(ours) == pytest.approx(numbers(theirs))


def numbers(registry: CollectorRegistry) -> dict[str, float]:
    """Returns all series except `_created`, which our histogram does not export."""
    lines = [line.rpartition(" ") for line in generate_latest(registry).decode().splitlines()]
    return {name: float(value) for name, _, value in lines if not name.startswith("#") and "_created" not in name}

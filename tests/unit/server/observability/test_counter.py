"""Our counter exports the same series as that of prometheus_client."""

from __future__ import annotations

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from server.observability.counter import Counter

amounts = st.lists(st.integers(0, 100), max_size=20)


@given(amounts, st.dictionaries(st.tuples(st.sampled_from(["/a", '/"b"']), st.sampled_from([200, 404])), amounts))
def test_counter_equals_that_of_prometheus_client(plain, labelled):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    one = Counter("plain", "Help.", ours)
    other = prometheus_client.Counter("plain", "Help.", registry=theirs)
    for amount in plain:
        one.add(amount)
        other.inc(amount)
    one = Counter("answered", "Help.", ours, ("route", "status"))
    other = prometheus_client.Counter("answered", "Help.", ("route", "status"), registry=theirs)
    for (route, status), found in labelled.items():
        for amount in found:
            one.add(amount, route, status)
            other.labels(route, status).inc(amount)
    assert lines(ours) == lines(theirs)


def lines(registry: CollectorRegistry) -> list[str]:
    """Returns all lines except those of `_created`, which our counter does not export."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]

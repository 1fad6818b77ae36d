"""Alerts, their unit tests, panels and autoscalers name metrics with labels and values that the
server exposes."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from model.search.options import Hypothesis
from server.engine.client.status import DeviceStatus, WorkerStatus
from server.engine.ipc.messages import JobResult, StepStats, Timings
from server.observability.metrics import DESCRIPTIONS, GpuUse, Metrics, StateCollector
from tests.unit.deploy.test_deploy import PROMETHEUS, ROOT, alert_rules, dashboard_expressions

Series = dict[str, dict[str, set[str]]]
"""Values by the label, by the name of the series."""

SCRAPE_LABELS = {"instance", "job", "namespace"}
"""Labels that Prometheus adds."""
FIXED_VALUES = {"finish_reason", "reason"}
"""Labels all of whose values the server exposes from its start."""
SELECTOR = re.compile(r"\b(attentive_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
GROUPS = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def exposed() -> Series:
    """Returns the series of a server on which everything has happened once."""
    metrics = Metrics("1.0")
    metrics.http("/translate", "POST", 200, 0.5)
    metrics.failed("poison")
    metrics.translated(
        7, JobResult(1, (Hypothesis((5,), (-0.5,), -1.0, "stop"),), Timings(1, 2, 4, 8), 3), 16.0
    )
    metrics.record_step(StepStats(1, 0, 3, 4, steps=((1, 0.5),)))
    status = WorkerStatus(
        True,
        "cpu",
        "int8",
        "native",
        {},
        0,
        ("general",),
        workers=(DeviceStatus("cpu", True, 1, 0, 0),),
    )
    gpus = [GpuUse("0", 1, 2, 0.5)]
    metrics.registry.register(
        StateCollector(lambda: status, lambda: dict.fromkeys(DESCRIPTIONS, 1), lambda: gpus)
    )
    found: Series = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            values = found[sample.name]
            for label, value in sample.labels.items():
                values[label].add(value)
    return found


def test_every_metric_is_documented(exposed: Series) -> None:
    documented = set(
        re.findall(r"`(attentive_\w+)`", (ROOT / "docs/operations.md").read_text(encoding="utf-8"))
    )
    assert {
        re.sub(r"_(bucket|count|sum)$", "", name)
        for name in exposed
        if name.startswith("attentive_")
    } == documented


def test_selectors_and_groups_name_labels_that_exist(exposed: Series) -> None:
    texts = dashboard_expressions() + [rule["expr"] for rule in alert_rules()]
    texts += [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "deploy/kubernetes").glob("overlays/*/*.yaml")
    ]
    texts += (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8").splitlines()
    used = 0
    for text in texts:
        named = SELECTOR.findall(text)
        for name, matchers in named:
            assert name in exposed, text
            for label, value in MATCHER.findall(matchers):
                assert label in exposed[name].keys() | SCRAPE_LABELS, text
                assert label not in FIXED_VALUES or set(value.split("|")) <= exposed[name][label], (
                    text
                )
                used += 1
        for label in re.findall(r"\w+", " ".join(GROUPS.findall(text))):
            assert not named or any(
                label in exposed[name].keys() | SCRAPE_LABELS for name, _ in named
            ), text
    assert used > 100

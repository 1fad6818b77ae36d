"""Every request, sentence and step is counted once."""

from __future__ import annotations

from model.search.options import Hypothesis
from server.engine.ipc.messages import StepStats, Timings, TranslationResult
from server.observability.metrics import Metrics


def read(metrics: Metrics) -> dict[str, float]:
    """Returns all series by name and labels."""
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_every_request_and_sentence_is_counted_once():
    number = 3
    metrics = Metrics("1.0")
    answer = TranslationResult(1, (Hypothesis((5, 6), (-0.5, -0.5, -0.5), -1.0, "stop"),), Timings(1, 2, 4, 8), 3)
    for _ in range(number):
        metrics.http("/translate", "POST", 200, 0.5)
        metrics.http("/health", "GET", 503, 0.25)
        metrics.translated(7, answer, 16.0)
    for _ in range(2):  # reading does not count anything a second time
        found = read(metrics)
        assert found.get('attentive_http_requests_total{method="POST",route="/translate",status="200"}', 0) == number
        assert found.get('attentive_http_request_duration_seconds_sum{route="/health"}', 0) == number / 4
        assert found['attentive_request_success_total{finish_reason="stop"}'] == number
        assert found["attentive_source_tokens_total"] == 7 * number
        assert found["attentive_generated_tokens_total"] == 3 * number
        assert found["attentive_request_latency_seconds_count"] == number
        names = ("request_queue", "request_encode", "request_decode", "time_to_first_token", "request_latency")
        sums = [found[f"attentive_{name}_seconds_sum"] for name in names]
        assert sums == [number * seconds for seconds in (1, 2, 4, 8, 16)]


def test_every_step_is_counted_with_its_rows():
    metrics = Metrics("1.0")
    for steps in ((), ((1, 0.5), (3, 0.25))):
        metrics.record_step(StepStats(1, 0, 3, 4, steps=steps))
    found = read(metrics)
    assert found["attentive_batch_size_count"] == 2 and found["attentive_batch_size_sum"] == 4
    assert found["attentive_decode_step_seconds_sum"] == 0.75 and found["attentive_kv_slots_in_use_ratio"] == 0.75

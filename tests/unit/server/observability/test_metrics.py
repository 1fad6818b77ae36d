"""Every step of a worker is counted once. Requests and sentences: tests/unit/server/api/routes/test_endpoints.py."""

from __future__ import annotations

from server.engine.client.status import DeviceStatus, WorkerStatus
from server.engine.ipc.messages import StepStats
from server.observability.metrics import Metrics, StateCollector


def read(metrics: Metrics) -> dict[str, float]:
    """Returns all series by name and labels."""
    lines = metrics.render().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_every_step_is_counted_with_its_rows():
    metrics = Metrics("1.0")
    for steps in ((), ((1, 0.5), (3, 0.25))):
        metrics.record_step(StepStats(steps=steps))
    found = read(metrics)
    assert found["attentive_batch_size_count"] == 2 and found["attentive_batch_size_sum"] == 4
    assert found["attentive_decode_step_seconds_sum"] == 0.75


def test_the_share_of_slots_in_use_is_that_of_all_workers():
    reports = (StepStats(slots_used=1, slots_total=4), StepStats(slots_used=3, slots_total=4))
    status = WorkerStatus(True, "cpu", "int8", "native", {}, 0, ("m",), reports=reports)
    values = {
        metric.name: metric.samples[-1].value
        for metric in StateCollector(lambda: status, dict).collect()
        if metric.samples
    }
    assert values["attentive_kv_slots_in_use_ratio"] == 0.5


def test_each_worker_has_its_own_series_of_how_it_computes():
    gpu = DeviceStatus("cuda:0", True, 1, 0, 0, "up", 0, "cuda-graphs", "bfloat16", "torch", "No C compiler.")
    cpu, starts = DeviceStatus("cpu", True, 2, 0, 0, "up", 0, "native", "int8"), DeviceStatus("cpu", False, None, 1, 0)
    workers = (gpu, cpu, starts)
    status = WorkerStatus(True, "cuda:0", "bfloat16", "cuda-graphs", {}, 0, ("m",), workers=workers)
    [engine] = [
        metric for metric in StateCollector(lambda: status, dict).collect() if metric.name == "attentive_engine_info"
    ]
    labels = ("worker", "device", "engine", "dtype", "kernels", "reason")
    assert [(*[sample.labels[label] for label in labels], sample.value) for sample in engine.samples] == [
        ("0", "cuda:0", "cuda-graphs", "bfloat16", "torch", "No C compiler.", 1),
        ("1", "cpu", "native", "int8", "", "", 1),
        ("2", "cpu", "", "", "", "", 0),
    ]

"""Metrics and log lines."""

from __future__ import annotations

import io
import json
import logging
import random
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from server.engine.client.status import DeviceStatus, WorkerStatus
from server.engine.ipc.messages import StepStats
from server.observability.logging import (
    JsonFormatter,
    LineHandler,
    TextFormatter,
    configure_logging,
    request_id,
    trace_id,
)
from server.observability.metrics import (
    GpuUse,
    Metrics,
    StateCollector,
    _library,
    read_gpus,
)


def read(metrics: Metrics) -> dict[str, float]:
    """Returns all series by name and labels."""
    lines = metrics.render().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_every_step_is_counted_with_its_rows():
    metrics = Metrics("1.0")
    for steps in ((), ((1, 0.5), (3, 0.25))):
        metrics.record_step(StepStats(steps=steps))
    found = read(metrics)
    assert found["attentive_batch_size_count"] == 2 and found["attentive_batch_size_sum"] == 4
    assert found["attentive_decode_step_seconds_sum"] == 0.75


def test_processes_count_as_one_and_forget_nothing_when_they_end(tmp_path):
    rng, alone, names = random.Random(3), Metrics("1.0"), ("0", "1", "leader")
    members = {name: Metrics("1.0", tmp_path / name) for name in names}

    def count(metrics: Metrics, route: str, status: int, number: float) -> None:
        metrics.http(route, "POST", status, number)
        metrics.record_step(StepStats(steps=((status, number),)))
        metrics.flagged.add(route)
        metrics.rejected.add("queue")

    for _ in range(400):
        event = (rng.choice(("/translate", "/ä", '"\n')), rng.choice((200, 429)), rng.random())
        name = rng.choice(names)
        count(members[name], *event)
        count(alone, *event)
        if rng.random() < 0.1:  # it is killed, and the next one takes its place
            members[name] = Metrics("1.0", tmp_path / name)
        if rng.random() < 0.05:
            expected, name = read(alone), rng.choice(names)
            found = read(members[name])
            assert {key: found[key] for key in expected if key[:8] != "process_"} == pytest.approx(
                {key: value for key, value in expected.items() if key[:8] != "process_"}
            )


def test_a_file_without_room_ends_no_request(tmp_path):
    metrics = Metrics("1.0", tmp_path / "0")
    for number in range(5_000):
        metrics.http(f"/{number}" + 99 * "r", "GET", 200, 1.0)
    metrics.http("/0" + 99 * "r", "GET", 200, 1.0)
    found = read(metrics)
    series = 'attentive_http_requests_total{method="GET",route="/0' + 99 * "r" + '",status="200"}'
    assert found[series] == 2 and 500 < len(found) < 50_000


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
    gpu = DeviceStatus(
        "cuda:0", True, 1, 0, 0, "up", 0, "cuda-graphs", "bfloat16", "torch", "No C compiler."
    )
    cpu, starts = (
        DeviceStatus("cpu", True, 2, 0, 0, "up", 0, "native", "int8"),
        DeviceStatus("cpu", False, None, 1, 0),
    )
    workers = (gpu, cpu, starts)
    status = WorkerStatus(True, "cuda:0", "bfloat16", "cuda-graphs", {}, 0, ("m",), workers=workers)
    [engine] = [
        metric
        for metric in StateCollector(lambda: status, dict).collect()
        if metric.name == "attentive_engine_info"
    ]
    labels = ("worker", "device", "engine", "dtype", "kernels", "reason")
    assert [
        (*[sample.labels[label] for label in labels], sample.value) for sample in engine.samples
    ] == [
        ("0", "cuda:0", "cuda-graphs", "bfloat16", "torch", "No C compiler.", 1),
        ("1", "cpu", "native", "int8", "", "", 1),
        ("2", "cpu", "", "", "", "", 0),
    ]


def record(message: str, **extra) -> logging.LogRecord:
    made = logging.LogRecord("server.test", logging.INFO, __file__, 1, message, (), None)
    vars(made).update(extra)
    return made


def failed(message: str) -> logging.LogRecord:
    try:
        raise ValueError("user text")
    except ValueError as error:
        return logging.LogRecord(
            "server.test",
            logging.ERROR,
            __file__,
            1,
            message,
            (),
            (type(error), error, error.__traceback__),
        )


def test_a_line_is_json_with_the_extra_fields():
    token, trace_token = request_id.set("abc"), trace_id.set("4bf9")
    line = json.loads(JsonFormatter().format(record("hello\nworld", status=200)))
    request_id.reset(token)
    trace_id.reset(trace_token)
    assert line["message"] == "hello\nworld" and line["status"] == 200
    assert (line["request_id"], line["trace_id"]) == ("abc", "4bf9")
    assert {"time", "level", "logger"} <= set(line)
    assert "request_id" not in json.loads(JsonFormatter().format(record("x")))


def test_a_line_may_hold_what_is_not_in_unicode():
    assert json.loads(JsonFormatter().format(record("\ud800", number=2**70)))["message"] == "\ud800"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_an_exception_is_logged_with_its_frames_and_without_its_message(formatter):
    text = formatter.format(failed("broken"))
    assert "ValueError" in text and "test_metrics.py" in text and "failed" in text
    assert "user text" not in text


def test_the_text_format_ends_with_the_extra_fields_and_the_trace():
    assert TextFormatter().format(record("hello", status=200)).endswith("info    hello status=200")
    token = trace_id.set("4bf9")
    assert (
        TextFormatter()
        .format(record("hello", status=200))
        .endswith("hello status=200 trace_id=4bf9")
    )
    trace_id.reset(token)


@pytest.mark.parametrize(
    ("format", "terminal", "formatter"),
    [
        ("auto", True, TextFormatter),
        ("auto", False, JsonFormatter),
        ("json", True, JsonFormatter),
        ("text", False, TextFormatter),
    ],
)
def test_the_log_is_text_on_a_terminal(format, terminal, formatter, monkeypatch):
    handlers: list[logging.Handler] = []
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setattr(
        logging, "basicConfig", lambda **options: handlers.extend(options["handlers"])
    )
    monkeypatch.setattr(logging, "captureWarnings", lambda capture: None)
    configure_logging("info", format)
    assert type(handlers[0].formatter) is formatter


def test_configuring_replaces_the_previous_handlers(capsys):
    before = logging.getLogger().handlers[:]
    level = logging.getLogger().level
    try:
        configure_logging("warning", "json")
        logging.getLogger("server.test").info("quiet")
        logging.getLogger("server.test").warning("loud")
        [line] = capsys.readouterr().err.strip().splitlines()
        assert json.loads(line)["message"] == "loud"
    finally:
        logging.basicConfig(handlers=before, level=level, force=True)
        logging.captureWarnings(False)


def test_a_line_that_cannot_be_written_raises_nothing(capsys):
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError

    assert LineHandler(Broken()).handle(record("hello"))
    assert "OSError" in capsys.readouterr().err


class NVMLError(Exception):
    pass


def handle(number: int) -> int:
    if number == 1:
        raise NVMLError("lost")
    return number


def driver(*, present: bool = True) -> SimpleNamespace:
    """A made-up library with three GPUs, of which the second is lost."""

    def start() -> None:
        if not present:
            raise NVMLError("no driver")

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetMemoryInfo=lambda number: SimpleNamespace(used=number + 5, total=100),
        nvmlDeviceGetUtilizationRates=lambda number: SimpleNamespace(gpu=25 * number),
    )


@pytest.fixture(autouse=True)
def fresh_library() -> Iterator[None]:
    _library.cache_clear()
    yield
    _library.cache_clear()


@pytest.mark.parametrize("library", [None, driver(present=False)])
def test_without_the_package_or_a_driver_there_are_none(
    library: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert read_gpus() == []


def test_gpus_that_cannot_be_read_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library := driver())
    assert read_gpus() == [GpuUse("0", 5, 100, 0.0), GpuUse("2", 7, 100, 0.5)]
    library.nvmlDeviceGetCount = lambda: handle(1)  # the driver is gone
    assert read_gpus() == []

"""NVML is read where it is there, and a GPU that it cannot read is left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from server.observability import metrics
from server.observability.metrics import GpuUse, read_gpus


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
def fresh() -> Iterator[None]:
    metrics._library.cache_clear()
    yield
    metrics._library.cache_clear()


def test_a_gpu_that_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver())
    assert read_gpus() == [GpuUse("0", 5, 100, 0.0), GpuUse("2", 7, 100, 0.5)]


@pytest.mark.parametrize("library", [None, driver(present=False)])
def test_without_the_package_or_a_driver_there_are_none(
    library: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert read_gpus() == []


def test_a_driver_that_goes_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library := driver())
    assert len(read_gpus()) == 2
    library.nvmlDeviceGetCount = lambda: handle(1)
    assert read_gpus() == []

"""A model that does not fit into memory is refused before its weights are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model.model_folder import FolderError
from model.weight_files import SafetensorFiles
from server.engine.ipc.options import WorkerOptions
from server.engine.worker import backend_loader, memory
from server.engine.worker.backend_loader import try_to_open
from server.engine.worker.device_config import find_device
from server.engine.worker.memory import check_memory, free_memory, memory_needed
from tests.unit.server.engine.worker.test_backend_loader import save

GIGABYTE = 10**9


def test_a_model_larger_than_the_free_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a terabyte, of which only the header is written."""
    folder = save(tmp_path / "large")
    header = {"huge": {"dtype": "F32", "shape": [500_000, 500_000], "data_offsets": [0, 10**12]}}
    encoded = json.dumps(header).encode()
    with (folder.path / "model.safetensors").open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.truncate(8 + len(encoded) + 10**12)
    monkeypatch.setattr(SafetensorFiles, "stored", lambda *_: pytest.fail("it was read"))
    options = WorkerOptions(device="cpu", dtype="int8", threads=1, slots=4)
    answer, loaded = try_to_open("large", str(folder.path), find_device(options, 0), options)
    assert loaded is None and answer.error is not None
    assert answer.error.startswith(
        "It needs about 1,250,000 MB of memory, and "
    ) and answer.error.endswith(" are free.")


def test_an_error_of_the_allocator_names_what_is_needed_and_there(
    tmp_path: Path, monkeypatch
) -> None:
    def fails(*_):
        raise MemoryError

    folder = save(tmp_path / "small")
    monkeypatch.setattr(backend_loader, "_open", fails)
    options = WorkerOptions(device="cpu", dtype="float32", threads=1, slots=4)
    answer, _ = try_to_open("small", str(folder.path), find_device(options, 0), options)
    assert (
        answer.error is not None
        and answer.error.startswith("It needs about ")
        and "MemoryError" not in answer.error
    )


@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16"])
def test_the_need_grows_with_the_width_of_the_numbers(
    dtype: str, tmp_path: Path, monkeypatch
) -> None:
    folder = save(tmp_path / "model")
    needed = memory_needed(folder, dtype)
    for free, refused in ((needed, False), (needed - 1, True), (None, False)):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        if refused:
            with pytest.raises(FolderError, match="of memory"):
                check_memory(folder, dtype)
        else:
            check_memory(folder, dtype)
    assert (
        memory_needed(folder, "int8")
        < memory_needed(folder, "bfloat16")
        < memory_needed(folder, "float32")
    )


def test_a_container_bounds_the_memory_of_the_machine(tmp_path: Path) -> None:
    system, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    cgroup.mkdir()
    assert free_memory(system, cgroup) is None
    system.write_text(f"MemTotal: 1 kB\nMemAvailable: {8 * GIGABYTE // 1024} kB\n")
    assert free_memory(system, cgroup) == 8 * GIGABYTE // 1024 * 1024
    (cgroup / "memory.current").write_text(f"{3 * GIGABYTE}\n")
    (cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {GIGABYTE}\n")
    for limit, free in (
        ("max", 8 * GIGABYTE // 1024 * 1024),
        (4 * GIGABYTE, 2 * GIGABYTE),
        (GIGABYTE, 0),
    ):
        (cgroup / "memory.max").write_text(f"{limit}\n")
        assert free_memory(system, cgroup) == free
    assert free_memory() is None or free_memory() > 0

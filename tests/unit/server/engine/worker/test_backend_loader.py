"""Which backend is used on which device, and why."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from model.backends.cpu import isa as processor
from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable, Isa
from model.backends.cuda import device as gpu
from model.backends.cuda.device import link_compiled_driver
from model.backends.cuda.fused_step import KERNELS as TORCH
from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model, save_model
from model.config import ModelConfig
from model.model_folder import FolderError, ModelFolder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from server.engine.ipc.messages import WorkerReady
from server.engine.ipc.options import WorkerOptions
from server.engine.worker import backend_loader, device_config, model_runner, torch_loader
from server.engine.worker.backend_loader import cpu_backend_refusal, open_model, try_to_open
from server.engine.worker.device_config import (
    DeviceConfig,
    available_cores,
    failure_kind,
    find_device,
)
from server.engine.worker.model_runner import ModelRunner
from server.engine.worker.torch_loader import gpu_backend
from tests.support.models.folders import new_folder
from tests.support.servers.live import ROOT

CONFIG = ModelConfig(
    vocab_size=64,
    d_model=32,
    heads=2,
    d_ff=64,
    encoder_layers=2,
    decoder_layers=2,
    max_length=48,
    dropout=0.0,
)
OPTIONS = WorkerOptions(device="cpu", dtype="float32", threads=1, slots=4)


def save(path: Path, config: ModelConfig = CONFIG) -> ModelFolder:
    torch.manual_seed(1)
    folder = new_folder(path, config)
    save_model(folder, Transformer(config))
    return folder


@pytest.fixture
def library() -> Path:
    try:
        return build()
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_attention_maps_come_from_the_backend_that_decodes(
    library: Path, tmp_path: Path, dtype: str
) -> None:
    folder, device = (
        save(tmp_path / "tiny"),
        dataclasses.replace(find_device(OPTIONS, 0), dtype=dtype),
    )
    loaded = open_model(str(folder.path), device, OPTIONS)
    assert loaded.engine == "native"
    source = (9, 8, 40, 21, 3)
    for masked in ((), (("cross", 1, 0), ("encoder", 0, 1))):
        options = DecodingOptions(beam_size=3, max_length=20, masked_heads=masked)
        [[best, *_]] = translate(loaded.backend, [source], options, CONFIG)
        maps = loaded.backend.attention_maps(source, best.tokens, masked)
        assert tuple(maps.token_scores[: len(best.token_scores)].tolist()) == best.token_scores
        assert maps.cross.shape == (2, 2, len(best.tokens) + 1, len(source))


def test_a_worker_on_the_cpu_backend_does_not_import_torch(library: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "tiny")
    program = """
import sys
from server.engine.worker import loop, model_runner
from server.engine.worker.backend_loader import open_model
from server.engine.worker.device_config import find_device
from server.engine.ipc.options import WorkerOptions
options = WorkerOptions(device="cpu", dtype="int8", threads=1, slots=2)
loaded = open_model(sys.argv[1], find_device(options, 0), options)
loaded.backend.prefill([[5, 3]], [0], [(("cross", 0, 1),)])
loaded.backend.attention_maps((5, 3), (6,), (("encoder", 1, 0),), ("cross", 0, 0))
sys.exit("torch" in sys.modules or loaded.engine != "native")
"""
    assert (
        subprocess.run([sys.executable, "-c", program, str(folder.path)], check=False).returncode
        == 0
    )


def test_without_a_compiler_pytorch_decodes_and_the_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "tiny")

    def refuse(isa: Isa) -> Path:
        raise CpuBackendUnavailable("There is no compiler.")

    monkeypatch.setattr(backend_loader, "available", lambda isa: None)
    monkeypatch.setattr(backend_loader, "library", refuse)
    loaded = open_model(str(folder.path), find_device(OPTIONS, 0), OPTIONS)
    assert (loaded.engine, loaded.reason) == ("eager", "There is no compiler.")


def test_shapes_and_settings_that_the_cpu_backend_lacks_run_eagerly(
    library: Path, tmp_path: Path
) -> None:
    half = WorkerOptions(device="cpu", threads=1, dtype="bfloat16")
    assert "bfloat16" in (cpu_backend_refusal(find_device(half, 0), half) or "")
    folder = save(tmp_path / "odd", CONFIG.replace(d_ff=100))
    loaded = open_model(str(folder.path), find_device(OPTIONS, 0), OPTIONS)
    assert loaded.engine == "eager" and loaded.reason
    assert "d_ff" in loaded.reason


def ready_after_loading(folder: ModelFolder, options: WorkerOptions) -> WorkerReady:
    runner = ModelRunner(options, 0)
    runner.load("tiny", str(folder.path))
    while not runner.loaded():
        time.sleep(0.01)
    return runner.ready()


def test_on_another_processor_pytorch_decodes_and_the_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor.platform, "machine", lambda: "riscv64")
    folder = save(tmp_path / "tiny")
    ready = ready_after_loading(folder, dataclasses.replace(OPTIONS, dtype="auto"))
    assert (ready.engine, ready.dtype) == ("eager", "float32")
    assert "isa" not in ready.details
    assert ready.details["reason"].endswith("riscv64 PyTorch decodes, slower.")


def test_the_requested_instruction_set_is_used(tmp_path: Path) -> None:
    try:
        build("avx2")
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))
    options = dataclasses.replace(OPTIONS, isa="avx2")
    assert ready_after_loading(save(tmp_path / "tiny"), options).details["isa"] == "avx2"


def test_a_gpu_that_cannot_capture_graphs_falls_back_to_eager_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # a CPU is enough: nothing is captured
    backend, engine, reason = gpu_backend(Transformer(CONFIG), 4)
    assert isinstance(backend, TorchBackend) and engine == "eager"
    assert reason is not None and "CUDA" in reason
    assert backend.prefill([[5, 3]], [0]) is None and backend.step([0], [2], 1, [-1]).ids.shape == (
        1,
        1,
    )
    assert reason in capsys.readouterr().err


FAKE_GPU = DeviceConfig("cuda:1", "cuda:1", (), dtype="float32", threads=1, slots=4)
TRITON = dataclasses.replace(TORCH, name="triton")
ILLEGAL = RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize(
    ("error", "broken", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), None, "out_of_memory"),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
            None,
            "out_of_memory",
        ),
        (RuntimeError("CUDA error: no kernel image is available for execution"), None, "internal"),
        (ILLEGAL, ILLEGAL, None),
        (
            ValueError("device-side assert"),
            torch.AcceleratorError("CUDA error: device-side assert triggered"),
            None,
        ),
        (torch.OutOfMemoryError("CUDA out of memory."), ILLEGAL, None),
    ],
)
def test_one_test_of_failures_serves_loads_and_steps(
    error: Exception,
    broken: Exception | None,
    kind: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "check_device", Mock(side_effect=broken))
    assert failure_kind(error, FAKE_GPU) == kind
    monkeypatch.setattr(backend_loader, "open_model", Mock(side_effect=error))
    if kind is None:
        with pytest.raises(type(error)):
            try_to_open("tiny", str(tmp_path), FAKE_GPU, OPTIONS)
    else:
        assert try_to_open("tiny", str(tmp_path), FAKE_GPU, OPTIONS)[0].error


def test_kernels_that_ended_the_process_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr(torch_loader, "_kernels", lambda: ([TRITON, TORCH], None))
    monkeypatch.setattr(
        torch_loader, "GraphedBackend", lambda *args, kernels, **_: tried.append(kernels) or Mock()
    )
    monkeypatch.setattr(torch_loader, "disagreement", lambda backend: None)
    engines = [gpu_backend(Transformer(CONFIG), 4, ends)[1:] for ends in range(3)]
    assert tried == [TRITON, TORCH]
    assert [engine for engine, _ in engines] == ["cuda-graphs", "cuda-graphs", "eager"]
    assert engines[0][1] is None and "ended while it loaded" in str(engines[1][1])


def test_why_tritons_kernels_are_not_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = iter(["Triton has no compiler.", None])
    monkeypatch.setattr(torch_loader, "_kernels", lambda: ([TRITON, TORCH], None))
    monkeypatch.setattr(torch_loader, "disagreement", lambda backend: next(checks))
    backend, engine, reason = gpu_backend(Transformer(CONFIG), 4)
    assert (engine, backend.details["kernels"]) == ("cuda-graphs", "torch")
    assert "Triton has no compiler." in str(reason)


def test_the_compiled_driver_is_found_where_triton_looks(tmp_path: Path) -> None:
    compiled, cache = tmp_path / "image" / "KEY", tmp_path / "tmp" / "cache"
    compiled.mkdir(parents=True)
    (compiled / "cuda_utils.so").touch()
    for _ in range(2):  # the second worker finds the link
        link_compiled_driver(cache, tmp_path / "image")
    assert (cache / "KEY" / "cuda_utils.so").resolve() == compiled / "cuda_utils.so"
    assert f"model/backends/cuda/{gpu._COMPILED.name}\n" in (ROOT / "Dockerfile").read_text()
    link_compiled_driver(tmp_path / "other", tmp_path / "absent")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("gigabytes", "longest", "slots", "room"),
    [(100, 512, 256, 512), (8, 512, 256, 304), (1, 512, 39, 256), (1, 65_536, 1, 10_160)],
)
def test_slots_and_first_room_fit_the_memory(
    gigabytes: int, longest: int, slots: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gigabytes * 10**9, 100 * 10**9))
    with torch.device("meta"):
        transformer = Transformer(ModelConfig(vocab_size=64, max_length=longest)).bfloat16()
    assert torch_loader._affordable(transformer, 256) == (slots, room)


@pytest.mark.parametrize(
    ("capability", "error", "chosen", "refusal"),
    [
        ((9, 0), None, ("bfloat16", 256), None),
        ((7, 5), None, ("float16", 128), None),
        ((6, 1), None, None, "compute capability 6.1, and this PyTorch needs 7.5"),
        (
            None,
            "The NVIDIA driver on your system is too old (found version 11040). Please update",
            None,
            "too old (found version 11040)",
        ),
    ],
)
def test_an_old_gpu_or_driver_is_named(
    capability: tuple[int, int] | None,
    error: str | None,
    chosen: tuple[str, int] | None,
    refusal: str | None,
    monkeypatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(device_config, "_GPU_FILES", (str(tmp_path),))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: error is None)
    monkeypatch.setattr(torch.cuda, "init", Mock(side_effect=RuntimeError(error)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_90", "compute_90"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    processors = 132 if capability == (9, 0) else 40
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: Mock(multi_processor_count=processors)
    )
    found = find_device(WorkerOptions(device="auto"), 0)
    if refusal is None:
        assert (found.device, found.dtype, found.slots) == ("cuda:0", *(chosen or ()))
        assert find_device(WorkerOptions(device="auto", slots=7), 0).slots == 7
        return
    assert found.device == "cpu" and refusal in str(found.reason)
    assert refusal in ModelRunner(WorkerOptions(device="auto"), 0).ready().details["reason"]
    with pytest.raises(device_config.NoDevice, match=r"no CUDA device.*(too old|needs 7\.5)"):
        find_device(WorkerOptions(device="cuda"), 0)


def test_several_gpus_of_which_one_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker lists those that can be used; all have the number format of the oldest of
    them."""
    capabilities = [(6, 1), (9, 0), (7, 5)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_90"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda index: Mock(multi_processor_count=132, uuid=f"u{index}"),
    )
    cuda = WorkerOptions(device="cuda")
    first = find_device(cuda, 0)
    assert (first.device, first.name, first.dtype, first.gpus) == (
        "cuda:1",
        "cuda:0",
        "float16",
        ("GPU-u1", "GPU-u2"),
    )
    with pytest.raises(device_config.NoDevice):
        find_device(cuda, 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # pinned to the too old one
    for device in ("cuda", "auto"):
        with pytest.raises(device_config.NoDevice, match=r"compute capability 6\.1"):
            find_device(WorkerOptions(device=device), 1, pinned=True)
    capabilities[0] = (9, 0)
    second = find_device(WorkerOptions(device="auto", dtype="float16"), 1, pinned=True)
    assert (second.device, second.name, second.dtype, second.gpus) == (
        "cuda:0",
        "cuda:1",
        "float16",
        (),
    )


def test_the_threads_of_a_worker_use_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "tiny")
    chosen: list[tuple[int, str]] = []
    monkeypatch.setattr(
        torch.cuda, "set_device", lambda name: chosen.append((threading.get_ident(), name))
    )
    monkeypatch.setattr(model_runner, "find_device", lambda *arguments: FAKE_GPU)
    monkeypatch.setattr(
        torch_loader, "_load_transformer", lambda folder, device, dtype: load_model(folder)
    )
    runner = ModelRunner(OPTIONS, 1)
    runner.load("tiny", str(folder.path))
    while not runner.loaded():
        time.sleep(0.01)
    assert [name for _, name in chosen] == ["cuda:1", "cuda:1"]
    # of the loop, and of the loader
    assert [ident == threading.get_ident() for ident, _ in chosen] == [True, False]


def test_the_number_of_cores_respects_a_containers_quota(tmp_path: Path) -> None:
    everything = available_cores(tmp_path / "absent")
    one, two = tmp_path / "version 1", tmp_path / "version 2"
    (one / "cpu").mkdir(parents=True)
    two.mkdir()
    (one / "cpu/cpu.cfs_period_us").write_text("100000\n")
    for quota, expected in (("50000", 1), ("max", everything), ("6400000", everything)):
        (one / "cpu/cpu.cfs_quota_us").write_text(quota.replace("max", "-1") + "\n")
        (two / "cpu.max").write_text(f"{quota} 100000\n")
        assert available_cores(one) == available_cores(two) == expected


def test_int8_is_chosen_only_where_it_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(isa: Isa) -> None:
        raise CpuBackendUnavailable("Too old.")

    for check, dtype in ((lambda isa: None, "int8"), (refuse, "float32")):
        monkeypatch.setattr(device_config, "available", check)
        assert find_device(WorkerOptions(device="cpu"), 0).dtype == dtype


def test_a_model_that_overflows_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "tiny")
    transformer = load_model(folder)
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.fill_(1e38)
    save_model(folder, transformer)
    with pytest.raises(FolderError, match="no finite scores"):
        open_model(str(folder.path), find_device(OPTIONS, 0), OPTIONS)


def test_a_model_that_overflows_in_float16_is_loaded_in_a_wider_type(tmp_path: Path) -> None:
    folder = save(tmp_path / "tiny")
    transformer = load_model(folder)
    with torch.no_grad():
        for layer in (*transformer.encoder, *transformer.decoder):
            layer.feed_forward.inner.weight.mul_(3000.0)
            layer.feed_forward.outer.weight.mul_(3000.0)
    save_model(folder, transformer)
    half = dataclasses.replace(find_device(OPTIONS, 0), dtype="float16")
    loaded = open_model(str(folder.path), half, OPTIONS)
    assert next(loaded.backend.transformer.parameters()).dtype == torch.float32
    assert loaded.reason is not None and "overflow in float16" in loaded.reason
    fine = open_model(str(save(tmp_path / "fine").path), half, OPTIONS)
    assert next(fine.backend.transformer.parameters()).dtype == torch.float16


def test_a_missing_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        find_device(WorkerOptions(device="cuda"), 0)


def hide_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import torch` fail as in an installation without it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "server.engine.worker.torch_loader", raising=False)


def test_a_model_that_needs_torch_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "tiny")
    hide_torch(monkeypatch)
    options = dataclasses.replace(OPTIONS, dtype="bfloat16")
    with pytest.raises(FolderError, match=r"not in bfloat16\. PyTorch is not installed"):
        open_model(str(folder.path), find_device(options, 0), options)


def test_without_torch_a_gpu_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_torch(monkeypatch)
    monkeypatch.setattr(device_config, "_GPU_FILES", (str(tmp_path),))
    assert find_device(WorkerOptions(device="auto"), 0).device == "cpu"
    with pytest.raises(RuntimeError, match="or PyTorch is not installed"):
        find_device(WorkerOptions(device="cuda"), 0)

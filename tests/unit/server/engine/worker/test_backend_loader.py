"""Which engine runs, and moving to a faster one in the middle of work. The real runner in the real loop, in this process."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from model.backends.cpu import isa as processor
from model.backends.cpu.build import build, find
from model.backends.cpu.isa import CpuBackendUnavailable, Isa
from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model, save_model
from model.config import ModelConfig
from model.model_folder import ModelFolder, TokenizerFiles
from model.search.base import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from server.engine.ipc.messages import (
    AttentionJob,
    LoadModel,
    ModelLoaded,
    TranslateJob,
    TranslationResult,
    WorkerReady,
)
from server.engine.ipc.options import WorkerOptions
from server.engine.ipc.transport import Pipes
from server.engine.worker import backend_loader as engines
from server.engine.worker import model_runner as runner
from server.engine.worker.backend_loader import COMPILING, find_place, why_not_native
from server.engine.worker.main import Worker
from server.engine.worker.model_runner import DeviceRunner

CONFIG = ModelConfig(
    vocab_size=64, d_model=32, heads=2, d_ff=64, encoder_layers=2, decoder_layers=2, max_length=48, dropout=0.0
)
OPTIONS = WorkerOptions(device="cpu", dtype="float32", threads=1, slots=4)


def save(path: Path, config: ModelConfig = CONFIG) -> ModelFolder:
    torch.manual_seed(1)
    folder = ModelFolder(
        path=path, name="tiny", model=config, pairs=(("en", "de"),), tags={}, license="CC0-1.0", origin="random weights",
        tokenizer=TokenizerFiles(),
    )  # fmt: skip
    save_model(folder, Transformer(config))
    return folder


class Script(Pipes):
    """The API process as a function: called between turns with what was said so far, it returns messages or None to go."""

    def __init__(self, say: Callable[[list[Any]], list[Any] | None]) -> None:
        self._say = say
        self.heard: list[Any] = []
        self.closed = False

    def receive(self, wait: float | None) -> list[Any]:
        messages = self._say(self.heard)
        self.closed = messages is None
        return messages or []

    def send(self, messages: list[Any]) -> None:
        self.heard += messages


@pytest.fixture
def library() -> Path:
    try:
        return build()
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))


def test_a_running_batch_moves_to_the_native_engine_and_loses_nobody(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "tiny")
    monkeypatch.setattr(engines, "find", lambda isa: None)  # as if it were not compiled yet
    rng = random.Random(7)
    texts = [(*(rng.randrange(4, 64) for _ in range(rng.randint(1, 20))), 3) for _ in range(40)]
    options = DecodingOptions(max_length=20)
    jobs = [TranslateJob(id, "tiny", text, options) for id, text in enumerate(texts)]
    pending = list(jobs)
    moved: list[int] = []
    asked: list[LoadModel] = []

    def say(heard: list[Any]) -> list[Any] | None:
        answers = [message for message in heard if isinstance(message, TranslationResult)]
        ready = [message.engine for message in heard if isinstance(message, WorkerReady)]
        if not asked:
            asked.append(LoadModel("tiny", str(folder.path)))
            return list(asked)
        if not any(isinstance(message, ModelLoaded) for message in heard):
            return []
        if ready[-1] == "native" and not moved:
            moved.append(len(answers))
        if pending and (moved or len(pending) > 20):
            return [pending.pop()]
        return None if len(answers) == len(jobs) else []

    script = Script(say)
    Worker(script, DeviceRunner(OPTIONS, 0), OPTIONS).serve()
    assert [message.engine for message in script.heard if isinstance(message, WorkerReady)][-2:] == ["eager", "native"]
    loads = [message for message in script.heard if isinstance(message, ModelLoaded)]
    assert len(loads) == 1 and loads[0].error is None
    expected = translate(TorchBackend(load_model(folder), 4), texts, options, start=2, end=3, max_length=48)
    answers = {message.id: message.hypotheses[0].tokens for message in script.heard if isinstance(message, TranslationResult)}
    assert answers == {id: found[0].tokens for id, found in enumerate(expected)}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_look_is_taken_with_the_engine_that_decodes(library: Path, tmp_path: Path, dtype: str) -> None:
    folder, place = save(tmp_path / "tiny"), dataclasses.replace(find_place(OPTIONS, 0), dtype=dtype)
    served = engines.open_model(str(folder.path), place, OPTIONS)
    assert served.engine == "native"
    source = (9, 8, 40, 21, 3)
    for masked in ((), (("cross", 1, 0), ("encoder", 0, 1))):
        options = DecodingOptions(beam_size=3, max_length=20, masked_heads=masked)
        [[best, *_]] = translate(served.backend, [source], options, start=2, end=3, max_length=48)
        maps = engines.look_inside(served.backend, AttentionJob(1, "tiny", source, best.tokens, masked))
        assert tuple(maps.token_scores[: len(best.token_scores)].tolist()) == best.token_scores
        assert maps.cross.shape == (2, 2, len(best.tokens) + 1, len(source))


def test_a_worker_on_the_native_engine_needs_no_torch(library: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "tiny")
    program = """
import sys
from server.engine.worker import backend_loader as engines, model_runner as runner
from server.engine.ipc.options import WorkerOptions
from server.engine.ipc.messages import AttentionJob
options = WorkerOptions(device="cpu", dtype="int8", threads=1, slots=2)
served = engines.open_model(sys.argv[1], engines.find_place(options, 0), options)
served.backend.prefill([[5, 3]], [0], [(("cross", 0, 1),)])
engines.look_inside(served.backend, AttentionJob(1, "tiny", (5, 3), (6,), (("encoder", 1, 0),), vectors_of=("cross", 0, 0)))
sys.exit("torch" in sys.modules or served.engine != "native")
"""
    assert subprocess.run([sys.executable, "-c", program, str(folder.path)], check=False).returncode == 0


def test_where_it_cannot_be_compiled_it_stays_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "tiny")

    def refuse(isa: Isa) -> Path:
        raise CpuBackendUnavailable("There is no compiler.")

    monkeypatch.setattr(engines, "find", lambda isa: None)
    monkeypatch.setattr(engines, "check_cpu", lambda isa: None)
    monkeypatch.setattr(runner, "build", refuse)
    details: list[str] = []
    asked: list[LoadModel] = []

    def say(heard: list[Any]) -> list[Any] | None:
        details[:] = [m.details.get("reason", "") for m in heard if isinstance(m, WorkerReady)]
        if details[-1] == "There is no compiler.":
            return None
        if asked:
            return []
        asked.append(LoadModel("tiny", str(folder.path)))
        return list(asked)

    Worker(Script(say), DeviceRunner(OPTIONS, 0), OPTIONS).serve()
    assert details[-2:] == [COMPILING, "There is no compiler."]


def test_shapes_and_settings_that_the_native_engine_lacks_run_eagerly(tmp_path: Path) -> None:
    eager = WorkerOptions(device="cpu", threads=1, engine="eager")
    assert why_not_native(find_place(eager, 0), eager) == "The eager engine was asked for."
    half = WorkerOptions(device="cpu", threads=1, dtype="bfloat16")
    assert "bfloat16" in (why_not_native(find_place(half, 0), half) or "")
    folder = save(tmp_path / "window", CONFIG.replace(window=4))
    served = engines.open_model(str(folder.path), find_place(OPTIONS, 0), OPTIONS)
    assert served.engine == "eager" and served.reason
    if find() is not None and why_not_native(find_place(OPTIONS, 0), OPTIONS) is None:
        assert "window" in served.reason


def test_another_kind_of_processor_runs_on_torch_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor.platform, "machine", lambda: "aarch64")
    folder = save(tmp_path / "tiny")
    device = DeviceRunner(dataclasses.replace(OPTIONS, dtype="auto"), 0)
    device.load("tiny", str(folder.path))
    while device.loading():
        for loaded in device.loaded():
            device.attach(0, loaded)
    ready = device.ready()
    assert (ready.engine, ready.dtype) == ("eager", "float32")
    assert "isa" not in ready.details
    assert ready.details["reason"].endswith("aarch64 PyTorch decodes, slower.")


def test_the_instruction_set_that_was_asked_for_decodes(tmp_path: Path) -> None:
    folder = save(tmp_path / "tiny")
    options = dataclasses.replace(OPTIONS, isa="avx2")
    try:
        build(isa="avx2")
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))
    device = DeviceRunner(options, 0)
    device.load("tiny", str(folder.path))
    while device.loading():
        for loaded in device.loaded():
            device.attach(0, loaded)
    assert device.ready().details["isa"] == "avx2"


def test_a_gpu_that_cannot_capture_falls_back_to_plain_torch(capsys: pytest.CaptureFixture[str]) -> None:
    backend, engine, reason = engines.gpu_backend(Transformer(CONFIG), 4)  # here even the CPU serves: nothing is captured
    assert isinstance(backend, TorchBackend) and engine == "eager"
    assert reason is not None and "CUDA" in reason
    assert backend.prefill([[5, 3]], [0]) is None and backend.step([0], [2], 1, [-1]).ids.shape == (1, 1)
    assert reason in capsys.readouterr().err


def test_threads_keep_to_the_quota_of_a_container(tmp_path: Path) -> None:
    everything = engines.cores(tmp_path / "absent")
    quota = tmp_path / "cpu.max"
    for text, expected in (("50000 100000", 1), ("max 100000", everything), ("6400000 100000", everything)):
        quota.write_text(text)
        assert engines.cores(quota) == expected


def test_int8_is_chosen_only_where_it_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(isa: Isa) -> None:
        raise CpuBackendUnavailable("Too old.")

    for check, dtype in ((lambda isa: None, "int8"), (refuse, "float32")):
        monkeypatch.setattr(engines, "check_cpu", check)
        assert find_place(WorkerOptions(device="cpu"), 0).dtype == dtype


def test_a_gpu_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        find_place(WorkerOptions(device="cuda"), 0)

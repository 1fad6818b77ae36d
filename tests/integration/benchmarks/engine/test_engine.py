"""The engine benchmark: every engine translates with the same weights, and the figures refer to the given sentences."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.engine import __main__ as engine
from benchmarks.engine.adapters import Spec
from benchmarks.engine.engine_process import EngineFailed, EngineProcess
from benchmarks.engine.random_model import random_sources, write_random_model
from model.backends.cpu.isa import CpuBackendUnavailable, check_cpu


def usable() -> list[str]:
    """Returns the engines that run on this machine."""
    kinds = ["attentive-torch:float32", "ctranslate2:float32", "huggingface:float32"]
    try:
        check_cpu()
    except CpuBackendUnavailable:
        return kinds
    return ["attentive-native:float32", *kinds]


def test_all_engines_find_the_same_targets(weights: Path, development: Path, tmp_path: Path) -> None:
    output = tmp_path / "engine.json"
    command = ["--model", str(weights), "--data", str(development), "--sets", "small", "--batches", "2", "--beams", "1"]
    limits = ["--sentences", "4", "--least", "4", "--rounds", "1", "--huggingface-batches", "2"]
    assert engine.main([*command, *limits, "--engines", *usable(), "--json", str(output)]) == 0
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [row["engine"] for row in results["rows"]] == [name.replace(":", " ") for name in usable()]
    for row in results["rows"]:
        assert row["sentences"] == 4
        assert row["same"] == "100%"
        assert row["tokens/s"] > 0
        assert 0 <= row["BLEU"] <= 100


def test_random_weights_produce_exactly_the_limit_of_tokens(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "random", "small", 500)
    sources = random_sources(500, 3, 6, folder.model.eos_id)
    assert all(len(source) == 6 and source[-1] == folder.model.eos_id for source in sources)
    spec = Spec("attentive-torch", "float32", folder.path, tmp_path, threads=1, rows=8)
    with EngineProcess(spec) as process:
        loaded = process.peak_bytes()
        run = process.translate(sources, 2, 2, 5)
        assert process.peak_bytes() >= loaded > 1_000_000
    assert [len(target) for target in run.targets] == [5, 5, 5]


def test_an_engine_that_cannot_load_gives_a_reason(weights: Path, tmp_path: Path) -> None:
    spec = Spec("attentive-torch", "int3", weights, tmp_path, threads=1, rows=1)
    with pytest.raises(EngineFailed, match="int3 needs the CPU backend"), EngineProcess(spec):
        pass


def test_all_engines_are_limited_to_an_instruction_set(weights: Path, development: Path, tmp_path: Path) -> None:
    try:
        check_cpu("avx2")
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))
    output, before = tmp_path / "engine.json", dict(os.environ)
    command = ["--model", str(weights), "--data", str(development), "--sets", "small", "--batches", "2", "--beams", "1"]
    command += ["--sentences", "4", "--least", "4", "--rounds", "1", "--isa", "avx2", "--json", str(output)]
    command += ["--clock", "processor"]
    assert engine.main([*command, "--engines", "attentive-native:float32", "ctranslate2:float32"]) == 0
    results = json.loads(output.read_text(encoding="utf-8"))
    assert results["isa"] == "avx2"
    assert [row["same"] for row in results["rows"]] == ["100%", "100%"]
    assert {name for name in os.environ if "ISA" in name} == {name for name in before if "ISA" in name}


def test_a_missing_direction_is_an_error_of_one_sentence(
    weights: Path, development: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine.main(["--model", str(weights), "--data", str(development), "--direction", "en-fr"]) == 2
    assert "does not translate en-fr" in capsys.readouterr().err


def test_device_figures_are_measured_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "engine.json"
    command = ["--random", "small", "--vocabulary", "300", "--tokens", "4", "--batches", "2", "--beams", "1"]
    limits = ["--sentences", "3", "--least", "3", "--rounds", "1", "--independence", "3", "--device-figures"]
    assert engine.main([*command, *limits, "--engines", "attentive-torch:float32", "--json", str(output)]) == 0
    results = json.loads(output.read_text(encoding="utf-8"))
    (limit,) = results["limits"]
    # 3 decoder layers of 256 and 1,024, and the projection; keys and values of 2 rows of 4 + 2.5 positions; 4 bytes
    # each.
    assert limit["weight_bytes"] == 4 * (3 * (6 * 256 * 256 + 2 * 256 * 1024) + 256 * 300)
    assert limit["cache_bytes"] == int(4 * 2 * 6.5 * 2 * 3 * 256)
    assert limit["limit"] == pytest.approx((limit["weight_bytes"] + limit["cache_bytes"]) / limit["bandwidth"])
    assert limit["step"] > 0
    assert results["independence"]["differ shuffled"] == 0
    assert "copy GB/s" in capsys.readouterr().out

"""The training loop, its cool-down and its ranks."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import distributed, nn
from tqdm import TqdmWarning

from tests.support.models.tiny_training import made_recipe, run_folder, tiny_recipe
from training import commands
from training.commands import average, build_trainer, cooling
from training.loop import checkpoint, trainer
from training.loop.checkpoint import checkpoints
from training.loop.hardware import autocast, gradient_scaler
from training.loop.optimizers import set_rates
from training.recipe import RecipeError, TrainRecipe


@pytest.mark.slow
def test_loss_falls(prepared: Path, tmp_path: Path) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    commands.train(tiny_recipe(prepared, optimizer="muon", steps=40), folder)
    lines = [
        json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert [line["step"] for line in lines] == [20, 40, 40]
    assert losses[-1] < losses[0]
    assert {"development_loss", "bleu", "chrf"} <= set(lines[-1])


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_run(prepared: Path, tmp_path: Path) -> None:
    whole, broken = (
        run_folder(prepared, tmp_path / "whole"),
        run_folder(prepared, tmp_path / "broken"),
    )
    recipe = tiny_recipe(prepared, optimizer="muon", steps=6)
    no_dropout = dataclasses.replace(recipe, model={**recipe.model, "dropout": 0.0})
    build_trainer(no_dropout, whole).run()
    first = build_trainer(no_dropout, broken)
    stream = first._stream()
    for _ in range(3):
        first._step(stream)
    first.save()
    build_trainer(no_dropout, broken).run()
    one, two = (torch.load(folder / "state.pt", weights_only=True) for folder in (whole, broken))
    assert one["progress"] | {"seconds": 0} == two["progress"] | {"seconds": 0}
    weights = [average(checkpoints(folder)[-1:]) for folder in (whole, broken)]
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


@pytest.mark.slow
def test_a_stopped_run_is_saved_and_resumes(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    trainer = build_trainer(tiny_recipe(prepared, steps=5), folder)
    step = trainer._step

    def stop_after_two(stream: object) -> None:
        step(stream)
        if trainer.progress.step == 2:
            trainer.stop()

    monkeypatch.setattr(trainer, "_step", stop_after_two)
    trainer.run()
    assert [path.name for path in checkpoints(folder)] == ["step-0000002.safetensors"]
    assert not (folder / "log.jsonl").exists()  # a stopped training does not validate
    build_trainer(tiny_recipe(prepared, steps=5), folder).run()
    assert checkpoints(folder)[-1].name == "step-0000005.safetensors"


def test_a_run_ends_at_a_share_of_its_budget_and_a_smaller_budget_is_used_up(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bar ends at the share, and never beyond 100%, which tqdm would warn of."""
    folder, recipe = run_folder(prepared, tmp_path / "run"), tiny_recipe(prepared, steps=4)
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, development=()))
    commands.train(recipe, folder, until=0.5)
    assert checkpoints(folder)[-1].name == "step-0000002.safetensors"
    commands.train(recipe, folder)
    assert checkpoints(folder)[-1].name == "step-0000004.safetensors"
    smaller = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, steps=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TqdmWarning)
        commands.train(smaller, folder)
    assert checkpoints(folder)[-1].name == "step-0000004.safetensors"
    ends = [
        line.rsplit("\r", 1)[-1].split("%")[0].strip()
        for line in capsys.readouterr().err.split("\n")
    ]
    assert [end for end in ends if end] == ["50.0", "100.0", "100.0"]


def test_the_error_names_missing_development_text_before_training(
    prepared: Path, tmp_path: Path
) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    recipe = tiny_recipe(prepared)
    elsewhere = dataclasses.replace(
        recipe, data=dataclasses.replace(recipe.data, development=("gone.en-de.tsv",))
    )
    with pytest.raises(FileNotFoundError, match="gone"):
        build_trainer(elsewhere, folder)


def test_development_text_needs_no_source_with_one_direction(
    prepared: Path, tmp_path: Path
) -> None:
    recipe = tiny_recipe(prepared)
    one_way = dataclasses.replace(
        recipe, data=dataclasses.replace(recipe.data, one_way={"made": "en-de"})
    )
    build_trainer(one_way, run_folder(prepared, tmp_path / "run"))


@pytest.mark.slow
def test_two_processes_under_torchrun(prepared: Path, tmp_path: Path) -> None:
    """Two processes with half of the tokens each write one set of weights."""
    tiny_recipe(prepared, steps=3)
    command = [
        # gloo may abort one rank while the other exits; torchrun then restarts the ranks, and they
        # resume.
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "2", "--nproc-per-node", "2",
        "-m", "training", "--threads", "1", "train", str(prepared / "adam-wsd-3.toml"), str(tmp_path / "run"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-0000003.safetensors"]


_RECIPE = dataclasses.replace(
    made_recipe(),
    train=TrainRecipe(schedule="wsd", rate=0.001, warmup=10, decay=0.0, checkpoint_minutes=10),
)


def _folder(folder: Path, seconds: float) -> Path:
    folder.mkdir(exist_ok=True)
    model = nn.Linear(2, 2)
    progress = checkpoint.Progress(step=500, tokens=7, seconds=seconds)
    checkpoint.save(folder, model, [torch.optim.Adam(model.parameters())], progress, 3)
    return folder


def test_the_rate_falls_to_zero_and_only_the_schedule_differs(tmp_path: Path) -> None:
    recipe = cooling(_RECIPE, _folder(tmp_path / "cooled", 3600.0), 20)
    assert dataclasses.replace(recipe, train=_RECIPE.train) == _RECIPE
    assert (recipe.train.minutes, recipe.train.checkpoint_minutes) == pytest.approx((80, 2))
    optimizers = [torch.optim.Adam([nn.Parameter(torch.zeros(1))])]
    rates = [
        set_rates(optimizers, recipe.train, 512, 501, minutes / recipe.train.minutes)
        for minutes in (30, 60, 65, 70, 79, 80)
    ]
    assert rates[:2] == pytest.approx([0.001, 0.001])
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert len(set(rates)) == len(rates) - 1
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


def test_a_stopped_cool_down_resumes_with_its_first_recipe(tmp_path: Path) -> None:
    first = cooling(_RECIPE, _folder(tmp_path / "cooled", 3600.0), 20)
    assert cooling(_RECIPE, _folder(tmp_path / "cooled", 3900.0), 20) == first


def test_the_error_names_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing"):
        cooling(_RECIPE, tmp_path / "nothing", 20)


def test_a_rank_chooses_its_gpu_before_nccl_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events = Mock()
    monkeypatch.setattr(commands, "rank_and_world_size", lambda: (1, 2))
    monkeypatch.setattr(
        commands, "training_device", lambda: events.device() and torch.device("cuda", 1)
    )
    monkeypatch.setattr(commands, "build_trainer", Mock())
    for name in ("init_process_group", "barrier", "destroy_process_group"):
        monkeypatch.setattr(distributed, name, getattr(events, name))
    commands.train(Mock(), tmp_path)
    first, second, *_ = events.mock_calls
    assert first[0] == "device" and second[0] == "init_process_group"
    assert second.kwargs["device_id"] == torch.device("cuda", 1) and second.kwargs[
        "timeout"
    ] >= timedelta(hours=6)


def test_ranks_exchange_their_clocks_only_with_the_log(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "rank_and_world_size", lambda: (0, 2))
    monkeypatch.setattr(trainer, "average_gradients", lambda parameters, ranks: None)
    shared = Mock()
    monkeypatch.setattr(distributed, "broadcast", shared)
    build_trainer(tiny_recipe(prepared, steps=41), run_folder(prepared, tmp_path / "run")).run()
    assert shared.call_count == 2


@pytest.mark.parametrize(
    ("capability", "dtype"), [((8, 0), torch.bfloat16), ((7, 5), torch.float16)]
)
def test_training_uses_the_half_precision_of_the_gpu(
    capability: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    made = Mock()
    monkeypatch.setattr(torch, "autocast", made)
    autocast(torch.device("cuda"))
    assert made.call_args.args == ("cuda", dtype)
    assert gradient_scaler(torch.device("cpu")).is_enabled() is False

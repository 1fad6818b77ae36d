"""The simulation of a fleet keeps the laws of queues: nothing is lost, Little's law holds, and a seed repeats a run."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import pytest

from benchmarks.fleet import Autoscaler, Result, Simulation, main, needed
from benchmarks.measured_machines import TABLE, Machine, machines

MACHINE = Machine((1, 8, 64), (0.001, 0.002, 0.008))
"""Serves 250 sentences of 32 tokens per second, less the time for requests."""
BUSY = MACHINE.sentences_per_second(32) * 0.8


def run(replicas: int, *periods: tuple[float, float], seed: int = 0, scaler: Autoscaler | None = None) -> Result:
    return Simulation(MACHINE, replicas, 32, seed, scaler).run(periods)


@pytest.mark.parametrize("rate", [1, BUSY, 3 * BUSY])
def test_every_sentence_is_answered_once(rate: float) -> None:
    result = run(1, (3, rate))
    assert len(result.latencies) == result.arrived > 0


def test_little() -> None:
    result = run(2, (5, 2 * BUSY))
    assert result.mean_present == pytest.approx(sum(result.latencies) / result.seconds)


def test_utilisation_is_below_one_and_follows_the_load() -> None:
    shares = [run(1, (5, share * BUSY)).utilisation for share in (0.1, 0.5, 1.0)]
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_no_sentence_is_faster_than_its_tokens() -> None:
    assert min(run(1, (3, BUSY)).latencies) >= MACHINE.seconds[0]


def test_a_seed_repeats_a_run() -> None:
    assert run(2, (2, BUSY), seed=1) == run(2, (2, BUSY), seed=1) != run(2, (2, BUSY), seed=2)


def test_more_machines_are_not_slower() -> None:
    p99 = [run(count, (3, 1.5 * BUSY)).latency(0.99) for count in (1, 2, 4)]
    assert p99 == sorted(p99, reverse=True)


def test_an_autoscaler_adds_machines_and_its_delay_costs_time() -> None:
    fixed = run(1, (6, 2 * BUSY))
    fast, slow = (run(1, (6, 2 * BUSY), scaler=Autoscaler(32, 4, 1.0, start)) for start in (0.5, 4.0))
    assert fixed.replicas == 1 < fast.replicas <= 4
    assert fast.latency(0.99) < slow.latency(0.99) <= fixed.latency(0.99)
    assert len(fast.latencies) == fast.arrived


def test_the_machines_that_are_needed_keep_the_limit_and_one_less_does_not() -> None:
    count, result = needed(MACHINE, 3 * BUSY, 32, 0.5, 3)
    assert result.latency(0.99) <= 0.5
    assert run(count - 1, (3, 3 * BUSY)).latency(0.99) > 0.5 or count - 1 < 3 * 0.8


def test_the_table_has_step_times_that_grow_slower_than_the_batch() -> None:
    for name, machine in machines().items():
        assert machine.batches == tuple(sorted(machine.batches)), name
        assert machine.step(1) == machine.seconds[0]
        for (small, early), (large, late) in pairwise(zip(machine.batches, machine.seconds, strict=True)):
            assert early < late < early * large / small, name


def test_the_command_prints_a_line_for_each_number_of_users(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--users", "100", "1000", "--seconds", "2", "--start-seconds", "2"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["100", "1,000"]


def test_the_speeds_are_those_of_the_result_files() -> None:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    sourced = [row for row in csv.DictReader(lines) if row["source"].endswith(".json")]
    assert len(sourced) == 16
    for row in sourced:
        measured = json.loads((TABLE.parent / "results" / row["source"]).read_text(encoding="utf-8"))["rows"]
        [own] = [
            one["tokens/s"] for one in measured
            if (one["search"], one["batch"], one["engine"]) == ("greedy", int(row["batch"]), "attentive-native int8")
        ]  # fmt: skip
        assert round(own) == int(row["tokens_per_second"]), row

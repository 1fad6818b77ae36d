"""How many machines a number of users needs: a simulation of replicas, routing and an autoscaler.

    python -m benchmarks.fleet --users 1000 100000 10000000

Sentences arrive at random (Poisson) and go to the less loaded of two replicas. A replica decodes its running sentences
together, and a sentence that ends makes room for one that waits. `docs/capacity.md` has the assumptions.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.measured_machines import REQUEST, Machine, machines

SLICE = 0.02
"""Seconds of decoding that are simulated as one event. New sentences wait for its end."""


@dataclass(slots=True, eq=False)
class Replica:
    """Sentences that wait, and those that run: the tokens that each still needs, and the time of its arrival."""

    ready: float
    """When it serves, in seconds."""
    decoding: bool = False
    waiting: deque[tuple[int, float]] = field(default_factory=deque)
    running: list[tuple[int, float]] = field(default_factory=list)
    busy: float = 0.0

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.running)

    def decode(self, machine: Machine) -> tuple[float, list[float]]:
        """Decodes up to a slice or the first end of a sentence. Returns the seconds, and when those that ended had
        arrived."""
        added = min(len(self.waiting), machine.batches[-1] - len(self.running))
        self.running += [self.waiting.popleft() for _ in range(added)]
        step = machine.step(len(self.running))
        tokens = min(max(1, int(SLICE / step)), *(left for left, _ in self.running))
        seconds = tokens * step + added * REQUEST
        self.busy += seconds
        ended = [arrived for left, arrived in self.running if left <= tokens]
        self.running = [(left - tokens, arrived) for left, arrived in self.running if left > tokens]
        return seconds, ended


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Every `every` seconds it wants `target` sentences a replica, and at most `most` replicas. A new one serves after
    `start` seconds."""

    target: float
    most: int
    every: float = 15.0
    start: float = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    """Counts of sentences; seconds from arrival to answer; the mean number of sentences in the system; the share of
    the time in which replicas decoded."""

    arrived: int
    latencies: tuple[float, ...]
    seconds: float
    mean_present: float
    utilisation: float
    replicas: int

    def latency(self, share: float) -> float:
        """Returns a quantile of the seconds from arrival to answer."""
        return sorted(self.latencies)[int(share * len(self.latencies))] if self.latencies else 0.0


class Simulation:
    """One run: the events are arrivals, ends of slices and decisions of the autoscaler."""

    def __init__(
        self, machine: Machine, replicas: int, tokens: float, seed: int = 0, scaler: Autoscaler | None = None
    ) -> None:
        self._machine, self._tokens, self._scaler = machine, tokens, scaler
        self._chance = random.Random(seed)
        self._fleet = [Replica(0.0) for _ in range(replicas)]
        self._slices: list[tuple[float, int, Replica, list[float]]] = []
        self._order = itertools.count()
        self._latencies: list[float] = []

    def run(self, periods: Sequence[tuple[float, float]]) -> Result:
        """Simulates periods of (seconds, sentences per second), then runs until every sentence is answered."""
        end = sum(seconds for seconds, _ in periods)
        arrivals = self._arrivals(periods)
        arrival, decision = next(arrivals, math.inf), self._scaler.every if self._scaler else math.inf
        arrived, area, now = 0, 0.0, 0.0
        while arrival < math.inf or self._slices:
            event = min(arrival, decision, self._slices[0][0] if self._slices else math.inf)
            area += (arrived - len(self._latencies)) * (event - now)
            now = event
            if now == arrival:
                self._route(now)
                arrived, arrival = arrived + 1, next(arrivals, math.inf)
            elif now == decision and self._scaler:
                self._scale(now, self._scaler)
                decision = now + self._scaler.every if now + self._scaler.every < end else math.inf
            else:
                _, _, replica, ended = heapq.heappop(self._slices)
                self._latencies += [now - since for since in ended]
                self._decode(replica, now)
        alive = sum(now - replica.ready for replica in self._fleet if replica.ready < now)
        busy = sum(replica.busy for replica in self._fleet) / alive if alive else 0.0
        return Result(arrived, tuple(self._latencies), now, area / now if now else 0.0, busy, len(self._fleet))

    def _arrivals(self, periods: Sequence[tuple[float, float]]) -> Iterator[float]:
        begin = 0.0
        for seconds, rate in periods:
            time = begin
            while rate > 0 and (time := time + self._chance.expovariate(rate)) < begin + seconds:
                yield time
            begin += seconds

    def _route(self, now: float) -> None:
        ready = [replica for replica in self._fleet if replica.ready <= now]
        replica = min(self._chance.sample(ready, min(2, len(ready))), key=lambda one: one.load)
        replica.waiting.append((self._chance.randint(1, round(2 * self._tokens) - 1), now))
        if not replica.decoding:
            self._decode(replica, now)

    def _decode(self, replica: Replica, now: float) -> None:
        replica.decoding = replica.load > 0
        if replica.decoding:
            seconds, ended = replica.decode(self._machine)
            heapq.heappush(self._slices, (now + seconds, next(self._order), replica, ended))

    def _scale(self, now: float, scaler: Autoscaler) -> None:
        wanted = min(scaler.most, math.ceil(sum(replica.load for replica in self._fleet) / scaler.target))
        self._fleet += [Replica(now + scaler.start) for _ in range(wanted - len(self._fleet))]


def needed(machine: Machine, rate: float, tokens: float, limit: float, seconds: float) -> tuple[int, Result]:
    """Returns how many machines answer 99% of the sentences within `limit` seconds and are never all busy, to within
    a twentieth, and their result."""
    count = max(1, math.ceil(rate / machine.sentences_per_second(tokens)))
    while True:
        result = Simulation(machine, count, tokens).run([(seconds, rate)])
        if result.latency(0.99) <= limit:
            return count, result
        count += max(1, count // 20)


SIMULATED = 1_500.0
"""Sentences per second that are simulated at most. A larger fleet is computed as several of this size."""
ASSUMPTIONS = (
    ("--sentences", 20.0, "sentences of a user on a day"),
    ("--peak", 0.12, "share of a day in its busiest hour"),
    ("--tokens", 32.0, "mean tokens of a translation"),
    ("--limit", 1.0, "seconds within which 99%% of the sentences are answered"),
    ("--seconds", 10.0, "simulated time at the peak"),
    ("--start-seconds", 60.0, "time until a new machine serves"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table: the machines for a steady peak, and what happens while half of that load doubles."""
    known = machines()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--users", type=int, nargs="+", default=[1_000, 100_000, 10_000_000])
    parser.add_argument("--machine", choices=list(known), default=next(iter(known)))
    for name, default, help in ASSUMPTIONS:
        parser.add_argument(name, type=float, default=default, help=f"{help} (default: {default:g})")
    options = parser.parse_args(arguments)
    machine = known[options.machine]
    print("users, sentences/s, machines, busy, p99 s | while the load doubles: machines, p99 s")
    for users in options.users:
        rate = users * options.sentences * options.peak / 3600
        fleets = math.ceil(rate / SIMULATED)
        count, steady = needed(machine, rate / fleets, options.tokens, options.limit, options.seconds)
        half, scaler = math.ceil(count / 2), Autoscaler(machine.batches[-1] / 2, 2 * count, start=options.start_seconds)
        doubling = [
            (options.seconds, rate / fleets / 2),
            (options.start_seconds + options.seconds, rate / fleets),
        ]
        grown = Simulation(machine, half, options.tokens, scaler=scaler).run(doubling)
        print(
            f"{users:,}  {rate:,.1f}  {count * fleets:,}  {steady.utilisation:.0%}  {steady.latency(0.99):.2f} | "
            f"{half * fleets:,} to {grown.replicas * fleets:,}  {grown.latency(0.99):.2f}"
        )


if __name__ == "__main__":
    main()

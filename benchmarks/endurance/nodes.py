"""A Ray cluster of two nodes on this machine (extra `ray`): one node is killed under load, or the processor time of a
request is measured.

    python -m benchmarks.endurance.nodes kill --proxy haproxy --clients 32 --seconds 60
    python -m benchmarks.endurance.nodes measure --proxy haproxy --clients 64 --seconds 10

Each node has a replica; the clients use the proxy of the first node. The exit status is 1 if an answer was
wrong or lost. With `kill` a request is lost if it failed and its repetition, which the client sends at once, failed too;
with `measure` if it failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common.http_connection import Address
from benchmarks.endurance.client import AttemptStats, CheckedRequest, CheckingClient, distinct, references
from benchmarks.endurance.texts import made_texts
from benchmarks.load.processor_time import descendants, seconds_of
from server.ray_serve.options import Options

KINDS = {
    "haproxy": "HAProxy",
    "ServeReplica": "replica",
    "SERVE_REPLICA": "replica",
    "ray::Proxy": "proxy",
    "server.engine.worker": "worker",
}
"""What the command line of a process contains -> its name in the result. All others are "rest of Ray"."""


def environment(proxy: str, port: int, retries: bool) -> dict[str, str]:
    """Returns the variables of all processes of Ray. Ports are next to `port`."""
    ports = {"STATS_PORT": port + 1, "METRICS_PORT": port + 2}
    found = {f"RAY_SERVE_HAPROXY_{name}": str(value) for name, value in ports.items()}
    found |= {f"RAY_SERVE_DIRECT_INGRESS_{end}_HTTP_PORT": str(port + by) for end, by in (("MIN", 50), ("MAX", 99))}
    if retries:
        found |= {"RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response 503", "RAY_SERVE_HAPROXY_RETRIES": "1"}
    return found | {
        "RAY_SERVE_ENABLE_HA_PROXY": str(int(proxy == "haproxy")),
        "RAY_USAGE_STATS_ENABLED": "0",
    }


class TwoNodes:
    """The cluster and its application."""

    def __init__(self, weights: Path, port: int, router: str) -> None:
        import ray
        from ray import serve
        from ray.cluster_utils import Cluster

        from server.ray_serve.application import application

        node = {"num_cpus": 1, "object_store_memory": 80_000_000}
        self.cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        self.second = self.cluster.add_node(**node)
        ray.init(address=self.cluster.address, namespace="serve", log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": port}, proxy_location="HeadOnly")
        options = Options(min_replicas=2, max_replicas=2, router=router, settings={"weights": str(weights)})
        serve.run(application(options), name="attentive", route_prefix="/")

    def kill_second(self) -> None:
        """Ends all processes of the second node at once, as a power failure does; their connections are closed."""
        raylet = self.second.all_processes["raylet"][0].process.pid
        for process in (raylet, *descendants(raylet)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.cluster.remove_node(self.second, allow_graceful=False)

    def processor_seconds(self) -> Counter[str]:
        """Returns the processor time that the processes of the cluster have used, by kind of process."""
        found: Counter[str] = Counter()
        for process in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8", errors="replace")
                kind = next((name for text, name in KINDS.items() if text in command), "rest of Ray")
                found[kind] += seconds_of(process)  # type: ignore[assignment]
        return found


@contextmanager
def two_nodes(weights: Path, port: int, router: str) -> Iterator[TwoNodes]:
    """Starts the cluster, waits until both replicas serve, and ends it."""
    nodes = TwoNodes(weights, port, router)
    try:
        yield nodes
    finally:
        import ray

        ray.shutdown()
        nodes.cluster.shutdown()


async def kill(nodes: TwoNodes, requests: Sequence[CheckedRequest], options: argparse.Namespace) -> dict[str, Any]:
    """Runs the clients and kills the second node after a third of the time. Returns the figures."""
    stats, lost, repeated = AttemptStats(), Counter[str](), 0
    client = CheckingClient(Address("127.0.0.1", options.port, ""), stats, 60.0)
    supply, end = distinct(requests), time.monotonic() + options.seconds

    async def one() -> None:
        nonlocal repeated
        while time.monotonic() < end:
            request = next(supply)
            outcome = await client.send(request)
            if outcome.status != "200":
                repeated += 1
                await asyncio.sleep(outcome.retry_after)
                outcome = await client.send(request)
            if outcome.status != "200":
                lost[outcome.status] += 1

    running = asyncio.gather(*(one() for _ in range(options.clients)))
    await asyncio.sleep(options.seconds / 3)
    before, in_flight = stats.answers, len(client.in_flight)
    await asyncio.to_thread(nodes.kill_second)
    await running
    await client.close()
    return {
        "answers": stats.answers, "of these after the kill": stats.answers - before, "in flight at the kill": in_flight,
        "attempts": dict(stats.statuses), "repeated by clients": repeated, "lost": dict(lost), "wrong": stats.wrong,
        "p50 ms": round(1000 * stats.latency(0.5)), "slowest ms": round(1000 * stats.latency(1.0)),
    }  # fmt: skip


async def measure(nodes: TwoNodes, requests: Sequence[CheckedRequest], options: argparse.Namespace) -> dict[str, Any]:
    """Runs the clients and returns requests per second and microseconds of processor time per request."""
    stats = AttemptStats()
    client = CheckingClient(Address("127.0.0.1", options.port, ""), stats, 60.0)
    supply, before, began = distinct(requests), nodes.processor_seconds(), time.monotonic()

    async def one() -> None:
        while time.monotonic() < began + options.seconds:
            await client.send(next(supply))

    await asyncio.gather(*(one() for _ in range(options.clients)))
    elapsed, after = time.monotonic() - began, nodes.processor_seconds()
    await client.close()
    spent = {kind: round(1e6 * (after[kind] - before[kind]) / max(1, stats.answers)) for kind in after}
    return {
        "answers/s": round(stats.answers / elapsed, 1), "attempts": dict(stats.statuses), "wrong": stats.wrong,
        "lost": stats.failures(),
        "us per request": spent, "all, us per request": sum(spent.values()),
        "p50 ms": round(1000 * stats.latency(0.5)), "p99 ms": round(1000 * stats.latency(0.99)),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.endurance.nodes", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("what", nargs="+", choices=("kill", "measure"))
    parser.add_argument("--weights", type=Path, default=Path("weights"), help="folder of models (default: weights)")
    parser.add_argument("--proxy", choices=("haproxy", "ray"), default="haproxy", help="ray: Ray's own, in Python")
    parser.add_argument("--router", choices=("queue", "model"), default="queue", help="of Ray's own proxy")
    parser.add_argument("--no-retries", action="store_true", help="HAProxy repeats no request")
    parser.add_argument("--port", type=int, default=23_200)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--number", type=int, default=50, help="number of different texts")
    options = parser.parse_args(arguments)
    os.environ.update(environment(options.proxy, options.port, not options.no_retries))  # before ray is imported
    with two_nodes(options.weights, options.port, options.router) as nodes:
        address = Address("127.0.0.1", options.port, "")
        requests = asyncio.run(references(address, made_texts(options.number), "en", "de"))
        found = {
            what: asyncio.run({"kill": kill, "measure": measure}[what](nodes, requests, options))
            for what in options.what
        }
    print(json.dumps({"proxy": options.proxy, "clients": options.clients, "seconds": options.seconds, **found}))
    return 1 if any(result["wrong"] or result.get("lost") for result in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

"""The leader of several API processes: owns the workers and models, leases the capacity of the
pool, and keeps what exists once. It sees no text."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from server.config import Settings
from server.engine.client.lease import Load, WorkKind
from server.engine.client.remote_pool import ModelReference, PoolState
from server.engine.client.status import WorkerStatus
from server.engine.ipc.messages import ModelLoaded
from server.engine.ipc.peer import Peer
from server.services import Services, new_backlogs
from server.translation.catalog import ModelCatalog

SOCKET = "leader.sock"
STATE_SECONDS = 0.1
FAILED = "It could not be loaded."
COLLECT_SECONDS = 2.0
ONCE = frozenset({"models_missing", "models_failed", "state_up", "data_free_ratio"})
"""Counters that the leader alone has; the others are added up."""


@dataclasses.dataclass(eq=False)
class Member:
    """An API process, with what it reported last."""

    peer: Peer
    counters: dict[str, float] = dataclasses.field(default_factory=dict)
    in_use: dict[str, int] = dataclasses.field(default_factory=dict)


class Leader:
    """Serves the calls of the API processes and tells them its state when it changes."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self._services = services
        self._backlogs = new_backlogs(settings, services.engine.workers)
        self._members: set[Member] = set()
        self._ended: Counter[str] = Counter()
        """The counters of processes that have ended."""
        self._state = PoolState()
        services.models.released = self._released

    async def serve(self, folder: Path) -> None:
        """Listens in the folder until it is cancelled."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_server(self._connected, str(folder / SOCKET))
        while True:
            self._tell()
            await asyncio.sleep(STATE_SECONDS)

    # -- state
    # ----------------------------------------------------------------------------------------------

    def _present(self) -> PoolState:
        services, catalog = self._services, self._services.models.catalog
        status = dataclasses.replace(services.engine.workers.status(), reports=())
        return PoolState(
            services.readiness,
            services.is_loaded,
            status,
            services.engine.workers.failures,
            tuple(model.key for model in catalog.models),
            tuple((failed.model.key, failed.error, failed.retry_at) for failed in catalog.failed),
            services.models.errors,
            {name: dataclasses.replace(pull) for name, pull in services.pulls.pulls.items()},
        )

    def _tell(self) -> None:
        if (state := self._present()) != self._state:
            self._state = state
            for member in self._members:
                member.peer.note("state", state)

    async def _released(self, old: ModelCatalog) -> None:
        """Waits until no process uses a replaced catalog."""
        self._tell()
        calls = [member.peer.call("state", self._state) for member in self._members]
        await asyncio.gather(*calls, return_exceptions=True)  # one that ends uses nothing

    # -- members
    # ----------------------------------------------------------------------------------------------

    def _connected(self) -> Peer:
        services = self._services
        handlers: dict[str, Any] = {
            "load": self._load,
            "reload": services.models.reload,
            "pull": services.pulls.request,
            "delete": services.pulls.delete,
            "charge": services.rate_limiter.charge,
            "collect": self._collect,
            "hangs": services.engine.workers.abort,
        }
        member = Member(Peer(handlers, lambda peer: self._lost(member)))
        handlers |= {
            "report": partial(self._report, member),
            "crashed": partial(self._crashed, member),
        }
        return member.peer

    def _report(
        self,
        member: Member,
        loads: Mapping[str, Mapping[WorkKind, Load]],
        counters: dict[str, float],
        in_use: dict[str, int],
    ) -> None:
        if member not in self._members:
            self._members.add(member)
            member.peer.note("state", self._state)
        member.counters = counters
        self._use(member, in_use)
        leases = {name: self._backlogs[name].renew(member, load) for name, load in loads.items()}
        member.peer.note("leases", leases)

    def _use(self, member: Member, in_use: dict[str, int]) -> None:
        """Keeps the models that a process uses in memory."""
        for key in in_use.keys() | member.in_use.keys():
            self._services.engine.use(key, in_use.get(key, 0) - member.in_use.get(key, 0))
        member.in_use = in_use

    def _crashed(self, member: Member, jobs: list[tuple[int, bool]]) -> None:
        for other in self._members - {member}:
            other.peer.note("crashed", jobs)

    def _lost(self, member: Member) -> None:
        self._members.discard(member)
        self._use(member, {})
        self._ended.update(
            {name: n for name, n in member.counters.items() if name.endswith("_total")}
        )
        for backlog in self._backlogs.values():
            backlog.leave(member)

    # -- calls
    # ----------------------------------------------------------------------------------------------

    async def _load(self, model: ModelReference) -> tuple[ModelLoaded, bool]:
        """Loads a model. Returns the answer, and whether the model is the cause of its error."""
        engine = self._services.engine
        if engine.failed(model.key):  # it is tried again later, never by a request
            return ModelLoaded(
                model.key, error=engine.workers.status().errors.get(model.key, FAILED)
            ), True
        return await engine.load(model), engine.failed(model.key)

    async def _collect(self) -> tuple[WorkerStatus, dict[str, float]]:
        """Returns the state of the workers, and the counters of all processes."""
        services = self._services
        await services.measure_disk()
        members = list(self._members)
        calls = [
            asyncio.wait_for(member.peer.call("counters"), COLLECT_SECONDS) for member in members
        ]
        for member, counters in zip(
            members, await asyncio.gather(*calls, return_exceptions=True), strict=True
        ):
            if not isinstance(counters, BaseException):
                member.counters = counters
        own = services.counters()
        total = Counter({name: n for name, n in own.items() if name not in ONCE})
        total.update(self._ended)
        for member in self._members:
            total.update({name: n for name, n in member.counters.items() if name not in ONCE})
        return services.engine.workers.status(), {
            name: own[name] if name in ONCE else total[name] for name in own
        }

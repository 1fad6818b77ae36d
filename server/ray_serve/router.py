"""The request router of Ray's default proxy: prefers replicas that have the model loaded, then the shorter queue."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

MODELS = "models"  # Ray sends this module by value, so it imports nothing of the server
Replica = TypeVar("Replica")


class ModelRouter(RequestRouter):  # type: ignore[misc]
    """Takes the wanted model from the header `serve_multiplexed_model_id`. Ray chooses the replica with fewer requests
    in progress of the two that this class proposes."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Returns two replicas that have the model loaded, and two of all for the case that these are full."""
        wanted = pending_request.metadata.multiplexed_model_id if pending_request else ""
        loaded = with_model(candidate_replicas, wanted)
        groups = [loaded, candidate_replicas] if loaded else [candidate_replicas]
        return [two_of(group) for group in groups if group]


def with_model(replicas: Sequence[Any], model: str) -> list[Any]:
    """Returns the replicas whose last report names the model; none where no model is wanted."""
    return [replica for replica in replicas if model in replica.routing_stats.get(MODELS, ())] if model else []


def two_of(replicas: Sequence[Replica]) -> list[Replica]:
    """Returns two of the replicas at random, or the only one."""
    return random.sample(replicas, min(2, len(replicas)))

"""The request router of Ray's default proxy: prefers replicas that have the model loaded, then the shorter queue."""

from __future__ import annotations

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from server.ray_serve.load import proposals


class ModelRouter(RequestRouter):  # type: ignore[misc]
    """Takes the wanted model from the header `serve_multiplexed_model_id`. Ray chooses the replica with fewer requests
    in progress of the two that this class proposes."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Returns two replicas that have the model loaded, and two of all for the case that these are full."""
        wanted = pending_request.metadata.multiplexed_model_id if pending_request else ""
        return proposals(candidate_replicas, wanted)

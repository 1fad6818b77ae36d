"""What Ray calls for autoscaling and routing. Imports no ray."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

WAITING_TOKENS = "waiting_tokens"
"""Accepted and unanswered tokens times beam width, the unit of `--queue-tokens`."""
MODELS = "models"
"""Names of the loaded models, as in GET /ready."""


class WaitingTokens:
    """Autoscaling policy: as many replicas as hold `tokens_per_replica` waiting tokens each.

    Ray applies the bounds on replicas, the delays and the factors of its autoscaling configuration to the result.
    """

    def __init__(self, tokens_per_replica: float) -> None:
        self._tokens_per_replica = tokens_per_replica

    def __call__(self, context: Any) -> tuple[float, dict[str, Any]]:
        """Returns the number of replicas, which may be a fraction, and no state."""
        reported = (context.aggregated_metrics or {}).get(WAITING_TOKENS, {})
        if not reported:
            return context.target_num_replicas, {}
        mean = sum(reported.values()) / len(reported)  # a replica that has not reported yet counts as the mean
        return mean * context.current_num_replicas / self._tokens_per_replica, {}


def proposals(replicas: Sequence[Any], model: str) -> list[list[Any]]:
    """Returns two random replicas that have the model loaded, and two of all in case that these are full.

    Where no replica has it, or no model is named, there are only the latter. `routing_stats` of a replica is its last
    report.
    """
    loaded = [replica for replica in replicas if model and model in replica.routing_stats.get(MODELS, ())]
    return [random.sample(group, min(2, len(group))) for group in (loaded, replicas) if group]

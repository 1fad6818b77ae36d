"""The autoscaling policy of the replicas, which Ray calls. Imports no ray."""

from __future__ import annotations

from typing import Any

WAITING_TOKENS = "waiting_tokens"
"""Accepted and unanswered tokens times beam width, the unit of `--queue-tokens`."""


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

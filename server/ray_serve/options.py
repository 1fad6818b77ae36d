"""The options of a Ray Serve application. Imports no ray."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, get_type_hints

from server.config import Settings, check_bounds, flag_and_variable, parse, setting
from server.errors import SettingsError

NOT_FOR_REPLICAS = ("host", "port")
"""Settings of the listener, which is Ray's."""
_PASSWORD = re.compile(r"://[^/?]*@|[?&]password=")
"""Finds a user and a password in an address."""
STOP_SECONDS = 10.0
"""Time after the grace time in which a replica ends its worker and closes its stores."""
LEAST = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How many replicas there are, and their settings.

    `settings` are those of every replica by name. Others come from the variables of each node, as
    do all secrets, because Ray stores `settings`.
    """

    min_replicas: int = setting(1, "Replicas that always run.", 1)
    max_replicas: int = setting(
        1,
        "Replicas at the highest load; above --min-replicas the number follows the waiting tokens.",
        1,
    )
    cpus: float = setting(1.0, "Cores of a replica.", LEAST)
    gpus: float = setting(0.0, "GPUs of a replica.", 0)
    ongoing_requests: int = setting(500, "Requests that a replica serves at the same time.", 1)
    tokens_per_replica: float = setting(
        4_000.0, "Waiting tokens of a replica beyond which another one is started.", LEAST
    )
    upscale_seconds: float = setting(
        30.0, "Seconds that the load must last before replicas are added.", 0
    )
    downscale_seconds: float = setting(
        600.0, "Seconds without that load before replicas are removed.", 0
    )
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_bounds(self, str)
        if self.min_replicas > self.max_replicas:
            raise SettingsError("min_replicas must be at most max_replicas.")
        self.replica_settings()

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Returns the options of a configuration file. Raises SettingsError."""
        kinds = get_type_hints(cls)
        if unknown := sorted(values.keys() - kinds.keys()):
            raise SettingsError(f"Unknown option {unknown[0]!r}; known are {', '.join(kinds)}.")
        settings = values.get("settings") or {}
        if not isinstance(settings, Mapping):
            raise SettingsError("settings must be a mapping of names to values.")
        options = {
            name: parse(name, text_of(values[name]), kinds[name])
            for name in flags()
            if name in values
        }
        return cls(**options, settings={name: text_of(value) for name, value in settings.items()})

    def replica_settings(self) -> dict[str, str]:
        """Returns the settings of a replica. Raises SettingsError for one that does not exist, is
        invalid, is Ray's or contains a secret."""
        names = {item.name for item in dataclasses.fields(Settings)}
        for name, text in self.settings.items():
            if name in NOT_FOR_REPLICAS:
                raise SettingsError(
                    f"{name} is not a setting of a replica; the HTTP options of Ray Serve have it."
                )
            if name not in names:
                raise SettingsError(
                    f"There is no setting {name!r}; `attentive serve --help` lists all."
                )
            if (text and name == "admin_key") or _PASSWORD.search(text):
                raise SettingsError(
                    f"{flag_and_variable(name)} contains a secret, and Ray stores and shows the "
                    "settings of replicas: set "
                    "the variable on every node before `ray start` instead."
                )
        Settings.read(argparse.Namespace(**self.settings), {})
        threads = {} if self.gpus else {"threads": str(math.ceil(self.cpus))}
        return {**threads, **self.settings}

    def stop_seconds(self) -> float:
        """Returns the time after which Ray ends a replica that is draining."""
        return Settings.read(argparse.Namespace(**self.settings)).grace_seconds + STOP_SECONDS


def text_of(value: object) -> str:
    """Returns a value of a configuration file as the text of a flag."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def flags() -> dict[str, dataclasses.Field[Any]]:
    """Returns the options that are flags of the command line, by name."""
    return {item.name: item for item in dataclasses.fields(Options) if "help" in item.metadata}


WAITING_TOKENS = "waiting_tokens"
"""Accepted and unanswered tokens times beam width, the unit of `--queue-tokens`."""


class WaitingTokens:
    """Autoscaling policy: as many replicas as hold `tokens_per_replica` waiting tokens each. Ray
    applies the bounds and delays of its autoscaling configuration to the result."""

    def __init__(self, tokens_per_replica: float) -> None:
        self._tokens_per_replica = tokens_per_replica

    def __call__(self, context: Any) -> tuple[float, dict[str, Any]]:
        """Returns the number of replicas, which may be a fraction, and no state."""
        reported = (context.aggregated_metrics or {}).get(WAITING_TOKENS, {})
        if not reported:
            return context.target_num_replicas, {}
        # a replica that has not reported yet counts as the mean
        mean = sum(reported.values()) / len(reported)
        return mean * context.current_num_replicas / self._tokens_per_replica, {}

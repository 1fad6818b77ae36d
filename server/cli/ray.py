"""`attentive ray`: deploys the server to a Ray cluster, and lists its replicas for Prometheus."""

from __future__ import annotations

import argparse
import dataclasses
import json
import urllib.error
import urllib.request
from typing import Any

from server.config import Settings, add_flags
from server.errors import SettingsError
from server.ray_serve.options import NOT_FOR_REPLICAS, Options

NAME = "ray"
HELP = "Serve with Ray: deploy to a cluster, list the replicas."
SECONDS = 10.0
"""Time in which the dashboard of the cluster must answer."""
HELP_OF = {
    "min_replicas": "Replicas that always run.",
    "max_replicas": "Replicas at the highest load; above --min-replicas the number follows the waiting tokens.",
    "cpus": "Cores of a replica.",
    "gpus": "GPUs of a replica.",
    "ongoing_requests": "Requests that a replica serves at the same time.",
    "tokens_per_replica": "Waiting tokens of a replica beyond which another one is started.",
    "upscale_seconds": "Seconds that the load must last before replicas are added.",
    "downscale_seconds": "Seconds without that load before replicas are removed.",
    "router": "queue: the replica with fewer requests in progress; model: among those that have the model loaded.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    deploy = actions.add_parser(
        "deploy", help="Start or change the replicas. Settings that are not given come from each node."
    )
    deploy.add_argument("--address", default="auto", help="Address of the cluster. [default: auto, that of this node]")
    for item in dataclasses.fields(Options):
        if item.name in HELP_OF:
            flag = "--" + item.name.replace("_", "-")
            deploy.add_argument(flag, metavar="N", help=f"{HELP_OF[item.name]} [default: {item.default}]")
    add_flags(deploy, tuple(item.name for item in dataclasses.fields(Settings) if item.name not in NOT_FOR_REPLICAS))
    targets = actions.add_parser(
        "targets", help="Print the replicas as targets for Prometheus (file_sd). Needs HAProxy."
    )
    targets.add_argument("--dashboard", default="http://127.0.0.1:8265", help="Address of Ray's dashboard.")
    for action in (deploy, targets):
        action.add_argument("--app", default="attentive", help="Name of the application. [default: attentive]")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "targets":
        print(json.dumps(targets(replicas(arguments.dashboard), arguments.app), indent=2))
        return 0
    options = Options.read(option_values(arguments))
    try:
        from server.ray_serve.application import deploy
    except ImportError as error:
        raise SettingsError(f"Ray Serve is not installed ({error}): pip install 'attentive-server[ray]'.") from error
    deploy(options, arguments.address, arguments.app)
    return 0


def option_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the given flags as `Options.read` expects them."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    settings = {item.name: given[item.name] for item in dataclasses.fields(Settings) if item.name in given}
    return {name: given[name] for name in HELP_OF if name in given} | {"settings": settings}


def replicas(dashboard: str) -> dict[str, Any]:
    """Returns the Serve applications as Ray's dashboard describes them. Raises SettingsError if it does not answer."""
    try:
        with urllib.request.urlopen(f"{dashboard.rstrip('/')}/api/serve/applications/", timeout=SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise SettingsError(f"--dashboard: {dashboard} does not answer: {error}") from None


def targets(found: dict[str, Any], app: str) -> list[dict[str, Any]]:
    """Returns the addresses of the replicas of an application in the form of Prometheus' `file_sd_configs`."""
    return [
        {"targets": [f"{one['ip']}:{one['port']}"], "labels": {"replica": one["name"]}}
        for group in found.get("target_groups", [])
        if group["protocol"] == "HTTP" and group.get("app_name") == app
        for one in group["targets"]
    ]

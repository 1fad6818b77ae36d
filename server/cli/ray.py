"""`attentive ray`: deploys the server to a Ray cluster, and lists its replicas for Prometheus."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from server.config import Settings, add_flag, add_flags
from server.errors import SettingsError
from server.ray_serve.options import NOT_FOR_REPLICAS, Options, flags

NAME = "ray"
HELP = "Serve with Ray: deploy to a cluster, list the replicas."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    deploy = actions.add_parser(
        "deploy",
        help="Start or change the replicas. Settings that are not given come from each node.",
        formatter_class=parser.formatter_class,
    )
    for item in flags().values():
        add_flag(deploy, Options, item)
    add_flags(
        deploy, {item.name for item in dataclasses.fields(Settings)}.difference(NOT_FOR_REPLICAS)
    )
    deploy.add_argument(
        "--http-host",
        default="127.0.0.1",
        metavar="TEXT",
        help="Address of proxies and replicas; 0.0.0.0 for several nodes or other machines. "
        "[default: 127.0.0.1]",
    )
    deploy.add_argument(
        "--http-port",
        default=8000,
        type=int,
        metavar="N",
        help="Port of the proxies. [default: 8000]",
    )
    targets = actions.add_parser(
        "targets", help="Print the replicas as targets for Prometheus (file_sd). Needs HAProxy."
    )
    for action in (deploy, targets):
        action.add_argument(
            "--address",
            default="auto",
            help="Address of the cluster. [default: auto, that of this node]",
        )
        action.add_argument(
            "--app", default="attentive", help="Name of the application. [default: attentive]"
        )


def run(arguments: argparse.Namespace) -> int:
    options = Options.read(option_values(arguments)) if arguments.action == "deploy" else None
    try:
        from server.ray_serve.application import deploy, target_groups
    except ImportError as error:
        raise SettingsError(
            f"Ray Serve is not installed ({error}): pip install 'attentive-server[ray]'."
        ) from error
    if options is not None:
        deploy(options, arguments.address, arguments.app, arguments.http_host, arguments.http_port)
    else:
        print(
            json.dumps(
                targets(target_groups(arguments.address, arguments.app), arguments.app), indent=2
            )
        )
    return 0


def option_values(arguments: argparse.Namespace) -> dict[str, Any]:
    stated = {name: value for name, value in vars(arguments).items() if value is not None}
    settings = {
        item.name: stated[item.name] for item in dataclasses.fields(Settings) if item.name in stated
    }
    return {name: stated[name] for name in flags() if name in stated} | {"settings": settings}


def targets(groups: Sequence[Any], app: str) -> list[dict[str, Any]]:
    """Returns the replicas of an application in the form of Prometheus' `file_sd_configs`. Raises
    SettingsError if there are none: an empty list would end their monitoring."""
    replicas = [
        {"targets": [f"{target.ip}:{target.port}"], "labels": {"replica": target.name}}
        for group in groups
        if group.protocol == "HTTP" and group.app_name == app
        for target in group.targets
    ]
    if not replicas:
        raise SettingsError(
            f"The application {app!r} has no replicas with ports of their own. They have them with "
            "RAY_SERVE_ENABLE_HA_PROXY=1 on all nodes."
        )
    return replicas

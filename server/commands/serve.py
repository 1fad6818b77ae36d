"""`attentive serve`: the HTTP server, until SIGTERM or Ctrl-C; then what was accepted is finished first."""

from __future__ import annotations

import argparse
import logging
from types import FrameType

import uvicorn

from server.api.app import create_app
from server.config import Settings, add_flags
from server.log import configure
from server.services import Services

NAME = "serve"
HELP = "Serve translations over HTTP."
log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Uvicorn that says so when it begins to drain, and ends with status 0 after a signal that asked it to end."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains; a second one ends at once."""
        self._services.draining = True
        self.force_exit = self.should_exit
        self.should_exit = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(arguments)
    configure(settings.log_level, settings.log_format)
    services = Services(settings)
    config = uvicorn.Config(
        create_app(settings, services),
        host=settings.host,
        port=settings.port,
        loop="auto",  # uvloop and httptools where they are installed
        http="auto",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies or None,
        timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=65_536,
    )
    server = Server(config, services)
    server.run()
    return 0 if server.started else 1

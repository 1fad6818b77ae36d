"""A replica: one whole server with its own worker process. Requests reach its application without a queue of Ray."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ray.serve import ingress
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.access.trusted_proxies import trusted_hosts
from server.api.app import create_app
from server.api.middleware.one_request_id import OneRequestId
from server.config import Settings
from server.engine.ipc.options import NO_DEVICE
from server.errors import Unavailable
from server.observability.logging import configure_logging
from server.process import tune_garbage_collector
from server.ray_serve.autoscaling import WAITING_TOKENS
from server.services import Services


@ingress()
class Server:
    """A server that Ray starts, checks and stops.

    `settings` are texts by the names of `Settings`; settings that are not given come from the environment of the
    replica. Raises SettingsError where a setting cannot be used.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = Settings.read(argparse.Namespace(**settings))
        configure_logging(self._settings.log_level, self._settings.log_format)
        self._services = Services(self._settings)

    def __serve_build_asgi_app__(self) -> Any:
        """Returns the ASGI application. Ray runs its lifespan: startup after this call, shutdown after the last
        request."""
        app: Any = create_app(self._settings, self._services)
        tune_garbage_collector()
        if proxies := trusted_hosts(self._settings.trusted_proxies):
            app = ProxyHeadersMiddleware(app, proxies)  # the listener, which is Ray's, trusts none
        return OneRequestId(app)

    async def check_health(self) -> None:
        """Waits until the models are loaded. Raises Unavailable if none could be, or if the device does not exist.

        Ray sends requests to a replica after the first call, and replaces a replica whose later calls raise.
        """
        await self._services.loaded()
        if self._services.engine.workers.status().no_device:
            raise Unavailable(NO_DEVICE)
        if self._services.readiness == "failed":
            raise Unavailable("No model could be loaded: " + " ".join(self._services.models.errors.values()))

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Returns the load that the autoscaling policy reads."""
        return {WAITING_TOKENS: self._services.translator.admission.tokens}

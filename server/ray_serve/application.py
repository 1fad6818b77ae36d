"""The Ray Serve application: `build` for a Serve configuration file, `deploy` for the command line.

A replica is one whole server with its own worker process. Requests do not wait in a queue of Ray.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import ray
from ray import serve
from ray.serve import Application, ingress
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, HTTPOptions
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.access.authentication import trusted_hosts
from server.api.app import create_app
from server.api.connection_limits import write_answers_at_once
from server.api.middleware.entrance import OneRequestId
from server.config import Settings
from server.engine.ipc.options import NO_DEVICE
from server.errors import SettingsError, Unavailable
from server.observability.logging import configure_logging
from server.process import tune_garbage_collector
from server.ray_serve.options import WAITING_TOKENS, Options, WaitingTokens
from server.services import Services


@ingress()
class Server:
    """A server that Ray starts, checks and stops.

    `settings` are texts by the names of `Settings`; the others come from the environment of the
    replica. Raises SettingsError where a setting cannot be used.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = Settings.read(argparse.Namespace(**settings))
        configure_logging(self._settings.log_level, self._settings.log_format)
        self._services = Services(self._settings)
        # Ray's listener has uvicorn's protocol, and no proxy can repeat a request whose replica
        # ends between head and body.
        write_answers_at_once()

    def __serve_build_asgi_app__(self) -> Any:
        """Returns the ASGI application, whose lifespan Ray runs."""
        app: Any = create_app(self._settings, self._services)
        tune_garbage_collector()
        if proxies := trusted_hosts(self._settings.trusted_proxies):
            app = ProxyHeadersMiddleware(app, proxies)  # the listener, which is Ray's, trusts none
        return OneRequestId(app)

    async def check_health(self) -> None:
        """Waits until the models are loaded. Raises Unavailable if none could be, or without a
        device. Ray replaces a replica whose later calls raise."""
        await self._services.loaded()
        if self._services.engine.workers.status().no_device:
            raise Unavailable(NO_DEVICE)
        if self._services.readiness == "failed":
            raise Unavailable(
                "No model could be loaded: " + " ".join(self._services.models.errors.values())
            )

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Returns the load that the autoscaling policy reads."""
        return {WAITING_TOKENS: self._services.translator.admission.accepted}


HEALTH_SECONDS = 60.0
"""Time after which a replica that does not answer is replaced. A busy one answers late."""


def build(args: dict[str, Any]) -> Application:
    """Returns the application for `args` of a Serve configuration file, such as
    `deploy/ray/serve.yaml`. Raises SettingsError."""
    return application(Options.read(args))


def application(options: Options) -> Application:
    return serve.deployment(Server, name="Server", **deployment_options(options)).bind(
        options.replica_settings()
    )


def deployment_options(options: Options) -> dict[str, Any]:
    autoscaling = AutoscalingConfig(
        min_replicas=options.min_replicas,
        max_replicas=options.max_replicas,
        upscale_delay_s=options.upscale_seconds,
        downscale_delay_s=options.downscale_seconds,
        policy=AutoscalingPolicy(
            policy_function=WaitingTokens,
            policy_kwargs={"tokens_per_replica": options.tokens_per_replica},
        ),
    )
    fixed = options.min_replicas == options.max_replicas
    return {
        **(
            {"num_replicas": options.min_replicas} if fixed else {"autoscaling_config": autoscaling}
        ),
        "max_ongoing_requests": options.ongoing_requests,
        "graceful_shutdown_timeout_s": options.stop_seconds(),
        "health_check_timeout_s": HEALTH_SECONDS,
        "logging_config": {"enable_access_log": False},  # the server writes a line for each request
        "ray_actor_options": {
            "num_cpus": options.cpus,
            "num_gpus": options.gpus,
            # uvicorn in the replica would otherwise trust X-Forwarded-For of every proxy on the
            # same machine.
            "runtime_env": {"env_vars": {"FORWARDED_ALLOW_IPS": "", "OPENBLAS_NUM_THREADS": "1"}},
        },
    }


def deploy(options: Options, address: str, name: str, host: str, port: int) -> None:
    """Deploys the application to a running cluster and waits until its replicas are ready. Proxies
    and replicas listen on `host`, proxies on `port`, unless Serve runs already. Raises
    SettingsError without a cluster."""
    _connect(address)
    serve.start(http_options=HTTPOptions(host=host, port=port))
    serve.run(application(options), name=name, route_prefix="/")


def target_groups(address: str, name: str) -> list[Any]:
    """Returns the addresses of the replicas, as Ray gives them to its HAProxy; the dashboard has
    only those of HAProxy. Raises SettingsError without a cluster or application."""
    _connect(address)
    try:
        controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
    except ValueError:
        raise SettingsError(f"Nothing was deployed to the Ray cluster at {address}.") from None
    groups: list[Any] = ray.get(
        controller.get_target_groups.remote(app_name=name, from_proxy_manager=True)
    )
    return groups


def _connect(address: str) -> None:
    try:
        ray.init(
            address=address, namespace=SERVE_NAMESPACE, log_to_driver=False, configure_logging=False
        )
    except ConnectionError as error:
        raise SettingsError(f"--address: there is no Ray cluster at {address}: {error}") from None

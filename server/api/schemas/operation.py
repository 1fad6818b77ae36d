"""Answers of GET /, GET /health, GET /ready and POST /admin/reload."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from server.api.schemas.base import Answer
from server.engine.client.status import DeviceStatus

MODEL_NAMES = [["general-en-de-fr-es"]]
METRICS_EXAMPLE = (
    "# HELP attentive_requests_running Sentences being decoded.\n"
    "# TYPE attentive_requests_running gauge\n"
    "attentive_requests_running 3.0\n"
)


class ReadyAnswer(Answer):
    status: Literal["starting", "ready", "draining", "failed"]
    version: str
    device: str
    dtype: str
    engine: str = Field(description="Decode path, and why a faster one is not in use.")
    details: dict[str, str] = Field(description="Further settings of the worker.")
    restarts: int = Field(description="Restarts of all workers since the start.")
    workers: list[DeviceStatus]
    models: list[str] = Field(description="Models that are served now.")
    errors: dict[str, str] = Field(description="Models that could not be loaded, with one sentence.")


class ReloadAnswer(Answer):
    """Names of models."""

    added: list[str]
    replaced: list[str]
    removed: list[str]
    failed: list[str] = Field(description="Their predecessors are still served, if any.")
    errors: dict[str, str] = Field(description="The reason of each failure.")

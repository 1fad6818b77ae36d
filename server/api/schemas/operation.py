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
    status: Literal["starting", "ready", "draining", "failed"] = Field(examples=["ready"])
    version: str = Field(examples=["0.2.0"])
    device: str = Field(examples=["cpu"])
    dtype: str = Field(examples=["int8"])
    engine: str = Field(description="Decode path, and why a faster one is not in use.", examples=["native"])
    details: dict[str, str] = Field(
        description="Further settings of the worker.", examples=[{"threads": "2", "slots": "64", "isa": "avx2"}]
    )
    restarts: int = Field(description="Restarts of all workers since the start.", examples=[0])
    workers: list[DeviceStatus]
    models: list[str] = Field(description="Models that are served now.", examples=MODEL_NAMES)
    errors: dict[str, str] = Field(description="Models that could not be loaded, with one sentence.", examples=[{}])


class ReloadAnswer(Answer):
    """Names of models."""

    added: list[str] = Field(examples=MODEL_NAMES)
    replaced: list[str] = Field(examples=[[]])
    removed: list[str] = Field(examples=[[]])
    failed: list[str] = Field(description="Their predecessors are still served, if any.", examples=[[]])
    errors: dict[str, str] = Field(description="The reason of each failure.", examples=[{}])

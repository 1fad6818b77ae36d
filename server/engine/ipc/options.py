"""Options of the worker processes. No torch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, Self, get_args

from model.backends.cpu.isa import Isa

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
Engine = Literal["auto", "eager"]
ShortlistUse = Literal["auto", "on", "off"]


NO_DEVICE = "There is no CUDA device that torch can use, or no torch; choose device cpu or auto."
_CHOICES = (("device", Device), ("dtype", Dtype), ("engine", Engine), ("isa", Isa), ("shortlist", ShortlistUse))
NO_DEVICE_STATUS = 78
"""Exit status of a worker without the device that the options require; EX_CONFIG of sysexits.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Settings of the worker processes. Raises ValueError with one sentence where a value cannot be used.

    `device` "auto" is every GPU there is, else the CPU; `devices` bounds how many GPUs (0: all), one worker each.
    `dtype` "auto" is bfloat16 on a GPU, int8 on a CPU that is fast at it, else float32. `threads` is CPU threads per
    worker (0: one per core). `slots` is how many hypotheses of one model run at once (0: chosen for the device).
    `max_batch_tokens` bounds the padded source tokens of one prefill. `watchdog_seconds` is how long a worker with work
    may stay silent before it is killed; `start_seconds` and `load_seconds` bound its start and the loading of one
    model. `engine` "eager" keeps the plain
    PyTorch decode path. `isa` is the instruction set of the CPU backend, "auto" the best that the processor has.
    `shortlist` "on" limits each sentence to its shortlist, for models that have one; "auto" only on a CPU, and only for
    lists that say so.
    """

    device: Device = "auto"
    devices: int = 0
    dtype: Dtype = "auto"
    threads: int = 0
    slots: int = 0
    max_batch_tokens: int = 2048
    watchdog_seconds: float = 60.0
    start_seconds: float = 180.0
    load_seconds: float = 600.0
    engine: Engine = "auto"
    isa: Isa = "auto"
    shortlist: ShortlistUse = "auto"

    def __post_init__(self) -> None:
        for name, kind in _CHOICES:
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, not {getattr(self, name)!r}.")
        least_values = {"devices": 0, "threads": 0, "slots": 0, "max_batch_tokens": 1}
        for name, least in least_values.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}.")
        for name in ("watchdog_seconds", "start_seconds", "load_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}.")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

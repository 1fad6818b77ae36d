"""Options of the worker processes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Self

from model.backends.cpu.isa import Isa
from server.config import Device, Dtype, ShortlistUse
from server.errors import ADD_TORCH

NO_DEVICE = (
    f"There is no CUDA device that torch can use (choose device cpu or auto), or {ADD_TORCH}"
)
NO_DEVICE_STATUS = 78
"""Exit status of a worker without the device that the options require; EX_CONFIG of sysexits.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Settings of the worker processes.

    `device` "auto" is every GPU, one worker each, else the CPU. `dtype` "auto" is bfloat16 on a
    GPU, int8 on a CPU that is fast at it, else float32. `threads` are those of a worker on a CPU
    (0: one per core), `slots` the hypotheses of one model that run at once (0: by device).
    `max_batch_tokens` bounds the padded source tokens of a prefill. A worker with work that is
    silent for `watchdog_seconds` is killed; `start_seconds` and `load_seconds` bound its start and
    the loading of a model. `isa` is the instruction set of the CPU backend, "auto" the best of the
    processor. `shortlist` "on" limits each sentence to its shortlist on the CPU backend, "auto"
    only for lists that say so. `sockets` is the folder in which the worker listens for several API
    processes; empty for one.
    """

    device: Device = "auto"
    dtype: Dtype = "auto"
    threads: int = 0
    slots: int = 0
    max_batch_tokens: int = 2048
    watchdog_seconds: float = 60.0
    start_seconds: float = 180.0
    load_seconds: float = 600.0
    isa: Isa = "auto"
    shortlist: ShortlistUse = "auto"
    sockets: str = ""

    def socket_of(self, index: int) -> str:
        """Returns the path of the socket of the worker of device `index`."""
        return f"{self.sockets}/worker-{index}.sock"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

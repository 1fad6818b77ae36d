"""Chooses the instruction set of `--isa auto`: each that the processor has multiplies known matrices, and the fastest whose bits
equal those of plain C++ is used. This takes some tenths of a second."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from model.backends.cpu.isa import CpuBackendUnavailable, InstructionSet

TRIAL_SECONDS = 20
Programs = Callable[[InstructionSet], Path]
"""Returns the trial program of an instruction set. Raises CpuBackendUnavailable."""


def fastest_first(candidates: Sequence[InstructionSet], program: Programs) -> list[InstructionSet]:
    """Returns the candidates whose products are right, fastest first. A single one is not tried. If all trials fail it returns
    the candidates that need none: those without tiles, in their order."""
    if len(candidates) == 1:
        return list(candidates)
    times = {each.name: time for each in candidates if (time := _try(each, program)) is not None}
    tried = sorted((each for each in candidates if each.name in times), key=lambda each: times[each.name])
    return tried or [each for each in candidates if not each.tiles]


def _try(instructions: InstructionSet, program: Programs) -> float | None:
    """Returns the nanoseconds of the trial, or None if there is no program."""
    with suppress(CpuBackendUnavailable):
        return _nanoseconds(program(instructions))
    return None


@cache
def _nanoseconds(program: Path) -> float | None:
    """Returns what a trial program measured, once in this process, or None if a bit differs or it does not run."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)
        return float(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None

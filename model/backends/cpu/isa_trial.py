"""Chooses the instruction set of `--isa auto`: each that the processor has multiplies known matrices, and the fastest whose bits
equal those of plain C++ is used. The results are kept beside the compiled libraries."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from model.atomic_write import atomic_write
from model.backends.cpu.isa import CpuBackendUnavailable, InstructionSet, processor_name

TRIAL_SECONDS = 20
Programs = Callable[[InstructionSet], Path]
"""Returns the trial program of an instruction set. Raises CpuBackendUnavailable."""


def fastest_first(
    candidates: Sequence[InstructionSet], program: Programs, folder: Path, sources: str
) -> list[InstructionSet]:
    """Returns the candidates whose products are right, fastest first. `sources` identifies the version of the code.

    Uses the results in `folder` if they are of this processor and code; else runs the trials and writes them there. Without
    them it returns the candidates that need none: those without tiles, in their order.
    """
    untried = [each for each in candidates if not each.tiles]
    if len(candidates) == 1:
        return list(candidates)
    names = ",".join(each.name for each in candidates)
    key = hashlib.sha256(f"{processor_name()}\0{names}\0{sources}".encode()).hexdigest()[:20]
    path = folder / f"attentive-trial-{key}.json"
    times = _read(path, candidates)
    if times is None:
        times = {}
        for each in candidates:
            try:
                compiled = program(each)
            except CpuBackendUnavailable:
                continue
            if (time := _try(compiled)) is not None:
                times[each.name] = time
        _write(path, times)
    if not times:
        return untried
    return sorted((each for each in candidates if each.name in times), key=lambda each: times[each.name])


def _try(program: Path) -> float | None:
    """Returns the nanoseconds of the trial, or None if a bit differs or it does not run."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)
        return float(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _read(path: Path, candidates: Sequence[InstructionSet]) -> dict[str, float] | None:
    """Returns the stored times, or None if there are none that can be used."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["nanoseconds"]
        times = {str(name): float(time) for name, time in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return times if times and times.keys() <= {each.name for each in candidates} else None


def _write(path: Path, times: dict[str, float]) -> None:
    if not times:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_write(path) as part:
            part.write_text(json.dumps({"nanoseconds": times}) + "\n", encoding="utf-8")
    except OSError:
        return  # a read-only folder: the next start tries again, which takes a tenth of a second

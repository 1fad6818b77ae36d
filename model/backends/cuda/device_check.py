"""Whether a GPU still computes: the one test after an error of a load, a capture or a step."""

from __future__ import annotations

import torch


def check_device(device: torch.device | str) -> None:
    """Raises the error of a GPU that is broken: after an illegal address, say, every further call
    of the process fails. Waits for the present stream only, because another thread may be capturing
    on the device."""
    torch.cuda.current_stream(device).synchronize()

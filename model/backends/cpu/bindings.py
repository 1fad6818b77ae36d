"""ctypes signatures of the C interface (csrc/api.cpp). Calls release the interpreter lock."""

from __future__ import annotations

import ctypes
from ctypes import CDLL, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
UInt8 = NDArray[np.uint8]

# addresses from `address`: a typed ctypes pointer costs ten microseconds
_INT32 = _FLOAT32 = c_void_p
_SIGNATURES = {
    "attentive_linear": (c_int, [c_void_p, c_char_p, _FLOAT32, _FLOAT32, _FLOAT32, c_int, c_int]),
    "attentive_vector": (c_int, [c_void_p, c_char_p, _FLOAT32, c_int]),
    "attentive_resolve": (c_int, [c_void_p]),
    "attentive_prefill": (c_int, [c_void_p, c_int, _INT32, _INT32, _INT32, c_void_p]),
    "attentive_add_common": (c_int, [c_void_p, _INT32, c_int]),
    "attentive_restrict": (c_int, [c_void_p, c_int, c_int, _INT32, c_int]),
    "attentive_step": (
        c_int,
        [c_void_p, c_int, _INT32, _INT32, c_int, _INT32, _INT32, _FLOAT32, _FLOAT32, c_void_p],
    ),
    "attentive_forced_steps": (c_int, [c_void_p, c_int, _INT32, _INT32, _INT32, _INT32, _FLOAT32]),
    "attentive_forced_decode": (
        c_int,
        [
            *(c_void_p, _INT32, _INT32, c_void_p, c_int, _INT32, c_int),
            *(c_int, _INT32, _INT32, _FLOAT32, _FLOAT32, c_void_p),
        ],
    ),
    "attentive_read_words": (
        c_int,
        [c_void_p, c_int, _INT32, _INT32, _INT32, c_int, _INT32, c_int, _FLOAT32, _FLOAT32, c_int],
    ),
    "attentive_capture": (c_int, [c_void_p, c_int, c_void_p, _INT32, _INT32]),
    "attentive_multi_step": (
        c_int,
        [c_void_p, c_int, _INT32, _INT32, c_int, c_int, _INT32, c_int, _INT32, _FLOAT32],
    ),
    "attentive_reorder": (c_int, [c_void_p, c_int, _INT32, _INT32]),
    "attentive_free": (c_int, [c_void_p, c_int, _INT32]),
    "attentive_create": (c_void_p, [_INT32, _FLOAT32]),
    "attentive_destroy": (None, [c_void_p]),
    "attentive_isa": (c_char_p, []),
    "attentive_error": (c_char_p, []),
    "attentive_cache_bytes": (c_int64, [c_void_p]),
    "attentive_pages_used": (c_int, [c_void_p]),
}


class CpuBackendError(RuntimeError):
    """The C++ code rejected a call or ran out of memory; the slots of that call must be freed."""


@cache
def load(path: Path) -> CDLL:
    """Returns the library at `path` with its signatures declared, loaded once per process."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def address(array: Int32 | Float32 | UInt8 | None) -> int | None:
    """Returns the address of a contiguous array, which the caller keeps alive; None for None."""
    return None if array is None else array.ctypes.data

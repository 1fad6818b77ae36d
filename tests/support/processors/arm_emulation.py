"""The CPU backend compiled for ARM64 and run by QEMU, in another process that executes the calls of
this one."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from model.backends.cpu import bindings
from model.backends.cpu.attention_capture import _Struct
from model.backends.cpu.build import FLAGS, SOURCES, source_files
from model.backends.cpu.isa import INSTRUCTION_SETS, CpuBackendUnavailable
from tests.support.processors.amx_emulation import CACHE

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
CALLS = Path(__file__).parent / "arm" / "remote_calls.cpp"
PROCESSORS = {"neon-i8mm": "max", "neon-dotprod": "neoverse-n1"}
"""The processor that QEMU emulates for each instruction set: with the extension, and without
i8mm."""

_FUNCTIONS = (
    "create", "destroy", "linear", "vector", "resolve", "prefill", "restrict", "step", "forced_decode", "read_words",
    "multi_step", "reorder", "free", "isa", "error", "add_common", "forced_steps",
)  # fmt: skip
"""In the order of remote_calls.cpp."""
_TEXT_BYTES = 256


def emulated_program(isa: str) -> Path:
    """Returns the CPU backend for `isa` as a program, compiled if necessary. Raises
    CpuBackendUnavailable without the cross compiler or QEMU."""
    for name in (COMPILER, EMULATOR):
        if shutil.which(name) is None:
            raise CpuBackendUnavailable(f"{name} is not installed.")
    instructions = next(each for each in INSTRUCTION_SETS if each.name == isa)
    flags = (
        *(flag for flag in FLAGS if flag not in ("-shared", "-fPIC")),
        "-static",
        *instructions.compiler_flags,
    )
    # a static program has its glibc within
    sources = [*(path for path in source_files() if path.name != "glibc.cpp"), CALLS]
    digest = hashlib.sha256(
        "\0".join(flags).encode() + b"".join(path.read_bytes() for path in sources)
    ).hexdigest()
    program = CACHE / f"emulated-{isa}-{digest[:20]}"
    if not program.is_file():
        program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = program.with_suffix(".new")
        units = [str(path) for path in sources if path.suffix == ".cpp"]
        subprocess.run(
            [COMPILER, *flags, f"-I{SOURCES}", *units, "-o", str(scratch)], check=True, timeout=600
        )
        scratch.replace(program)
    return program


@contextmanager
def emulated_processors() -> Iterator[None]:
    """Lets `bindings.load` run the programs of `emulated_program`, each in one process, until the
    context ends."""
    load, started = bindings.load, dict[Path, EmulatedLibrary]()

    def load_or_start(path: Path) -> Any:
        isa = next((isa for isa in PROCESSORS if path.name.startswith(f"emulated-{isa}-")), None)
        if isa is None:
            return load(path)
        if path not in started:
            started[path] = EmulatedLibrary([EMULATOR, "-cpu", PROCESSORS[isa], str(path)])
        return started[path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bindings, "load", load_or_start)
        yield
    for library in started.values():
        library.close()


class EmulatedLibrary:
    """The C interface in another process, the program of `remote_calls.cpp`: has the functions of a
    loaded library.

    Arrays are copied to the process before a call and back after it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._shapes: dict[int, list[int]] = {}  # the integers of attentive_create, by handle

    def close(self) -> None:
        """Ends the process with all engines."""
        self._process.communicate()

    def attentive_isa(self) -> bytes:
        """Returns the name of the instruction set."""
        return self._text("isa")

    def attentive_error(self) -> bytes:
        """Returns the message of the last error."""
        return self._text("error")

    def attentive_destroy(self, handle: int) -> None:
        """Ends an engine; does nothing after `close`."""
        if self._process.returncode is None:
            self._call("destroy", handle)

    def attentive_create(self, integers: int, reals: int) -> int:
        """Returns the handle of a new engine."""
        handle = self._call("create", integers, reals)
        self._shapes[handle] = list((ctypes.c_int32 * 17).from_address(integers))
        return handle

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name.removeprefix("attentive_"))

    def _text(self, name: str) -> bytes:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(name, ctypes.addressof(text))
        return text.value

    def _call(self, name: str, *arguments: Any) -> int:
        shape = self._shapes.get(arguments[0], [])
        sizes = dict(_sizes(name, arguments, shape))
        names = {
            i: ctypes.create_string_buffer(each)
            for i, each in enumerate(arguments)
            if isinstance(each, bytes)
        }
        buffers: list[tuple[int, int]] = []  # address and size
        words: list[int] = []  # the arguments
        pointers: list[int] = []
        for i, argument in enumerate(arguments):
            if i in names:
                buffers.append((ctypes.addressof(names[i]), len(names[i])))
            elif i in sizes and argument is not None:
                buffers.append((argument, sizes[i]))
                if i == {"step": 9, "forced_decode": 12}.get(name):
                    whole = len(buffers) - 1
                    for offset, address, size in _captured(argument, shape):
                        pointers += (whole, offset, len(buffers))
                        buffers.append((address, size))
                    words += (1, whole)
                    continue
            else:
                words += (0, argument or 0)
                continue
            words += (1, len(buffers) - 1)
        return self._exchange(name, buffers, words, pointers)

    def _exchange(
        self, name: str, buffers: list[tuple[int, int]], words: list[int], pointers: list[int]
    ) -> int:
        head = [_FUNCTIONS.index(name), len(buffers), *(size for _, size in buffers)]
        head += [len(words) // 2, *words, len(pointers) // 3, *pointers]
        message = [
            (ctypes.c_int64 * len(head))(*head),
            *(ctypes.string_at(*buffer) for buffer in buffers),
        ]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"".join(bytes(part) for part in message))
        self._process.stdin.flush()
        result = self._process.stdout.read(8)
        assert len(result) == 8, f"the emulated process ended in attentive_{name}"
        structs = {pointers[i] for i in range(0, len(pointers), 3)}
        for i, (address, size) in enumerate(buffers):
            content = self._process.stdout.read(size)
            if i not in structs:  # the addresses in a struct are those of the other process
                ctypes.memmove(address, content, size)
        kind: Any = bindings._SIGNATURES[f"attentive_{name}"][0]
        wide = kind in (ctypes.c_void_p, None, ctypes.c_char_p)
        return (ctypes.c_int64 if wide else ctypes.c_int32).from_buffer_copy(result).value


def _sizes(name: str, a: tuple[Any, ...], shape: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the positions of the array arguments and their sizes in bytes."""
    values: dict[int, int] = {}
    masked: dict[int, int] = {}  # of single bytes
    heads = (shape[6] + 2 * shape[7]) * shape[4] if shape else 0
    match name:
        case "create":
            values = {0: 17, 1: 2}
        case "isa" | "error":
            values = {0: _TEXT_BYTES // 4}
        case "linear":
            values = {2: a[5] * a[6], 3: a[5], 4: a[5]}
        case "vector":
            values = {2: a[3]}
        case "prefill":
            tokens = sum((ctypes.c_int32 * a[1]).from_address(a[3]))
            values = {2: a[1], 3: a[1], 4: tokens}
            masked = {5: a[1] * heads}
        case "restrict":
            values = {3: a[4]}
        case "add_common":
            values = {1: a[2]}
        case "forced_steps":
            tokens = sum((ctypes.c_int32 * a[1]).from_address(a[3]))
            values = {2: a[1], 3: a[1], 4: tokens, 5: tokens, 6: tokens}
        case "step":
            values = {
                2: a[1],
                3: a[1],
                5: a[1],
                6: a[1] * a[4],
                7: a[1] * a[4],
                8: a[1],
                9: ctypes.sizeof(_Struct) // 4,
            }
        case "forced_decode":
            struct = _Struct.from_address(a[12])
            rows, masked = struct.queries, {3: heads}
            values = {
                1: struct.source,
                2: rows,
                5: a[6],
                8: rows,
                9: rows * a[7],
                10: rows * a[7],
                11: rows,
            }
            values[12] = ctypes.sizeof(_Struct) // 4
        case "read_words":
            sizes = (ctypes.c_int32 * (3 * a[1])).from_address(a[2])
            each = list(zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True))
            tokens, wanted = sum(size[0] for size in each), sum(size[2] for size in each)
            values = {2: len(sizes), 3: tokens, 4: 2 * sum(size[1] for size in each), 6: wanted}
            values |= {8: tokens * shape[3], 9: sum(size[1] * size[2] for size in each)}
        case "multi_step":
            values = {2: a[1], 3: a[1], 6: a[7], 8: a[1] * a[4], 9: a[1] * a[4]}
        case "reorder":
            values = {2: a[1], 3: a[1]}
        case "free":
            values = {2: a[1]}
    yield from masked.items()
    yield from ((position, 4 * count) for position, count in values.items())


def _captured(address: int, shape: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yields the offset of each pointer in an AttentionCapture, the address and the size in bytes
    of its array."""
    struct = _Struct.from_address(address)
    source, queries, layers = struct.source, struct.queries, shape[7]
    rows, keys = (
        (source if struct.kind == 0 else queries),
        (queries if struct.kind == 1 else source),
    )
    width = shape[3] // shape[4]
    counts = {
        "encoder": shape[6] * shape[4] * source * source,
        "decoder": 0 if shape[11] else layers * shape[4] * queries * queries,
        "cross": layers * shape[4] * queries * source,
        "query": rows * width,
        "key": keys * width,
        "value": keys * width,
        "values": layers * shape[4] * source * width,
        "gates": layers * queries,
        "normalizers": queries,
    }
    for name, count in counts.items():
        if (array := getattr(struct, name)) is not None:
            yield getattr(_Struct, name).offset, array, 4 * count

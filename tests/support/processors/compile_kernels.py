"""Compiles the kernels for GPUs of the given compute capabilities (75 90 ...), without a GPU."""

from __future__ import annotations

import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from model.backends.cuda import kernels


def compiled(
    kernel: Any, types: str, constants: dict[str, Any], capability: int, warps: int
) -> int:
    """Returns the size of the code in bytes. `types` are those of the arguments before the
    constants."""
    signature = dict(zip(kernel.arg_names, types.split(), strict=False)) | dict.fromkeys(
        constants, "constexpr"
    )
    source = ASTSource(kernel, signature, constexprs=constants)
    found = triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps}
    )
    return len(found.asm["cubin"])


def main(capability: int) -> None:
    """Compiles every kernel in three precisions."""
    for precision in ("fp32", "fp16", "bf16"):
        p = f"*{precision}"
        attend = f"{p} {p} {p} {p} {p} *i64 *i64 {p} fp32" + 8 * " i32"
        shape = {"width": 64, "block": 32, "padded": 64}
        sizes = [
            compiled(kernels._attend, attend, {**shape, "writes": writes}, capability, 2)
            for writes in (True, False)
        ]
        sizes.append(
            compiled(
                kernels._add_norm,
                6 * f"{p} " + "fp32",
                {"width": 512, "padded": 512},
                capability,
                4,
            )
        )
        choose = f"{p} *i64 *fp32 *i64 *fp64 i32 i32"
        sizes.append(compiled(kernels._choose, choose, {"block": 4096}, capability, 8))
        sys.stdout.write(f"sm_{capability} {precision}: {sizes} bytes\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(int(argument))

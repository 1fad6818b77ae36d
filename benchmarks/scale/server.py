"""A server before an echo, whose API process counts where it spends its time:
`python -m benchmarks.scale.server PREPARED SAMPLES [FLAG ...]`.

SIGPROF interrupts the process at every millisecond of its processor time. A sample belongs to the
part of the innermost frame that PARTS names; with --api-processes there are none. SIGUSR1 writes
the counts to the file SAMPLES and starts anew.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import FrameType
from unittest import mock

from server.cli import serve
from server.engine.client.worker_pool import WorkerPool

SAMPLE_SECONDS = 0.001
PARTS = {
    "HTTP": ("uvicorn/", "asyncio/", "uvloop", "server/api/connection_limits"),
    "log": ("server/observability/logging", "logging/"),
    "middleware": ("server/api/middleware/", "server/api/early_refusal"),
    "metrics": ("server/observability/metrics", "server/observability/numbers", "prometheus_client/"),
    "routing, validation": ("fastapi/", "starlette/", "pydantic/", "server/api/"),
    "access": ("server/access/", "server/store/"),
    "scan, split": ("server/text/syntax/", "server/text/tagged", "server/text/sentences", "server/text/segmentation",
                    "server/text/vocabulary", "server/translation/preparation"),
    "detection": ("server/text/language_id",),
    "tokens": ("model/tokenizer", "sentencepiece/"),
    "queue, pipe": ("server/engine/", "msgpack", "model/search/"),
    "finish, check": ("server/text/", "server/translation/candidates", "server/translation/terms",
                      "server/translation/finish", "server/translation/checks", "server/translation/sentence",
                      "server/translation/context"),
    "cache": ("server/translation/result_cache",),
    "records, answer": ("server/translation/", "server/inspection/", "dataclasses", "json/"),
}  # fmt: skip


def part(frame: FrameType | None) -> str:
    """Returns the part that the innermost known frame belongs to."""
    while frame is not None:
        path = frame.f_code.co_filename
        for name, paths in PARTS.items():
            if any(piece in path for piece in paths):
                return name
        frame = frame.f_back
    return "others"


def main() -> int:
    prepared, samples, *flags = sys.argv[1:]
    counts: Counter[str] = Counter()

    def record(number: int, frame: FrameType | None) -> None:
        counts[part(frame)] += 1

    def write(number: int, frame: FrameType | None) -> None:
        Path(samples).write_text(json.dumps(counts), encoding="utf-8")
        counts.clear()

    if "--api-processes" not in flags:
        signal.signal(signal.SIGUSR1, write)
        signal.signal(signal.SIGPROF, record)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    command = (sys.executable, "-m", "benchmarks.scale.echo_worker", prepared)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    with mock.patch("server.services.WorkerPool", partial(WorkerPool, command=command)):
        return serve.run(parser.parse_args(flags))


if __name__ == "__main__":
    sys.exit(main())

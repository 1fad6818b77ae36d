"""A Hugging Face hub on 127.0.0.1 with one model from a local folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "Helsinki-NLP/opus-mt-en-de"


class FakeHub(ThreadingHTTPServer):
    """Serves the files of `path`. `requests` records (name, first byte) of each download.

    `refusal` is a status and an error code for every request. `spoiled` names a file whose content
    is wrong, and `cut` one that ends early, `cuts` times. `absent` is a file that the list has and
    the server lacks, `circle` one that redirects to itself, `model_type` that of the list.
    """

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.requests: list[tuple[str, int]] = []
        self.refusal: tuple[int, str] | None = None
        self.spoiled = self.cut = self.absent = self.circle = self.model_type = ""
        self.cuts = 1_000

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def listed(self, file: Path) -> dict[str, Any]:
        data = file.read_bytes()
        entry: dict[str, Any] = {"rfilename": file.name, "size": len(data)}
        if file.suffix in (".safetensors", ".bin", ".spm"):
            return entry | {
                "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
                "blobId": "0",
            }
        return entry | {
            "blobId": hashlib.sha1(
                b"blob %d\0" % len(data) + data, usedforsecurity=False
            ).hexdigest()
        }


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_GET(self) -> None:
        hub = self.server
        if hub.refusal is not None:
            self._send(hub.refusal[0], b"{}", {"X-Error-Code": hub.refusal[1], "Retry-After": "70"})
        elif self.path == f"/api/models/{MODEL}/revision/main?blobs=true":
            files = [hub.listed(file) for file in sorted(hub.path.iterdir())]
            config = {"config": {"model_type": hub.model_type}} if hub.model_type else {}
            self._send(200, json.dumps({"sha": COMMIT, "siblings": files, **config}).encode())
        elif self.path.startswith(f"/api/models/{MODEL}/"):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif self.path.startswith(f"/{MODEL}/resolve/{COMMIT}/"):
            self._file(self.path.rpartition("/")[2])
        else:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _file(self, name: str) -> None:
        hub, data = self.server, (self.server.path / name).read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        hub.requests.append((name, start))
        if name == hub.absent:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        if name == hub.circle:
            return self._send(302, b"", {"Location": self.path})
        if start and start >= len(data):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        if name == hub.spoiled:
            data = data[:-1] + bytes([data[-1] ^ 1])
        body = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = name == hub.cut and hub.cuts > 0
        hub.cuts -= cut
        self.wfile.write(body[: len(body) // 2] if cut else body)
        return None

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def fake_hub(path: Path) -> Iterator[FakeHub]:
    """Runs a hub in a thread."""
    hub = FakeHub(path)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()

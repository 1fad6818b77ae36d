"""Mozilla's published list of Firefox's models on 127.0.0.1, with one random model."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.models.firefox_models import binary_shortlist, random_firefox, random_lists

MODEL, SHORTLIST = "model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"


class _Handler(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class PublishedModels:
    """Mozilla's list of models on 127.0.0.1, and a folder with the files of one model. A test may
    change `models`, the list, and `entry`, the model's entry in it, before it reads the
    `address`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        config = random_firefox(path / "made", heads=2).config
        lists = random_lists(config.vocab_size, config.vocab_size, 3)
        (path / "made" / SHORTLIST).write_bytes(binary_shortlist(lists, 16))
        weights = (path / "made" / MODEL).read_bytes()
        for file in (path / "made").iterdir():
            (path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        model = {
            "path": f"{MODEL}.gz",
            "uncompressedSize": len(weights),
            "uncompressedHash": hashlib.sha256(weights).hexdigest(),
        }
        self.entry: dict[str, Any] = {
            "architecture": "base-memory",
            "releaseStatus": "Release",
            "sourceLanguage": "en",
            "targetLanguage": "de",
            "files": {
                "model": model,
                "vocab": {"path": "vocab.ende.spm.gz"},
                "lexicalShortlist": {"path": f"{SHORTLIST}.gz"},
            },
            "metrics": {"flores200-plus": {"bleu": 40.02, "comet22": 0.8651, "chrf": 66.0}},
        }
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(path)))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.server = server
        self.models: dict[str, Any] = {"en-de": [self.entry], "fr-en": [self.entry]}

    def close(self) -> None:
        """Stops the server."""
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self) -> str:
        """The address of the list, which is written now."""
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        (self.path / "models.json").write_text(json.dumps({"baseUrl": base, "models": self.models}))
        return f"{base}/models.json"

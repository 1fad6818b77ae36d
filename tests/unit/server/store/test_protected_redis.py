"""Redis with the access control and the encryption that docs/security.md describes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from server.__main__ import main
from tests.support.servers.in_process import wait_for
from tests.support.servers.live import ROOT
from tests.support.servers.ports import free_port
from tests.unit.server.conftest import running_redis

pytestmark = pytest.mark.usefixtures("patient")
HELLO = {"q": "Hello", "source": "en", "target": "de"}
GLOSSARY = {
    "name": "x",
    "source_lang": "EN",
    "target_lang": "DE",
    "entries": "Hello\tServus",
    "entries_format": "tsv",
}
DOCUMENT = {
    "files": {"file": ("a.txt", b"Hello")},
    "data": {"source_lang": "EN", "target_lang": "DE"},
}


def use_everything(first: TestClient, second: TestClient, secret: str) -> None:
    """Uses all that servers share."""
    key = {"headers": {"Authorization": f"DeepL-Auth-Key {secret}"}}
    id = first.post("/translate", json=HELLO, **key).json()["id"]
    first.portal.call(first.app.services.history.flush)  # type: ignore[call-arg]
    assert second.get("/attention", params={"id": id}, **key).status_code == 200
    glossary = first.post("/v2/glossaries", json=GLOSSARY, **key).json()["glossary_id"]
    assert second.post("/translate", json=HELLO | {"glossary": glossary}, **key).status_code == 200
    assert second.delete(f"/v2/glossaries/{glossary}", **key).status_code == 204
    wait_for(lambda: second.get("/v2/usage", **key).json()["character_count"] >= 10)
    job = first.post("/v2/document", **DOCUMENT, **key).json()
    path, body = f"/v2/document/{job['document_id']}", {"document_key": job["document_key"]}
    wait_for(lambda: second.post(path, json=body, **key).json()["status"] == "done")
    assert second.post(path + "/result", json=body, **key).status_code == 200
    assert first.app.services.state.errors == second.app.services.state.errors == 0


def test_the_documented_user_of_redis_may_do_all_that_servers_do(serve, tmp_path, capsys, caplog):
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    found = re.search(r"^ *user attentive on (.*)$", text, re.MULTILINE)
    assert found
    acl = tmp_path / "users.acl"
    acl.write_text(
        f"user default off\nuser attentive on {found[1].replace('>PASSWORD', '>hunter2')}\n"
    )
    port = free_port()
    url = f"redis://attentive:hunter2@127.0.0.1:{port}"
    with running_redis(tmp_path, port, "--aclfile", str(acl)):
        assert main(["keys", "create", "Ann", "--state", url]) == 0
        secret = capsys.readouterr().out.strip()
        first, second = (serve(state=url, requests_per_minute=1_000) for _ in range(2))
        use_everything(first, second, secret)
        wrong = serve(state=url.replace("hunter2", "hunter3"))
        assert wrong.post("/translate", json=HELLO).status_code == 200
        wait_for(lambda: "lacks the user and password" in caplog.text)
    assert "hunter" not in caplog.text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_redis_with_tls(serve, tmp_path):
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    port, tls = free_port(), free_port()
    files = [
        "--tls-cert-file",
        str(certificate),
        "--tls-key-file",
        str(key),
        "--tls-ca-cert-file",
        str(certificate),
    ]
    options = [*files, "--tls-port", str(tls), "--tls-auth-clients", "no"]
    with running_redis(tmp_path, port, *options):
        trusted = serve(state=f"rediss://localhost:{tls}?ssl_ca_certs={Path(certificate)}")
        assert trusted.get("/v2/usage").status_code == 200
        untrusted = serve(state=f"rediss://localhost:{tls}")
        assert untrusted.get("/v2/usage").status_code == 503

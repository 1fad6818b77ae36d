"""The wheel in an environment outside the checkout, without a compiler and without torch,
translates and serves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import Request

import pytest

from tests.support.models.cpu_models import LIBRARY, needs_cpu_backend
from tests.support.servers.live import ROOT, LiveServer, free_port, wait_until_ready

OLDEST_GLIBC = 28
"""That of RHEL 8; RHEL 9 and Amazon Linux 2023 have 2.34."""
COPY = """#!/bin/sh
for last; do :; done
case "$*" in *.so.part) cp "$LIBRARY" "$last" ;; *) : > "$last" ;; esac
"""
"""A compiler that copies the library of the checkout, which has the same sources and flags."""
TEXT, TRANSLATION = "The house is small.", "Das Haus ist klein."


@pytest.mark.slow
@needs_cpu_backend
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_wheel_translates_and_serves_without_a_compiler(tmp_path: Path) -> None:
    """It has the library of one instruction set of this processor. Its dependencies are those of
    the tests."""
    assert LIBRARY is not None
    environment, home = tmp_path / "environment", tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    # make takes the environment of the tests as it is.
    folders = [f"VENV={sys.prefix}", "--old-file", f"{sys.prefix}/python-ready"]
    folders += [f"STAGE={tmp_path}/stage", f"DIST={tmp_path}"]
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "PYTHONPATH"))
    }
    compiler, isa = tmp_path / "compiler", LIBRARY.name.split("-", 1)[1].rpartition("-")[0]
    compiler.write_text(COPY)
    compiler.chmod(0o755)
    subprocess.run(
        ["make", "wheel", *folders, f"ISA={isa}"],
        cwd=ROOT,
        env=variables | {"CXX": str(compiler), "LIBRARY": str(LIBRARY)},
        check=True,
    )
    [wheel] = tmp_path.glob("attentive_server-*-py3-none-manylinux_2_*.whl")
    assert int(wheel.name.split("_")[3]) <= OLDEST_GLIBC, wheel.name
    [packages] = (environment / "lib").glob("python*/site-packages")
    python = str(environment / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install"]
    options = ["--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, *options, str(wheel)], env=variables, check=True)
    (packages / "torch.py").write_text(
        'raise ModuleNotFoundError("No module named \'torch\'", name="torch")\n'
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    home.mkdir()
    program = {"cwd": home, "env": {"PATH": f"{environment}/bin", "HOME": str(home)}}
    words = ["attentive", "translate", "--from", "en", "--to", "de"]
    output = subprocess.check_output(words, input=f"{TEXT}\n", text=True, **program)
    assert output == f"{TRANSLATION}\n"
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["attentive", "serve", "--port", str(port)], stderr=stream, **program
        )
    server = LiveServer(f"http://127.0.0.1:{port}", process, log)
    try:
        wait_until_ready(server)
        body = {"q": TEXT, "source": "en", "target": "de"}
        assert server.post("/translate", body).json()["translatedText"] == TRANSLATION
        assert server.get("/ready").json()["engine"] == "native"
        page = server.ask(Request(server.url, headers={"Accept": "text/html"}))
        assert (page.status, page.body[:9].lower()) == (200, b"<!doctype")
    finally:
        process.terminate()
        process.wait(60)
    assert not list(home.iterdir())  # nothing was compiled

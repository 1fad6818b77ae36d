"""Compiling happens once per source text, atomically, and where it is impossible one sentence says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model.native import build as module
from model.native.build import BackgroundBuild, NativeUnavailable, build, check_cpu, find, library_name
from tests.model.native_models import LIBRARY, needs_native


def test_the_name_follows_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = library_name()
    assert library_name() == before
    (tmp_path / "engine.cpp").write_text("int main() {}")
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    assert library_name() != before


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "check_cpu", lambda: None)
    monkeypatch.setattr(module, "find", lambda folder: None)
    monkeypatch.setattr(module, "COMPILERS", ("no-such-compiler",))
    background = BackgroundBuild(tmp_path)
    assert background.wait(10) == "unavailable"
    assert background.path is None
    assert "compiler" in str(background.reason)


def test_sources_that_do_not_compile_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources, target = tmp_path / "sources", tmp_path / "target"
    sources.mkdir()
    (sources / "engine.cpp").write_text("this is not C++")
    monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setattr(module, "check_cpu", lambda: None)
    with pytest.raises(NativeUnavailable):
        build(target)
    assert not any(target.glob("*"))


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "check_cpu", lambda: None)
    monkeypatch.setattr(module, "find", lambda folder: None)
    monkeypatch.setattr(module, "COMPILERS", (sys.executable,))
    (tmp_path / "file").write_text("")
    with pytest.raises(NativeUnavailable, match="could not be written"):
        build(tmp_path / "file" / "below")


def test_a_processor_without_the_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    with pytest.raises(NativeUnavailable, match="x86-64"):
        check_cpu()
    monkeypatch.undo()
    monkeypatch.setattr(module, "CPU_FLAGS", ("no_such_flag",))
    with pytest.raises(NativeUnavailable, match=r"no_such_flag|Linux"):
        check_cpu()


@needs_native
def test_what_was_built_is_found_and_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPILERS", ())
    assert find() == LIBRARY
    assert build() == LIBRARY
    assert BackgroundBuild().wait(10) == "ready"


def test_importing_the_backend_imports_no_torch() -> None:
    code = "import sys, model.native.backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

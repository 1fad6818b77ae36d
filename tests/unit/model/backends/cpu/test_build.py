"""Tests of compiling the CPU backend: library names, instruction sets and errors."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from model.backends.cpu import build as module
from model.backends.cpu import isa as processor
from model.backends.cpu.__main__ import main
from model.backends.cpu.build import build, build_ahead, find, library_name
from model.backends.cpu.isa import INSTRUCTION_SETS, CpuBackendUnavailable, available, check_cpu
from tests.support.cpu_models import LIBRARY, needs_cpu_backend

AMX, BEST, _, LEAST = X86 = [each for each in INSTRUCTION_SETS if each.machine == "x86_64"]
ARM = [each for each in INSTRUCTION_SETS if each.machine == "aarch64"]
FLAGS = "flags\t\t: fpu {}\n"


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Simulates Linux on x86-64 and returns the file used as /proc/cpuinfo. Initially it lists all instruction sets. The
    kernel permits AMX."""
    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "_tiles_permitted", lambda: True)
    info = tmp_path / "cpuinfo"
    info.write_text(FLAGS.format(" ".join(flag for each in X86 for flag in each.cpu_flags)))
    monkeypatch.setattr(processor, "_CPU_INFO", info)
    return info


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Simulates Linux on ARM64 and returns the bits of getauxval by kind. Initially the processor has no extension."""
    bits: dict[int, int] = {}

    def getauxval(kind: int) -> int:
        return bits.get(kind, 0)

    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(processor.ctypes, "CDLL", lambda _: SimpleNamespace(getauxval=getauxval))
    return bits


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns a separate folder of sources with one file that compiles for any processor."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "engine.cpp").write_text("int answer() { return 42; }\n")
    monkeypatch.setattr(module, "SOURCES", folder)
    return folder


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns a fake compiler that writes its arguments to the output file and rejects -mavxvnni and
    -mamx-int8."""
    script = tmp_path / "compiler"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *mavxvnni*|*mamx*) echo "error: unknown option" >&2; exit 1;; esac\n'
        'for last; do :; done\necho "$*" > "$last"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(module, "COMPILERS", (str(script),))
    return script


def test_library_name_depends_on_sources_and_instruction_set(sources: Path) -> None:
    before = [library_name(each) for each in INSTRUCTION_SETS]
    assert before == [library_name(each) for each in INSTRUCTION_SETS]
    (sources / "engine.cpp").write_text("int main() {}")
    names = before + [library_name(each) for each in INSTRUCTION_SETS]
    assert len(set(names)) == 2 * len(INSTRUCTION_SETS)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ("avx2 fma", ["avx2"]),
        ("avx2 fma avx512f avx512bw avx512dq avx512vl", ["avx2"]),
        ("avx2 fma avx_vnni", ["avxvnni", "avx2"]),
        ("avx2 fma avx512f avx512bw avx512dq avx512vl avx512_vnni", ["avx512", "avx2"]),
        (" ".join(AMX.cpu_flags), ["avx512", "avx2"]),
        ("avx2 fma amx_tile amx_int8", ["avx2"]),
    ],
)
def test_the_best_instruction_set_comes_first(cpu: Path, flags: str, names: list[str]) -> None:
    cpu.write_text(FLAGS.format(flags))
    assert [each.name for each in available()] == names
    assert [each.name for each in available("avx2")] == ["avx2"]


def test_amx_is_used_only_if_it_is_selected(monkeypatch: pytest.MonkeyPatch, cpu: Path) -> None:
    cpu.write_text(FLAGS.format(" ".join(AMX.cpu_flags)))
    monkeypatch.setattr(processor, "_tiles_permitted", lambda: True)
    assert [each.name for each in available("amx")] == ["amx"]
    assert "amx" not in [each.name for each in available()]


def test_amx_needs_the_permission_of_the_kernel(monkeypatch: pytest.MonkeyPatch, cpu: Path) -> None:
    cpu.write_text(FLAGS.format(" ".join(AMX.cpu_flags)))
    monkeypatch.setattr(processor, "_tiles_permitted", lambda: False)
    assert [each.name for each in available()] == ["avx512", "avx2"]
    with pytest.raises(CpuBackendUnavailable, match="kernel does not permit AMX"):
        available("amx")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a processor with AVX2")
def test_a_kernel_without_amx_refuses_the_permission() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    permitted = processor._tiles_permitted()
    assert not permitted or "amx_tile" in flags


@pytest.mark.parametrize(
    ("hwcap", "hwcap2", "names"),
    [(1 << 20, 1 << 13, ["neon-i8mm", "neon-dotprod"]), (1 << 20, 0, ["neon-dotprod"]), (~0, 0, ["neon-dotprod"])],
)
def test_the_best_instruction_set_of_an_arm_processor_comes_first(
    arm: dict[int, int], hwcap: int, hwcap2: int, names: list[str]
) -> None:
    arm.update({16: hwcap, 26: hwcap2})
    assert [each.name for each in available()] == names
    assert [each.name for each in available("neon-dotprod")] == ["neon-dotprod"]


def test_arm_processors_without_dot_products_are_refused(arm: dict[int, int]) -> None:
    with pytest.raises(CpuBackendUnavailable, match="needs a processor with asimddp; here PyTorch decodes"):
        check_cpu()
    arm[16] = 1 << 20
    with pytest.raises(CpuBackendUnavailable, match="needs a processor with i8mm; here PyTorch decodes"):
        check_cpu("neon-i8mm")


def test_instruction_sets_of_x86_are_refused_on_arm(arm: dict[int, int], sources: Path, tmp_path: Path) -> None:
    sentence = "avx2 needs a processor with x86-64 and this one has ARM64; here PyTorch decodes"
    with pytest.raises(CpuBackendUnavailable, match=sentence):
        check_cpu("avx2")
    with pytest.raises(CpuBackendUnavailable, match=sentence):
        build_ahead(tmp_path, "avx2")


def test_instruction_sets_of_arm_are_refused_on_x86(cpu: Path, sources: Path, tmp_path: Path) -> None:
    with pytest.raises(CpuBackendUnavailable, match="neon-i8mm needs a processor with ARM64 and this one has x86-64"):
        build(tmp_path, "neon-i8mm")
    assert find(isa="neon-i8mm") is None


def test_every_instruction_set_of_arm_is_built_ahead(
    arm: dict[int, int], sources: Path, compiler: Path, tmp_path: Path
) -> None:
    built = build_ahead(tmp_path / "target")
    assert [path.name for path in built] == [library_name(each) for each in ARM]
    assert "-march=armv8.2-a+dotprod+i8mm" in built[0].read_text()
    arm[16] = 1 << 20
    assert find(tmp_path / "target") == built[1]


def test_unsupported_processors_are_refused(cpu: Path, sources: Path) -> None:
    cpu.write_text(FLAGS.format("sse4_2 avx"))
    with pytest.raises(CpuBackendUnavailable, match=r"needs a processor with avx2, fma; here PyTorch decodes"):
        check_cpu()
    cpu.write_text(FLAGS.format("avx2 fma"))
    check_cpu()
    with pytest.raises(CpuBackendUnavailable, match="avx512f"):
        build(isa="avx512")
    assert find(isa="avx512") is None


@pytest.mark.parametrize(("system", "machine"), [("Linux", "riscv64"), ("Darwin", "arm64"), ("Windows", "AMD64")])
def test_unsupported_platforms_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], system: str, machine: str
) -> None:
    monkeypatch.setattr(processor.platform, "system", lambda: system)
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    sentence = f"needs Linux on x86-64 or ARM64; on {system} {machine} PyTorch decodes"
    with pytest.raises(CpuBackendUnavailable, match=sentence):
        check_cpu()
    assert find() is None
    monkeypatch.setattr(sys, "argv", ["model.backends.cpu", "build"])
    assert main() == 1
    assert sentence in capsys.readouterr().err


def test_an_old_compiler_builds_the_next_best_instruction_set(
    cpu: Path, sources: Path, compiler: Path, tmp_path: Path
) -> None:
    cpu.write_text(FLAGS.format("avx2 fma avx_vnni"))
    library = build(tmp_path / "target")
    assert library.name == library_name(LEAST)
    assert set(LEAST.compiler_flags) <= set(library.read_text().split())
    assert find(tmp_path / "target") is None  # avxvnni is better and has not been compiled
    assert find(tmp_path / "target", "avx2") == library


def test_build_ahead_builds_every_instruction_set_that_compiles(
    monkeypatch: pytest.MonkeyPatch, cpu: Path, sources: Path, compiler: Path, tmp_path: Path
) -> None:
    cpu.write_text(FLAGS.format("sse2"))
    target = tmp_path / "target"
    assert [path.name for path in build_ahead(target)] == [library_name(BEST), library_name(LEAST)]
    cpu.write_text(FLAGS.format(" ".join(BEST.cpu_flags)))
    monkeypatch.setattr(module, "COMPILERS", ())
    assert build(target).name == library_name(BEST)
    with pytest.raises(CpuBackendUnavailable, match="compiler"):
        build_ahead(target, "avxvnni")


def test_only_a_server_that_serves_meanwhile_limits_time_and_priority(
    monkeypatch: pytest.MonkeyPatch, cpu: Path, sources: Path, compiler: Path, tmp_path: Path
) -> None:
    runs: list[tuple[float | None, bool]] = []

    def run(command: list[str], timeout: float | None, **_: object) -> subprocess.CompletedProcess[str]:
        runs.append((timeout, "nice" in command[0]))
        Path(command[-1]).write_text("")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module.subprocess, "run", run)
    build(tmp_path / "here", "avx2")
    build_ahead(tmp_path / "ahead", "avx2")
    assert runs == [(module.TIMEOUT_SECONDS, True), (None, False)]


def test_the_command_names_what_did_not_compile(
    monkeypatch: pytest.MonkeyPatch,
    cpu: Path,
    sources: Path,
    compiler: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["model.backends.cpu", "build", str(tmp_path)])
    assert main() == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [str(tmp_path / library_name(each)) for each in (BEST, LEAST)]
    assert "avxvnni: The CPU backend did not compile: error: unknown option" in shown.err


def test_a_missing_compiler_is_reported(
    monkeypatch: pytest.MonkeyPatch, cpu: Path, sources: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(CpuBackendUnavailable, match="compiler"):
        build(tmp_path)


def test_failed_compilation_leaves_no_files(cpu: Path, sources: Path, tmp_path: Path) -> None:
    (sources / "engine.cpp").write_text("this is not C++")
    with pytest.raises(CpuBackendUnavailable):
        build(tmp_path / "target", "avx2")
    assert not any((tmp_path / "target").glob("*"))


def test_an_unwritable_folder_is_reported(cpu: Path, sources: Path, compiler: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CpuBackendUnavailable, match="could not be written"):
        build(tmp_path / "file" / "below")


@needs_cpu_backend
def test_an_existing_library_is_found_and_not_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPILERS", ())
    assert build() == LIBRARY
    assert find(isa=available()[0].name) == find()


def test_importing_the_backend_imports_no_torch() -> None:
    code = "import sys, model.backends.cpu.backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

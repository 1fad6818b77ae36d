"""Tests of the compiled CPU backend: library names, instruction sets, the command that compiles,
and errors."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from model.backends.cpu import build as module
from model.backends.cpu import isa as processor
from model.backends.cpu.__main__ import main
from model.backends.cpu.build import COMMAND, build, build_all, build_trial, library, library_name
from model.backends.cpu.isa import INSTRUCTION_SETS, CpuBackendUnavailable, available
from tests.support.models.cpu_models import needs_cpu_backend

AMX, BEST, _, LEAST = X86 = [each for each in INSTRUCTION_SETS if each.machine == "x86_64"]
ARM = [each for each in INSTRUCTION_SETS if each.machine == "aarch64"]
FLAGS = "flags\t\t: fpu {}\n"


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Simulates Linux on x86-64 and returns the file used as /proc/cpuinfo. Initially it lists all
    instruction sets. The kernel permits AMX."""
    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "_tiles_permitted", lambda: True)
    info = tmp_path / "cpuinfo"
    info.write_text(FLAGS.format(" ".join(flag for each in X86 for flag in each.cpu_flags)))
    monkeypatch.setattr(processor, "_CPU_INFO", info)
    return info


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Simulates Linux on ARM64 and returns the bits of getauxval by kind. Initially the processor
    has no extension."""
    bits: dict[int, int] = {}

    def getauxval(kind: int) -> int:
        return bits.get(kind, 0)

    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(processor.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(processor.ctypes, "CDLL", lambda _: SimpleNamespace(getauxval=getauxval))
    return bits


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns a separate folder of sources with one file that compiles for any processor. What is
    compiled goes into it."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "engine.cpp").write_text("int answer() { return 42; }\n")
    monkeypatch.setattr(module, "SOURCES", folder)
    return folder


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns a fake compiler that writes its arguments to the output file and rejects -mavxvnni
    and -mamx-int8."""
    script = tmp_path / "compiler"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *mavxvnni*|*mamx*) echo "error: unknown option" >&2; exit 1;; '
        "esac\n"
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
        (" ".join(AMX.cpu_flags), ["amx", "avx512", "avx2"]),
        ("avx2 fma amx_tile amx_int8", ["avx2"]),
    ],
)
def test_the_newest_instruction_set_comes_first(cpu: Path, flags: str, names: list[str]) -> None:
    cpu.write_text(FLAGS.format(flags))
    assert [each.name for each in available()] == names
    assert [each.name for each in available("avx2")] == ["avx2"]


@pytest.fixture
def trials(
    monkeypatch: pytest.MonkeyPatch, cpu: Path, sources: Path, tmp_path: Path
) -> dict[str, str]:
    """Simulates a processor with AMX and returns the trial of each instruction set: a shell command
    that the fake compiler makes a program of."""
    (sources / "trial").mkdir()
    (sources / "trial" / "trial.cpp").write_text("")
    cpu.write_text(FLAGS.format(" ".join(AMX.cpu_flags)))
    commands = {"amx": "echo 10", "avx512": "echo 20", "avx2": "echo 30"}

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if len(command) == 1:  # a trial
            return subprocess.CompletedProcess([], *_shell(Path(command[0]).read_text()))
        isa = next(
            each.name for each in (AMX, BEST, LEAST) if set(each.compiler_flags) <= set(command)
        )
        if command[0] == "xargs":
            return subprocess.CompletedProcess(command, 0, "", "")
        is_trial = "-shared" not in command
        Path(command[-1]).write_text(commands[isa] if is_trial else isa)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def _shell(command: str) -> tuple[int, str, str]:
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, text=True) as process:  # noqa: S602
        output = process.communicate()[0]
    return process.returncode, output, ""


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({}, "amx"),
        ({"avx512": "echo 5"}, "avx512"),
        ({"amx": "exit 1"}, "avx512"),  # a bit differs
        ({"amx": "echo 10; kill -ILL $$"}, "avx512"),
        ({"amx": "exit 1", "avx512": "echo no number"}, "avx2"),
        # without a result none with tiles is used
        ({"amx": "exit 1", "avx512": "exit 1", "avx2": "exit 1"}, "avx512"),
    ],
)
def test_the_fastest_instruction_set_with_right_products_is_used(
    trials: dict[str, str], tmp_path: Path, changes: dict[str, str], used: str
) -> None:
    trials.update(changes)
    assert build(folder=tmp_path).read_text() == used


def test_the_server_uses_the_fastest_library_that_is_there_and_compiles_none(
    monkeypatch: pytest.MonkeyPatch, trials: dict[str, str], sources: Path
) -> None:
    with pytest.raises(CpuBackendUnavailable) as refusal:
        library()
    assert f"is not compiled; `{COMMAND}`" in str(refusal.value) and not [
        *sources.glob("attentive-*")
    ]
    assert build("avx2") == library()  # without trials
    monkeypatch.setattr(module, "of_machine", lambda *_: [AMX, BEST, LEAST])
    assert len(build_all(sources)) == 3
    monkeypatch.setattr(module, "COMPILERS", ())
    assert library().read_text() == "amx" and build() == library()
    (sources / "engine.cpp").write_text("int answer() { return 43; }")
    with pytest.raises(CpuBackendUnavailable, match="not compiled"):
        library()


@pytest.mark.slow
@needs_cpu_backend
def test_the_trials_of_this_processor_pass(tmp_path: Path) -> None:
    for each in available():
        done = subprocess.run(
            [build_trial(each, tmp_path)], capture_output=True, text=True, timeout=60, check=True
        )
        assert float(done.stdout) > 0


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a processor with AVX2")
def test_the_trial_finds_a_wrong_product(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(module.SOURCES, tmp_path / "sources")
    monkeypatch.setattr(module, "SOURCES", tmp_path / "sources")
    kernel = tmp_path / "sources" / "kernels" / "gemm.h"
    code = kernel.read_text()
    kernel.write_text(code.replace("load_register(block.scales", "load_register(block.bias"))
    assert kernel.read_text() != code
    program = build_trial(LEAST, tmp_path)
    assert subprocess.run([program], capture_output=True, timeout=60, check=False).returncode == 1


def test_amx_needs_the_permission_of_the_kernel(monkeypatch: pytest.MonkeyPatch, cpu: Path) -> None:
    cpu.write_text(FLAGS.format(" ".join(AMX.cpu_flags)))
    monkeypatch.setattr(processor, "_tiles_permitted", lambda: False)
    assert [each.name for each in available()] == ["avx512", "avx2"]
    with pytest.raises(CpuBackendUnavailable, match="kernel does not permit AMX"):
        available("amx")


@pytest.mark.parametrize(
    ("hwcap", "hwcap2", "names"),
    [
        (1 << 20, 1 << 13, ["neon-i8mm", "neon-dotprod"]),
        (1 << 20, 0, ["neon-dotprod"]),
        (~0, 0, ["neon-dotprod"]),
    ],
)
def test_the_best_instruction_set_of_an_arm_processor_comes_first(
    arm: dict[int, int], hwcap: int, hwcap2: int, names: list[str]
) -> None:
    arm.update({16: hwcap, 26: hwcap2})
    assert [each.name for each in available()] == names
    assert [each.name for each in available("neon-dotprod")] == ["neon-dotprod"]


def test_arm_processors_without_dot_products_and_instruction_sets_of_x86_are_refused(
    arm: dict[int, int], sources: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        CpuBackendUnavailable, match="needs a processor with asimddp; here PyTorch decodes"
    ):
        available()
    arm[16] = 1 << 20
    with pytest.raises(
        CpuBackendUnavailable, match="needs a processor with i8mm; here PyTorch decodes"
    ):
        available("neon-i8mm")
    for refused in (lambda: available("avx2"), lambda: build_all(tmp_path, "avx2")):
        with pytest.raises(
            CpuBackendUnavailable, match="x86-64 and this one has ARM64; here PyTorch decodes"
        ):
            refused()


def test_every_instruction_set_of_arm_is_built(
    arm: dict[int, int], sources: Path, compiler: Path, tmp_path: Path
) -> None:
    built = build_all(tmp_path / "target")
    assert [path.name for path in built] == [library_name(each) for each in ARM]
    assert "-march=armv8.2-a+dotprod+i8mm" in built[0].read_text()
    arm[16] = 1 << 20
    assert build(folder=tmp_path / "target") == built[1]


def test_unsupported_processors_and_instruction_sets_of_arm_are_refused(
    cpu: Path, sources: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        CpuBackendUnavailable,
        match="neon-i8mm needs a processor with ARM64 and this one has x86-64",
    ):
        build("neon-i8mm", tmp_path)
    cpu.write_text(FLAGS.format("sse4_2 avx"))
    with pytest.raises(
        CpuBackendUnavailable, match=r"needs a processor with avx2, fma; here PyTorch decodes"
    ):
        available()
    cpu.write_text(FLAGS.format("avx2 fma"))
    available()
    with pytest.raises(CpuBackendUnavailable, match="avx512f"):
        build(isa="avx512")


@pytest.mark.parametrize(
    ("system", "machine"), [("Linux", "riscv64"), ("Darwin", "arm64"), ("Windows", "AMD64")]
)
def test_unsupported_platforms_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], system: str, machine: str
) -> None:
    monkeypatch.setattr(processor.platform, "system", lambda: system)
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    sentence = f"needs Linux on x86-64 or ARM64; on {system} {machine} PyTorch decodes"
    with pytest.raises(CpuBackendUnavailable, match=sentence):
        available()
    monkeypatch.setattr(sys, "argv", ["model.backends.cpu", "build"])
    assert main() == 1
    assert sentence in capsys.readouterr().err


def test_an_old_compiler_builds_the_next_best_instruction_set(
    cpu: Path, sources: Path, compiler: Path, tmp_path: Path
) -> None:
    cpu.write_text(FLAGS.format("avx2 fma avx_vnni"))
    built = build(folder=tmp_path / "target")
    assert built.name == library_name(LEAST)
    assert set(LEAST.compiler_flags) <= set(built.read_text().split())
    assert build("avx2", tmp_path / "target") == built


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
        build(folder=tmp_path)


def test_failed_compilation_leaves_no_files(cpu: Path, sources: Path, tmp_path: Path) -> None:
    (sources / "engine.cpp").write_text("this is not C++")
    with pytest.raises(CpuBackendUnavailable):
        build("avx2", tmp_path / "target")
    assert not any((tmp_path / "target").glob("*"))


def test_an_unwritable_folder_is_reported(
    cpu: Path, sources: Path, compiler: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CpuBackendUnavailable, match="could not be written"):
        build(folder=tmp_path / "file" / "below")


def test_two_that_compile_at_once_compile_once(sources: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "slow"
    compiler.write_text(
        '#!/bin/sh\necho >> "$COUNT"; sleep 0.2; for last; do :; done; echo > "$last"\n'
    )
    compiler.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from model.backends.cpu import build as module\n"
    )
    program += (
        "module.SOURCES = Path(sys.argv[1]); module.build_all(module.SOURCES, "
        "module.of_machine()[-1].name)"
    )
    command = [sys.executable, "-c", program, str(sources)]
    variables = os.environ | {"CXX": str(compiler), "COUNT": str(tmp_path / "count")}
    both = [subprocess.Popen(command, env=variables) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    assert len((tmp_path / "count").read_text().splitlines()) == 2  # its one unit, and the link

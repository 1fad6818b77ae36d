"""Fixtures and options for all tests: a tiny model folder and a server on it, and the check for
unexpected skips."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

# The processes of the tests share the cores: more than one thread of torch would spin and wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tests.support.servers.live import ROOT, LiveServer, live_server, tiny_model

# No test asserts a duration, because the machine may be busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

EXPECTED_SKIPS = (
    r"needs a CUDA device",
    r"needs a processor with",  # instruction sets of other processors
    r"kernel does not permit AMX",
    r"There is a GPU",
)
"""Reasons for skips that depend on the processor or on a library version, not on a missing
program."""
NUMERIC_SETTINGS = ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
PROCESSOR_FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_tile", "amx_int8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        help="fail if a test is skipped for an unexpected reason",
    )
    parser.addoption(
        "--allow-skip",
        action="append",
        default=[],
        metavar="REGEX",
        help="a further expected reason",
    )
    parser.addoption(
        "--sanitize", help="compile the CPU backend with this sanitizer; see `make sanitize`"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if sanitizer := config.getoption("--sanitize"):
        from model.backends.cpu import build

        build.FLAGS = (
            *build.FLAGS,
            f"-fsanitize={sanitizer}",
            "-fno-omit-frame-pointer",
            "-g",
            "-O1",
        )
        # This process has loaded the sanitizer; with that of threads the compiler would end.
        os.environ.pop("LD_PRELOAD", None)


def pytest_report_header() -> str:
    """Names the processor's instruction sets: a setting that asks for more than these changes
    nothing."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = (
        re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
        if cpuinfo.exists()
        else None
    )
    has = [flag for flag in PROCESSOR_FLAGS if flags and flag in flags[1].split()]
    settings = [f"{name}={os.environ[name]}" for name in NUMERIC_SETTINGS if name in os.environ]
    return (
        f"processor: {' '.join(has) or 'unknown'}; "
        f"{' '.join(settings) or 'no limit on instruction sets'}"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of the training first: their files take long, and at the end one core would
    wait for them."""
    items.sort(key=lambda item: "unit/training/" not in item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test in an event loop of its own, for at most five minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 300))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--fail-on-skip"):
        return
    expected = re.compile("|".join([*EXPECTED_SKIPS, *session.config.getoption("--allow-skip")]))
    reports = [
        report for report in reporter.stats.get("skipped", ()) if isinstance(report.longrepr, tuple)
    ]
    unexpected = [report for report in reports if not expected.search(report.longrepr[2])]
    for report in unexpected:
        reporter.write_line(f"unexpected skip: {report.nodeid}: {report.longrepr[2]}", red=True)
    if unexpected and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Models that the user has downloaded are not those of the tests."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weights folder with one model of random weights, English to German and French."""
    folder = tmp_path_factory.mktemp("weights")
    tiny_model(folder / "tiny")
    return folder


@pytest.fixture(scope="session")
def live(tiny_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server in separate processes, in float32 so that numbers can be compared."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    with live_server(tiny_weights, log, ("--dtype", "float32")) as server:
        yield server


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the models in `weights/`."""
    if not any((ROOT / "weights").glob("*/config.json")):
        pytest.skip("there is no model in weights/")
    with live_server(ROOT / "weights", tmp_path_factory.mktemp("shipped") / "log") as server:
        yield server

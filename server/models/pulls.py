"""Downloads models while the server runs: those of --models that are missing, and requested ones.

`attentive pull` downloads and imports each in a process of its own; then it is loaded. While
another server with the same folder downloads a model, this one waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Literal

from model.convert.downloads import discard_pull
from model.convert.published import (
    LISTS,
    folder_in,
    full_name,
    pair_of,
    published_models,
    publisher_of,
)
from model.model_folder import FolderError
from server.config import Settings, comma_separated, flag_and_variable
from server.errors import InvalidRequest, NotFound, SettingsError, Unavailable
from server.models.hot_reload import ServedModels
from server.process import end_first
from server.text.languages import resolve_language_code
from server.translation.catalog import ServedModel

log = logging.getLogger(__name__)
ANY = "any"
"""In --models: also what requests need."""
PAUSES = (5, 15, 60, 300, 600)
"""Seconds before each retry; the last one repeats."""
POLL_SECONDS = 5
END_SECONDS = 10
"""Seconds that a download has to remove its files after SIGTERM."""
AT_ONCE = 2
"""Downloads from one publisher at the same time; a slow one delays no others."""
RETRY_SECONDS = 10
"""Retry-After of a translation whose model is being downloaded."""


@dataclass(slots=True)
class Pull:
    """A model that is not served yet. `bytes` of `total` of the present `file` have arrived;
    `total` is 0 where it is unknown. `error` is the sentence of the last try that failed; there
    will be another one, unless it is `final`."""

    name: str
    state: Literal["waiting", "downloading", "importing", "failed", "served"] = "waiting"
    file: str = ""
    bytes: int = 0
    total: int = 0
    error: str = ""
    final: bool = False


class ModelPulls:
    """The downloads of one server. Belongs to its event loop. Raises SettingsError for a wrong name
    in --models."""

    def __init__(self, settings: Settings, models: ServedModels) -> None:
        self._settings, self._models = settings, models
        try:
            names = comma_separated(settings.models)
            self._names = [full_name(name) for name in names if name != ANY]
        except FolderError as error:
            raise SettingsError(f"{flag_and_variable('models')}: {error}") from None
        self.pulls: Mapping[str, Pull] = {}
        """The models that are not served yet, by full name, in the order of the requests."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(
            partial(asyncio.Semaphore, AT_ONCE)
        )
        self._any = ANY in names
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Requests the missing models of --models."""
        self._loop = asyncio.get_running_loop()
        for name in self._names:
            self.request(name)

    @property
    def missing(self) -> list[str]:
        """The models of --models that are not served yet."""
        return [name for name in self._names if not self._served(name)]

    def request(self, name: str) -> Pull:
        """Downloads a model in the background, unless it is served, until it is there or deleted,
        or its publisher refuses it. A failed one is tried at once. Raises InvalidRequest for a
        wrong name."""
        try:
            name = full_name(name)
        except FolderError as error:
            raise InvalidRequest(str(error)) from None
        if self._served(name):
            return Pull(name, "served")
        pull = self.pulls.get(name)
        if pull is None or pull.state == "failed":
            self._end(name)
            pull = Pull(name)
            self.pulls = {**self.pulls, name: pull}
            self._tasks[name] = asyncio.create_task(self._pull(pull))
        return pull

    async def add(self, name: str) -> Pull:
        """See `request`."""
        return self.request(name)

    def check(self, source: str | None, target: str | None) -> str:
        """Raises Unavailable if a model for the pair, or for the one language that is given, is
        being downloaded; returns a sentence if its download failed. With `any` in --models,
        requests the best published model of a pair. May be called in any thread."""
        reason = ""
        for pull in self.pulls.values():
            asked = zip((source, target), pair_of(pull.name) or ("", ""), strict=True)
            if all(code is None or resolve_language_code(code, [other]) for code, other in asked):
                if not pull.error:
                    raise _on_its_way(pull.name)
                reason = reason or f"The model {pull.name} could not be downloaded: {pull.error}"
        name = _best(source, target) if self._any and source and target else None
        if name and self._loop and not self._served(name) and name not in self.pulls:
            self._loop.call_soon_threadsafe(self.request, name)
            raise _on_its_way(name)
        return reason

    def is_pulled(self, model: ServedModel) -> bool:
        return model.folder.parent == self._settings.pulled.absolute()

    async def delete(self, name: str) -> None:
        """Deletes a downloaded model, or ends its download, by the name of its folder. Raises
        NotFound."""
        if pulls := [
            pull.name for pull in self.pulls.values() if self._folder_of(pull.name) == name
        ]:
            task = self._tasks.get(pulls[0])
            self._end(pulls[0])
            if task is not None:
                await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(discard_pull, self._settings.pulled.absolute(), name)
            return
        models = self._models.catalog.models
        model = next(
            (model for model in models if model.name == name and self.is_pulled(model)), None
        )
        if model is None:
            raise NotFound(f"There is no downloaded model {name!r:.200}.")
        if len(models) == 1:
            raise InvalidRequest("This model is the only one.")
        await asyncio.to_thread(shutil.rmtree, model.folder)
        await self._models.reload()

    async def stop(self) -> None:
        """Ends all downloads; what has arrived is kept for the next start."""
        tasks = list(self._tasks.values())
        for name in list(self.pulls):
            self._end(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, name: str) -> None:
        self.pulls = {other: pull for other, pull in self.pulls.items() if other != name}
        if task := self._tasks.pop(name, None):
            task.cancel()

    def _folder_of(self, name: str) -> str:
        return folder_in(self._settings.pulled.absolute(), name)

    def _served(self, name: str) -> bool:
        folder = self._folder_of(name)
        return any(model.folder.name == folder for model in self._models.catalog.models)

    async def _pull(self, pull: Pull) -> None:
        folder = self._settings.pulled / self._folder_of(pull.name)
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            error = ""
            if not folder.is_dir():
                async with self._turns[publisher_of(pull.name)]:
                    error = await self._download(pull)
            if not error:
                error = (await self._models.reload())["errors"].get(folder.name, "")
            if self._served(pull.name):
                self._end(pull.name)
                break
            pull.state, pull.error = "failed", error
            fields = {"final": True} if pull.final else {"retry_seconds": pause}
            log.error("model %s: %s", pull.name, pull.error, extra=fields)
            if pull.final:
                break
            there = folder.is_dir()
            for _ in range(max(1, pause // POLL_SECONDS)):
                await asyncio.sleep(min(pause, POLL_SECONDS))
                if folder.is_dir() != there:  # another server has downloaded it
                    break
            pull.state = "waiting"

    async def _download(self, pull: Pull) -> str:
        """Downloads and imports a model. Returns the sentence of a failure, empty after success."""
        settings = self._settings
        flags = ("--json", "--weights", str(settings.pulled.absolute()))
        lists = [
            part
            for name in LISTS
            for part in ("--" + name.replace("_", "-"), getattr(settings, name))
        ]
        process = await asyncio.create_subprocess_exec(
            *("nice", sys.executable, "-m", "server", "pull", pull.name, *flags, *lists),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the server, which ends the download
        )
        end_first(process.pid)
        error = ""
        try:
            while process.stdout and (line := await process.stdout.readline()):
                if not line.startswith(b"{"):
                    log.info("%s", line.decode(errors="replace").rstrip())
                    continue
                fields = json.loads(line)
                error, pull.final = fields.pop("error", ""), fields.pop("final", False)
                if not error:
                    _note(pull, **fields)
            status = await process.wait()
            return (error or f"Its download ended with status {status}.") if status else ""
        finally:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), END_SECONDS)
            if process.returncode is None:
                process.kill()
                await process.wait()


def _on_its_way(name: str) -> Unavailable:
    return Unavailable(f"The model {name} is being downloaded; try again later.", RETRY_SECONDS)


def _best(source: str, target: str) -> str | None:
    """Returns the name of the best published model for a caller's codes, or None."""
    best = {(model.source, model.target): model.name for model in reversed(published_models())}
    sources, targets = zip(*best, strict=True)
    return best.get(
        (resolve_language_code(source, sources) or "", resolve_language_code(target, targets) or "")
    )


def _note(pull: Pull, file: str, bytes: int, total: int) -> None:
    """Notes the progress of a file; the folder of the model is the last one."""
    if file != pull.file:
        pull.state = "importing" if total == 0 == bytes else "downloading"
        log.info(pull.state, extra={"model": pull.name, "file": file, "bytes": total})
    pull.file, pull.bytes, pull.total = file, bytes, total

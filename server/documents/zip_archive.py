"""Reads zip archives within limits on what they unpack to."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO

from server.errors import InvalidRequest, PayloadTooLarge

ENTRIES_LIMIT = 10_000
UNPACKED_BYTES = 200_000_000
"""Limit on the unpacked size of all entries. They are unpacked one at a time."""
PART_BYTES, PARTS_BYTES = 20_000_000, 40_000_000
"""Limits on an entry, and on all entries, that are parsed as XML."""
ELEMENT_BYTES = 330
"""Memory of an element while its file is written."""
TREE_BYTES = 150_000_000
"""Limit on the estimated memory of all XML trees."""
COPIED_BYTES = 1 << 20
RATIO_LIMIT = 300
"""Limit on the ratio of unpacked to packed size, which is below 50 in real documents."""
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of files of Office 97 and of encrypted files."""
NO_ARCHIVE = "The file is damaged, or its name does not say what it is"
METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


class Archive:
    """A zip archive in memory. Raises InvalidRequest, or PayloadTooLarge before anything is
    unpacked."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(OLD_OFFICE):
            raise InvalidRequest(
                "The file is protected by a password, or has the format of Office 97; save it "
                "without."
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise InvalidRequest(f"{NO_ARCHIVE}.") from error
        entries = self._zip.infolist()
        self.names = {entry.filename: entry for entry in entries}
        """The entries by name, in order."""
        self._compared = {compared(name): name for name in self.names}
        self._read: set[str] = set()
        self._size, self._memory = 0, 0  # of the parts that were read
        unpacked = sum(entry.file_size for entry in entries)
        if (
            len(entries) > ENTRIES_LIMIT
            or unpacked > UNPACKED_BYTES
            or unpacked > RATIO_LIMIT * len(data)
        ):
            raise PayloadTooLarge("The file unpacks to more than this server reads.")
        if len(self.names) != len(entries):
            raise InvalidRequest("The file is damaged: two of its parts have the same name.")
        if any(entry.flag_bits & 1 or entry.compress_type not in METHODS for entry in entries):
            raise InvalidRequest("The file is encrypted or packed in a way that is not read here.")
        for entry in entries:  # damage is reported before the translation starts
            self._copy(entry, None)

    def name_of(self, name: str) -> str | None:
        """Returns the name of an entry as the archive writes it."""
        return self._compared.get(compared(name))

    def require(self, name: str) -> None:
        """Raises InvalidRequest if there is no such entry."""
        if name not in self.names:
            raise InvalidRequest(f"{NO_ARCHIVE}: a part of it is missing.")

    def part(self, name: str) -> bytes:
        """Returns the content of an entry. Raises InvalidRequest if it is missing or damaged, and
        PayloadTooLarge if it is too large."""
        self.require(name)
        entry = self.names[name]
        size = 0 if name in self._read else entry.file_size
        if entry.file_size > PART_BYTES or self._size + size > PARTS_BYTES:
            raise PayloadTooLarge("The text of the file unpacks to more than this server reads.")
        self._copy(entry, content := io.BytesIO())
        data = content.getvalue()
        if size:
            self._read.add(name)
            self._size += size
            self._memory += ELEMENT_BYTES * (data.count(b"<") - data.count(b"</")) + len(data)
        if self._memory > TREE_BYTES:
            raise PayloadTooLarge(
                "The file has more paragraphs and formatting than this server reads; split it."
            )
        return data

    def replaced(self, parts: Mapping[str, bytes]) -> bytes:
        """Returns the archive with some entries replaced, in the same order and compression."""
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
            for entry in self.names.values():
                content = parts.get(entry.filename)
                header = zipfile.ZipInfo(entry.filename, entry.date_time)
                header.compress_type = entry.compress_type  # the first one of an EPUB is not packed
                header.external_attr = entry.external_attr
                with made.open(header, "w") as packed:
                    if content is None:
                        self._copy(entry, packed)
                    else:
                        packed.write(content)
        return target.getvalue()

    def _copy(self, entry: zipfile.ZipInfo, target: IO[bytes] | None) -> None:
        """Unpacks an entry in pieces, or only checks it without a target."""
        try:
            with self._zip.open(entry) as unpacked:  # zipfile reads no more than the declared size
                while piece := unpacked.read(COPIED_BYTES):
                    if target is not None:
                        target.write(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
            raise InvalidRequest("The file is damaged: a part of it cannot be unpacked.") from error


def compared(name: str) -> str:
    """Returns a name as Office compares it: without its first slash, in lower case."""
    return name.replace("\\", "/").lstrip("/").lower()

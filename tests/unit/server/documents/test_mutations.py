"""Mutated files: refused with one sentence, or translated into a file that can be read again."""

from __future__ import annotations

import io
import random
import zipfile
from collections import Counter

import pytest

from server.documents.formats import format_of
from server.errors import AttentiveError
from server.text.html_passages import parse_passages
from tests.support import document_files as make
from tests.unit.server.documents.test_formats import SRT, VTT

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SEEDS = {
    ".docx": make.word_file(),
    ".odt": make.open_document(
        '<text:h>Head</text:h><text:p>Say <text:span text:style-name="B">bold</text:span> now</text:p>'
    ),
    ".epub": make.book(),
    ".srt": SRT.encode(),
    ".vtt": VTT.encode(),
    ".html": make.PAGE.encode(),
    ".txt": b"Hello.\nWorld\r\n\n",
}
BROKEN = [
    b"<",
    b"</w:p>",
    b"<w:r>",
    b"<!--",
    b"&",
    b"&#0;",
    b"&nbsp;",
    b"\x00",
    b"\xff",
    b"xmlns=''",
    b"-->",
    b"<span k0>",
    b"<br k99>",
]
WHOLE = [
    b"<!-- c -->", b"<?pi x?>", b"&#160;", b"<![CDATA[<b>]]>", b"words &lt;b&gt; <!-- x --> more", b"<x/>", b"<b>bold</b>",
    f'<w:r {WORD}><w:t>more</w:t><w:br/></w:r>'.encode(),
    f'<w:p {WORD}><w:r><w:rPr><w:i/></w:rPr><w:t>a <!-- y -->b</w:t></w:r></w:p>'.encode(),
    f'<w:r {WORD}><w:fldChar w:fldCharType="begin"/></w:r>'.encode(),
    f'<w:r {WORD}><w:fldChar w:fldCharType="end"/></w:r>'.encode(),
    f'<t:span xmlns:t="{make.TEXT}">a<t:span>b</t:span></t:span>'.encode(),
    f'<t:p xmlns:t="{make.TEXT}">a<t:tab/>b</t:p>'.encode(),
]  # fmt: skip


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.randint(0, 30))
    match chance.randrange(3):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] + data[end:]
        case _:
            return data[:start] + chance.choice(BROKEN) + data[start:]


def markup_added(data: bytes, chance: random.Random) -> bytes:
    """Something well-formed after a tag."""
    places = [i + 1 for i, byte in enumerate(data) if byte == ord(">") and i > 60]
    place = chance.choice(places)
    return data[:place] + chance.choice(WHOLE) + data[place:]


def part_changed(data: bytes, chance: random.Random) -> bytes:
    """An archive with one part of XML changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        parts = {name: found.read(name) for name in found.namelist()}
    name = chance.choice([name for name in parts if name.endswith(("xml", "opf", "ncx"))])
    for _ in range(chance.randint(1, 3)):
        parts[name] = (markup_added if chance.random() < 0.8 else bytes_changed)(parts[name], chance)
    return make.archive(parts)


@pytest.mark.parametrize("suffix", SEEDS)
def test_mutated_files(suffix):
    chance = random.Random(suffix)
    outcomes: Counter[str] = Counter()
    for _ in range(40):
        zipped = suffix in (".docx", ".odt", ".epub") and chance.random() < 0.9
        data = (part_changed if zipped else bytes_changed)(SEEDS[suffix], chance)
        try:
            document = format_of("a" + suffix).read(data, "de")
        except AttentiveError as error:
            assert error.message.endswith(".")
            outcomes["refused"] += 1
            continue
        texts = [parse_passages(text, document.format) for text in document.texts]
        made = document.write(["".join(passage.render(passage.text[::-1]) for passage in text) for text in texts])
        format_of("a" + suffix).read(made, "de")
        outcomes["translated"] += 1
    assert outcomes["translated"] > 5

"""Random mutations of bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.texts import document_files as make

LONGEST_CUT = 30
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
FRAGMENTS = (
    *b"< > </ <b> </b> </w:p> <w:r> <w:t> <w:rPr> <text:s/> <p <!-- --> <!DOCTYPE & ; &#0; &nbsp; "
    b"\" ' . xmlns=''".split(),
    *(
        b"\n",
        b" ",
        b"\x00",
        b"\xff",
        b"<span k0>",
        b"<br k99>",
        b"x" * 50,
        b"PK\x03\x04",
        "\ud7ff".encode(),
    ),
)
"""Strings that break markup or end sentences."""
ELEMENTS = (
    f"""
<!-- c -->|<?pi x?>|&#160;|<![CDATA[<b>]]>|words &lt;b&gt; <!-- x --> more|<x/>|<b>bold</b>
<w:r {WORD}><w:t>more</w:t><w:br/></w:r>
<w:p {WORD}><w:r><w:rPr><w:i/></w:rPr><w:t>a <!-- y -->b</w:t></w:r></w:p>
<w:r {WORD}><w:fldChar w:fldCharType="begin"/></w:r>|<w:r {WORD}><w:fldChar w:fldCharType="end"/></w:r>
<t:span xmlns:t="{make.TEXT}">a<t:span>b</t:span></t:span>|<t:p xmlns:t="{make.TEXT}">a<t:tab/>b</t:p>
""".strip()
    .replace("|", "\n")
    .encode()
    .split(b"\n")
)
"""Well-formed content, inserted after a tag."""


def mutant(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """Returns a seed with 1 to 6 changes."""
    data = chance.choice(seeds)
    for _ in range(chance.randint(1, 6)):
        data = mutated(data, seeds, chance)
    return data


def mutated(data: bytes, seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """Returns the data with one change: an element inserted after a tag, or bytes cut, doubled,
    inserted or replaced."""
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.randint(0, LONGEST_CUT))
    match chance.randrange(10):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] + data[end:]
        case 2:
            return data[:start] + chance.choice(FRAGMENTS) + data[start:]
        case 3:
            code = chance.choice(
                (chance.randrange(0x20), chance.randrange(0x250), chance.randrange(0xD800), 0x1F600)
            )
            return data[:start] + chr(code).encode() + data[end:]
        case 4:
            return data[:start] + chance.choice(seeds) + data[end:]
        case _:
            after_tag = [i + 1 for i, byte in enumerate(data) if byte == ord(">") and i > 60] or [
                start
            ]
            place = chance.choice(after_tag)
            return data[:place] + chance.choice(ELEMENTS) + data[place:]

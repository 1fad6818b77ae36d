"""A look as one self-contained HTML file: styles, scripts and numbers inside, nothing fetched, opens from disk."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

import orjson

from server.web.assets import assets, source_hash

_SCRIPTS = ("views.js", "report.js")


def report(look: dict[str, Any]) -> bytes:
    """The report of an answer of GET /attention, made with `numbers=uint16` and figures."""
    data = orjson.dumps(look, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SERIALIZE_DATACLASS).decode("utf-8")
    # Inside a script element only "<" could end it or open a comment; JSON may write it as an escape.
    data = data.replace("<", "\\u003c")
    title = escape(f"{look['source']['text']} \u2192 {look['target']['text']}"[:200])
    scripts = "".join(f"<script>{assets()[name].text}</script>\n" for name in _SCRIPTS)
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        f"<title>{title} \u00b7 Attentive</title>\n<style>{assets()['explorer.css'].text}</style>\n</head>\n"
        f'<body class="report">\n<main id="report"></main>\n'
        f'<script type="application/json" id="look">{data}</script>\n{scripts}</body>\n</html>\n'
    )
    return page.encode("utf-8", "replace")


@cache
def policy() -> str:
    """Exactly the report's own scripts and styles may run, and nothing may be fetched."""
    scripts = " ".join(source_hash(assets()[name].text) for name in _SCRIPTS)
    style = source_hash(assets()["explorer.css"].text)
    return f"default-src 'none'; script-src {scripts}; style-src {style}; img-src data: blob:; base-uri 'none'"

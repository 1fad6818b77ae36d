"""Reports of attention requests: one HTML file with its styles, scripts and numbers, which loads nothing."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

import orjson

from server.web.assets import assets, source_hash

_SCRIPTS = ("views.js", "report.js")


def report(answer: dict[str, Any]) -> bytes:
    """Returns the report of an answer of GET /attention with `numbers=uint16` and figures."""
    data = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SERIALIZE_DATACLASS).decode("utf-8")
    # Only "<" can end a script element or open a comment, and JSON can escape it.
    data = data.replace("<", "\\u003c")
    title = escape(f"{answer['source']['text']} \u2192 {answer['target']['text']}"[:200])
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
    """Returns the Content-Security-Policy that allows only the scripts and the style of the report."""
    scripts = " ".join(source_hash(assets()[name].text) for name in _SCRIPTS)
    style = source_hash(assets()["explorer.css"].text)
    return f"default-src 'none'; script-src {scripts}; style-src {style}; img-src data: blob:; base-uri 'none'"

"""Scans markup in brackets: BBCode ([b]...[/b], [url=...]...[/url];
https://www.bbcode.org/reference.php), shortcodes of WordPress ([gallery ids="1,2"]), links of wikis
([[page]]; https://www.mediawiki.org/wiki/Help:Links) and Org ([[a][b]]), roles of AsciiDoc
([.name]#text#), merge tags of Mailchimp (*|NAME|*). A tag without a value and its partner is text:
[sic]."""

from __future__ import annotations

import re

from server.text.syntax.match import Match, Source, by_pattern

_TAG = re.compile(r"\[(/?)([a-z]{1,20})((?: [\w-]{1,30})?=[^\[\]\n]{1,200})? ?/?\]", re.IGNORECASE)
link = by_pattern(r"\[\[[^\[\]\n]{1,100}\]\]", "wiki link")
item = by_pattern(r"\[\*\]", "item", "break")
org = by_pattern(r"\[\[[^\[\]\s]{1,300}\]\[(?=[^\[\]\n]{1,300}\]\])", "org link", "open")
role = by_pattern(r"\[\.[\w.-]+\]#(?=[^#\n]{1,200}#)", "emphasis", "open")
role_end = by_pattern(r"(?<=[\w.?!)/*])#(?!\w)", "emphasis", "close")
org_end = by_pattern(r"\]\](?!\()", "org link", "close")
merge_tag = by_pattern(r"\*\|[^|*\n]{1,100}\|\*", "merge tag")


def tag(source: Source, at: int) -> Match | None:
    found = _TAG.match(source.text, at)
    return (
        Match(at, found.end(), "close" if found[1] else "open", "bbcode", found[2].lower())
        if found
        else None
    )

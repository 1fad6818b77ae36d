"""Scans the links of wikis ([[page]]; https://www.mediawiki.org/wiki/Help:Links), which Angular and Polymer write too, and the
merge tags of Mailchimp (*|NAME|*)."""

from __future__ import annotations

from server.text.syntax.match import by_pattern

link = by_pattern(r"\[\[[^\[\]\n]{1,100}\]\]", "word", "wiki link")
merge_tag = by_pattern(r"\*\|[^|*\n]{1,100}\|\*", "word", "merge tag")

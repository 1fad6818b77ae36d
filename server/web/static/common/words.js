// The words of a shown text as spans.
import { el } from "./dom.js";
import { spanMapper } from "./spans.js";

/** Replaces the content of `host`, which shows `text`, by the same text with a span for every word of `side` (`text` and
 * `words` of an answer of GET /attention). `prepare(node, word, index)` is called with each. Returns a map from the
 * index of a word to its span. Text between the words that has letters, digits or emoji was copied: class "kept". */
export function wordSpans(host, text, side, prepare, copied = "copied") {
  const span = spanMapper(side.text, text),
    nodes = new Map(),
    parts = [];
  let at = 0;
  const between = (part) => {
    const [, before, inner, after] = /^(\s*)(.*?)(\s*)$/su.exec(part);
    parts.push(before, /[\p{L}\p{N}\p{So}]/u.test(inner) ? el("span.kept", { title: copied }, inner) : inner, after);
  };
  side.words.forEach((word, i) => {
    const [start, end] = (word.start < word.end && span(word.start, word.end)) || [-1, -1];
    if (start < at) return;
    if (start > at) between(text.slice(at, start));
    const node = el("span.w", text.slice(start, end));
    prepare(node, word, i);
    nodes.set(i, node);
    parts.push(node);
    at = end;
  });
  if (at < text.length) between(text.slice(at));
  host.replaceChildren(...parts);
  return nodes;
}

/** Returns the index of the word under the pointer, or null. The spans may lie behind another element. */
export function wordUnder(nodes, { clientX, clientY }) {
  for (const [i, node] of nodes)
    for (const box of node.getClientRects())
      if (clientX >= box.left && clientX <= box.right && clientY >= box.top && clientY <= box.bottom) return i;
  return null;
}

/** Returns the text as strings and elements: `spans` is [[words, element], ...] in the order of the text. */
export function withSpans(text, spans) {
  const parts = [];
  let at = 0;
  for (const [words, span] of spans) {
    const start = text.indexOf(words, at);
    if (start < 0 || !words) continue;
    parts.push(text.slice(at, start), span);
    at = start + words.length;
  }
  return [...parts, text.slice(at)];
}

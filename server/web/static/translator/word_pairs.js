// Words of a sentence that belong together, and doubtful words. Asked for one sentence at a time after its translation.
import { $ } from "../common/dom.js";
import { ask, query } from "../common/server.js";
import { wordSpans, wordUnder } from "../common/words.js";
import { say } from "./messages.js";

const DOUBTFUL = Math.log(0.25),
  AT_ONCE = 8;
/** `item` is the sentence and `word` its word that is marked, `side` the side of this word. */
let marked = { item: null, side: null, word: null };

/** Returns the parameters that name a sentence as it was served. */
export const address = ({ id, number, legs }) => ({ id, sentence: number, leg: legs - 1 });
const LOOK = { kind: "cross", layer: 0, head: "mean", numbers: "uint16", alignment: "combined", format: "json" };
/** Returns the attention of a sentence. */
export const look = (subject, signal) => ask("/attention?" + query({ ...subject, ...LOOK }), { signal });

/** Splits the first sentences into words, one request after another. Others follow when they are pointed at. */
export async function attendFirst(items, signal) {
  for (const item of items.filter((item) => !item.copied).slice(0, AT_ONCE)) {
    if (signal.aborted) return;
    await attend(item, signal);
  }
}
/** Splits a sentence into words. Failures leave it as it is: the translation is there without them. */
export async function attend(item, signal) {
  if (item.attended || item.copied) return;
  item.attended = true;
  const shown = item.target,
    subject = item.taken ? { q: item.source, translation: shown, source: item.from, target: item.to } : address(item);
  let found;
  try {
    found = await look(subject, signal);
  } catch {
    item.attended = false;
    return;
  }
  if (item.target === shown && item.targetSpan.isConnected) split(item, found);
}
/** Splits a sentence into the words of its attention. */
export function split(item, found) {
  const direct = item.legs === 1;
  Object.assign(item, { found, attended: true, links: direct ? found.alignment.links : [] });
  const { scores } = found.target;
  item.targets = wordSpans(item.targetSpan, item.target, found.target, (node, word) => {
    if (!/[\p{L}\p{N}]/u.test(word.text) || Math.min(...word.pieces.map((piece) => scores[piece])) >= DOUBTFUL) return;
    node.classList.add("unsure");
    node.title = say("unsure");
    node.setAttribute("aria-description", node.title);
  });
  item.sources = direct ? wordSpans(item.sourceSpan, item.source, found.source, () => {}) : new Map();
  $("doubt").hidden = !document.querySelector("#output .unsure");
}

/** Marks a word and those that belong to it on the other side; without a word, nothing. */
export function mark(item = null, side = null, word = null) {
  if (marked.item === item && marked.side === side && marked.word === word) return;
  document.querySelectorAll(".w.on, .w.linked").forEach((node) => node.classList.remove("on", "linked"));
  marked = { item, side, word };
  $("pair").textContent = "";
  if (word === null) return;
  const [own, other, at] = side === "source" ? [item.sources, item.targets, 0] : [item.targets, item.sources, 1];
  const linked = item.links
    .filter((link) => link[at] === word)
    .map((link) => other.get(link[1 - at]))
    .filter(Boolean);
  own.get(word)?.classList.add("on");
  linked.forEach((node) => node.classList.add("linked"));
  const texts = linked.map((node) => node.textContent).join(" … ");
  if (texts)
    $("pair").textContent =
      side === "source" ? `${own.get(word).textContent} → ${texts}` : `${texts} → ${own.get(word).textContent}`;
}

/** Returns the sentence and the word of the translation that are marked. */
export const markedWord = () => (marked.side === "target" && marked.word !== null ? marked : null);
/** Marks the word under the pointer. `side` is the side that the pointer is over. */
export function pointAt(items, side, event, signal) {
  for (const item of items) {
    const span = side === "source" ? item.sourceSpan : item.targetSpan,
      nodes = side === "source" ? item.sources : item.targets;
    if (wordUnder(new Map([[0, span]]), event) === null) continue;
    if (!item.attended) attend(item, signal);
    const word = nodes ? wordUnder(nodes, event) : null;
    return word === null ? mark() : mark(item, side, word);
  }
  return mark();
}
/** Marks the next or the previous word of the translation, splits the sentence after it into words, and returns its own. */
export function step(items, by) {
  const words = items.flatMap((item) => [...(item.targets?.keys() || [])].map((word) => [item, word]));
  if (!words.length) return null;
  const at = words.findIndex(
    ([item, word]) => marked.side === "target" && item === marked.item && word === marked.word,
  );
  const [item, word] = words[Math.min(words.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  mark(item, "target", word);
  item.targets.get(word).scrollIntoView({ block: "nearest" });
  const after = items.slice(items.indexOf(item) + 1).find(({ copied }) => !copied);
  if (after) attend(after);
  return item;
}

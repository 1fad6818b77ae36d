// The texts above the panels: sentences and words as spans, and the words that belong together.
import { chance, color, el, noted } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { withSpans, wordSpans, wordUnder } from "../common/words.js";
import { pointInFilm } from "./film/film.js";
import { aligned } from "./maps/maps.js";
import { $, name, state } from "./state.js";

/** What is shown of sentences: commands, and the parts of the page. */
const TOOLS = ["link", "curl", "report", "others"],
  PARTS = ["inside", "chapters", "opening"];

/** Returns the sentences of a translated text as {paragraph, leg, number, read, written, source, target}. `source` and
 * `target` are the spans that show them. */
function itemsOf(paragraph, leg, choose) {
  return (paragraph.legs[leg] || []).map((sentence, number) => ({
    paragraph,
    leg,
    number,
    sentence,
    route: paragraph.route[leg],
    read: sentence.read || sentence.source,
    source: el("span.s", sentence.source),
    target: el("span.s", { onclick: choose }, sentence.target),
  }));
}
/** Returns the text that the page opens with. */
export const firstExample = () => $("examples").querySelector("button").textContent;
/** Returns the text between two legs. */
const between = (paragraph) => (paragraph.legs[1] || []).map((sentence) => sentence.source).join(" ");

/** Shows the translated paragraphs with one span per sentence of the chosen leg. `open(index)` opens a sentence. */
export function show(paragraphs, open) {
  state.paragraphs = paragraphs;
  state.items = [];
  const output = [],
    mirror = [],
    middle = [];
  paragraphs.forEach((paragraph, p) => {
    const last = paragraph.legs.length - 1,
      leg = Math.min(state.leg, last),
      newline = p < paragraphs.length - 1 ? "\n" : "";
    const items = itemsOf(paragraph, leg, (event) =>
      open(state.items.findIndex((item) => item.target === event.currentTarget)),
    );
    const sources = items.map((item) => [item.sentence.source, item.source]),
      targets = items.map((item) => [item.sentence.target, item.target]);
    mirror.push(...withSpans(paragraph.source, leg <= 0 ? sources : []), "\n");
    output.push(...withSpans(paragraph.target, leg === last ? targets : []), newline);
    if (last > 0)
      middle.push(
        ...(leg
          ? withSpans(between(paragraph), sources)
          : withSpans(items.map((item) => item.sentence.target).join(" "), targets)),
        newline,
      );
    state.items.push(...items.filter((item) => !item.sentence.copied));
  });
  $("output").replaceChildren(...output);
  $("mirror").replaceChildren(...mirror);
  $("between").replaceChildren(...middle);
  $("alternatives").hidden = true;
  const detected = paragraphs.find((paragraph) => paragraph.detected?.confidence)?.detected;
  $("detected").textContent = detected ? say("detected: {0}", name(detected.language)) : "";
  for (const id of [...TOOLS, ...PARTS]) $(id).hidden = !state.items.length;
  $("copy").hidden = false;
  if (!state.items.length) $("film").replaceChildren();
  const unserved = detected && !paragraphs.some(({ route }) => route.length);
  if (!state.items.length)
    $("facts").textContent = unserved
      ? say("No model here translates from {0}; the text was copied.", name(detected.language))
      : say("Copied: this text has no words that the model reads.");
}
/** Removes the translation and everything about it. */
export function clear() {
  state.paragraphs = state.items = [];
  state.done = null;
  for (const id of ["output", "mirror", "between"]) $(id).replaceChildren();
  for (const id of ["copy", "alternatives", "legs", ...TOOLS, ...PARTS]) $(id).hidden = true;
  for (const id of ["facts", "detected", "legend"]) $(id).textContent = "";
  $("film").replaceChildren(noted("Type or paste text …"));
  outdated(false);
}
/** Marks translation and panels as those of another text than the one in the field: they cannot be used. */
export function outdated(is = true) {
  $("output").setAttribute("aria-busy", is);
  for (const id of ["show", "tools", "legs", "output", ...PARTS]) {
    $(id).inert = is;
    $(id).classList.toggle("busy", is);
  }
  $("mirror").hidden = is;
  if (is) $("alternatives").hidden = true;
}

/** Splits the current sentence into word spans on both sides. `found` is its attention: its words are those of the text
 * that the model read and wrote; they are found in the texts that are shown. */
export function words(item, found) {
  item.soft = aligned(found);
  item.find = found;
  item.targets = wordSpans(item.target, item.sentence.target, found.target, (node, word, i) =>
    targetWord(item, node, word, i),
  );
  item.sources = wordSpans(item.source, item.sentence.source, found.source, (node, word, i) => {
    if (found.alignment.coverage[i] < 0.15 && /\w/.test(word.text)) node.classList.add("missed");
    if (item.leg) node.addEventListener("pointerenter", () => highlight(item, "source", i));
    if (item.leg) node.addEventListener("pointerleave", () => highlight(item));
  });
  const shown = (kind) => document.querySelector(`#translate .${kind}`);
  const key = (kind, text) => (shown(kind) ? [el("span", { class: "w " + kind }, "abc"), ` ${text}  `] : []);
  $("legend").replaceChildren(
    ...key("unsure", say("the model was unsure (< 25 %)")),
    ...key("missed", say("hardly looked at: perhaps left out")),
    ...key("kept", say("copied: the model did not read it")),
    say("Point at a word: shaded words were looked at, framed ones belong to it."),
  );
}
function targetWord(item, node, word, i) {
  const { scores, pieces } = item.find.target;
  if (Math.min(...word.pieces.map((p) => scores[p])) < Math.log(0.25)) node.classList.add("unsure");
  node.title = `${chance(word.pieces.reduce((sum, p) => sum + scores[p], 0))} · ${word.pieces.map((p) => pieces[p]).join(" ")}`;
  for (const event of ["pointerenter", "click"]) node.addEventListener(event, () => highlight(item, "target", i));
  node.addEventListener("pointerleave", () => highlight(item));
}
/** Marks the word of the translation before or after the one that was marked last; the first of them if none was. */
export function step(by) {
  const item = state.items[state.current],
    words = [...(item?.targets?.keys() || [])];
  if (!words.length) return;
  const at = words.indexOf(item.word);
  highlight(item, "target", words[at < 0 ? 0 : Math.max(0, Math.min(words.length - 1, at + by))]);
}

/** Marks the words that belong to word `i` of a side, in the texts, and with `linked` also in the panel. */
export function highlight(item, side, i, linked = true) {
  if (side === "target") item.word = i;
  const { rows, columns, data } = item.soft,
    links = item.find.alignment.links;
  const mark = (nodes, weight, chosen, belongs) =>
    nodes.forEach((node, j) => {
      const share = side ? weight(j) : 0;
      node.style.background =
        share > 0.01 ? `rgb(${color("--glow")} / ${Math.min(0.55, share * 0.65).toFixed(3)})` : "";
      node.classList.toggle("on", Boolean(side && chosen(j)));
      node.classList.toggle("linked", Boolean(side && belongs(j)));
    });
  const column =
    side === "source" ? Math.max(...Array.from({ length: rows }, (_, t) => data[t * columns + i]), 1e-6) : 1;
  mark(
    item.sources,
    (j) => (side === "target" ? data[i * columns + j] : 0),
    (j) => side === "source" && j === i,
    (j) => side === "target" && links.some(([s, t]) => s === j && t === i),
  );
  mark(
    item.targets,
    (j) => (side === "source" ? data[j * columns + i] / Math.max(column, 0.5) : 0),
    (j) => side === "target" && j === i,
    (j) => side === "source" && links.some(([s, t]) => s === i && t === j),
  );
  if (linked && !state.version) pointInFilm(side, i);
  const { kind, level, view } = state.panel;
  const byWord = kind === "alignment" || (kind === "cross" && level === "word" && view === "map");
  if (linked && byWord && item === state.items[state.current])
    state.link.point?.(side === "target" ? i : null, side === "source" ? i : null);
}
/** Finds the source word under the pointer by the mirror behind the text area, which has a span per word. */
export function pointAtSource(event) {
  const item = state.items[state.current];
  if (!item?.sources || item.leg || $("text").value !== state.done?.text) return;
  const found = wordUnder(item.sources, event);
  highlight(item, found === null ? undefined : "source", found);
}

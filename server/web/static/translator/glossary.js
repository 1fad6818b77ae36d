// The glossary of translations: one of the server's, or pairs that are typed in. The choice and the pairs are kept on this
// device for each pair of languages.
import { $, el, onText } from "../common/dom.js";
import { ask } from "../common/server.js";
import { keep, kept } from "./memory.js";
import { say } from "./messages.js";

const OWN = "own",
  PAUSE = 300,
  LONGEST = 300, // characters of a term
  NAMED = 3,
  CLIPPED = 60;
let served = [],
  source = "",
  target = "",
  timer = 0;

const pair = () => `${source}-${target}`;
const chosen = () => kept("glossary", {})[pair()] || "";
const typed = () => kept("pairs", {})[pair()] || "";
const put = (name, value) => keep(name, { ...kept(name, {}), [pair()]: value });
const base = (code) => code.toLowerCase().split("-")[0];

/** Returns the pairs of a text with one in each line, term = translation, and the lines that are not used, [[number, line]]. */
function read(text) {
  const pairs = new Map(),
    unused = [];
  text.split("\n").forEach((whole, i) => {
    const line = whole.trim(),
      at = line.search(/[=\t→]/),
      terms = at > 0 ? [line.slice(0, at).trim(), line.slice(at + 1).trim()] : [];
    const fits = terms[1] && terms.every((term) => [...term].length <= LONGEST);
    if (fits && !pairs.has(terms[0])) pairs.set(...terms);
    else if (line) unused.push([i + 1, line]);
  });
  return { pairs: [...pairs], unused };
}

/** Returns the parameter `glossary` of a request: an id, or pairs; undefined for none. */
export function glossary() {
  if (chosen() !== OWN) return chosen() || undefined;
  const { pairs } = read(typed());
  return pairs.length ? pairs : undefined;
}

/** Shows the glossaries of two languages. */
export function drawGlossary(from = source, to = target) {
  [source, target] = [from, to];
  const fits = ({ source_lang, target_lang }) => source_lang === base(from) && target_lang === base(to);
  const found = served.filter(({ dictionaries }) => dictionaries.some(fits));
  const missing = chosen() && chosen() !== OWN && !found.some(({ glossary_id }) => glossary_id === chosen());
  $("terms").replaceChildren(
    el("option", { value: "" }, say("noGlossary")),
    el("option", { value: OWN }, say("ownTerms")),
    ...found.map(({ glossary_id, name }) => el("option", { value: glossary_id }, name)),
    ...(missing ? [el("option", { value: chosen() }, say("storedGlossary"))] : []),
  );
  $("terms").value = chosen();
  $("pairs").value = typed();
  $("own").hidden = chosen() !== OWN;
  drawUse();
}
/** Shows whether there is a glossary, and which lines of the own one are not used. */
function drawUse() {
  const { unused } = read(typed()),
    clip = (line) => (line.length > CLIPPED ? `${line.slice(0, CLIPPED)}…` : line);
  $("glossary").classList.toggle("used", Boolean(glossary()));
  $("unused").hidden = !unused.length || chosen() !== OWN;
  $("unused").textContent = [
    ...unused.slice(0, NAMED).map(([number, line]) => say("unusedLine", number, clip(line))),
    ...(unused.length > NAMED ? ["…"] : []),
    say("lineRule", LONGEST),
  ].join(" ");
}

/** Begins to listen. `changed()` is called when translations would have other terms. */
export function beginGlossary(changed) {
  $("glossary").addEventListener("toggle", async () => {
    if (!$("glossary").open) return;
    served = await ask("/v3/glossaries").then(
      ({ glossaries }) => glossaries,
      () => [],
    );
    drawGlossary();
  });
  $("terms").onchange = () => {
    put("glossary", $("terms").value);
    drawGlossary();
    if ($("terms").value === OWN) $("pairs").focus();
    changed();
  };
  onText($("pairs"), ({ isComposing }) => {
    clearTimeout(timer);
    if (isComposing) return;
    put("pairs", $("pairs").value);
    timer = setTimeout(() => {
      drawUse();
      changed();
    }, PAUSE);
  });
}

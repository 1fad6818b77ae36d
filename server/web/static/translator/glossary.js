// The glossary of translations: one of the server's, or pairs that are typed in. The choice and the pairs are kept on this
// device for each pair of languages.
import { el } from "../common/dom.js";
import { ask } from "../common/server.js";
import { keep, kept } from "./memory.js";
import { say } from "./messages.js";

const $ = (id) => document.getElementById(id);
const OWN = "own",
  PAUSE = 300;
let served = [],
  source = "",
  target = "",
  timer = 0;

const pair = () => `${source}-${target}`;
const chosen = () => kept("glossary", {})[pair()] || "";
const typed = () => kept("pairs", {})[pair()] || "";
const put = (name, value) => keep(name, { ...kept(name, {}), [pair()]: value });
const base = (code) => code.toLowerCase().split("-")[0];

/** Returns the pairs of a text with one in each line: term = translation. Other lines are left out. */
const pairsOf = (text) =>
  text
    .split("\n")
    .map((line) => /^\s*(.+?)\s*[=\t→]\s*(.+?)\s*$/.exec(line))
    .filter(Boolean)
    .map(([, term, translation]) => [term, translation]);

/** Returns the parameter `glossary` of a request: an id, or pairs; null for none. */
export function glossary() {
  if (chosen() !== OWN) return chosen() || null;
  const pairs = pairsOf(typed());
  return pairs.length ? pairs : null;
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
  $("glossary").classList.toggle("used", Boolean(glossary()));
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
  $("pairs").oninput = () => {
    put("pairs", $("pairs").value);
    $("glossary").classList.toggle("used", Boolean(glossary()));
    clearTimeout(timer);
    timer = setTimeout(changed, PAUSE);
  };
}

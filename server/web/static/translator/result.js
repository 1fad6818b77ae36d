// The translation that is shown: its sentences, and other translations of a sentence to take over.
import { $, el, has, percent } from "../common/dom.js";
import { ask, query } from "../common/server.js";
import { withSpans } from "../common/words.js";
import { languageName, nameInSentence, say } from "./messages.js";
import { attend, mark } from "./word_pairs.js";

const NUMBER = 3,
  NAMED = 10,
  RERANKED = 2000;
/** Returns the parameters of good translations of a text that is short enough to wait for them. */
export const quality = (text) => (text.length > RERANKED ? {} : { rerank: true });
/** `done` is {text, from, to} of the translation that is shown or null; `detected` is {language, confidence} that the
 * server found or null, `items` are the sentences. */
export const shown = { done: null, detected: null, items: [], chosen: null };

/** Shows an answer of POST /translate with details. */
export function show(done, answer) {
  const { route, sentences } = answer.details,
    last = sentences[sentences.length - 1] || [],
    direct = sentences.length === 1;
  shown.done = done;
  shown.detected = answer.detectedLanguage || null;
  shown.items = last.map((sentence, number) => ({
    id: answer.id,
    number,
    legs: sentences.length,
    from: route[0]?.source,
    to: done.to,
    copied: sentence.copied,
    sentence,
    source: sentence.source,
    target: sentence.target,
    sourceSpan: el("span.s", sentence.source),
    targetSpan: el("span.s", sentence.target),
  }));
  const { items } = shown;
  items.forEach((item) => {
    item.targetSpan.addEventListener("click", () => choose(item));
    flag(item, reasons(item.sentence), item.sentence.confidence);
  });
  $("output").replaceChildren(
    ...withSpans(
      answer.translatedText,
      items.map((item) => [item.target, item.targetSpan]),
    ),
  );
  $("mirror").replaceChildren(
    ...withSpans(done.text, direct ? items.map((item) => [item.source, item.sourceSpan]) : []),
    "\n",
  );
  $("output").lang = done.to;
  nameDetected();
  const via = answer.details.pivot ? [say("via", nameInSentence(answer.details.pivot))] : [];
  $("route").textContent = [...via, ...new Set(route.map((step) => step.model))].join(" · ");
  const sure = items.map(({ sentence }) => sentence.confidence);
  $("confidence").textContent = say("confidence", listed(sure.map((share) => (share === null ? "–" : percent(share)))));
  $("confidence").hidden = sure.every((share) => share === null);
  $("warning").textContent = warning(done.text, sentences);
  $("warning").hidden = !$("warning").textContent;
  $("status").textContent = answer.translatedText.slice(0, 400);
  choose(items.find((item) => !item.copied) || null, false);
  outdated(false);
}
/** Returns what may be wrong with a sentence, in the language of the interface. A sentence that was copied although it has
 * words, not only numbers and addresses, is named too. */
function reasons({ source, copied, flags = [] }) {
  const words = source.replace(/\S*[@./:]\S+/g, "");
  return [...new Set([...(copied && /\p{L}/u.test(words) ? ["copied"] : []), ...flags])].map((name) =>
    say(name === "copied" ? "copied_source" : name),
  );
}
/** Returns each reason with the numbers of its sentences. Without sentences the text was copied as a whole. */
function warning(text, legs) {
  const { language, confidence } = shown.detected || {};
  if (!legs.length && confidence && !serves(language))
    return say("unserved", nameInSentence(language)) + " " + say("whole");
  if (!legs.length)
    return reasons({ source: text, copied: true })
      .map((reason) => reason.charAt(0).toUpperCase() + reason.slice(1))
      .join("");
  const numbers = new Map();
  for (const leg of legs)
    leg.forEach((sentence, i) =>
      reasons(sentence).forEach((reason) => numbers.set(reason, (numbers.get(reason) || new Set()).add(i + 1))),
    );
  return [...numbers].map(([reason, found]) => say("flagged", listed([...found]), reason)).join(" ");
}
/** Returns whether a model translates from a language. */
export const serves = (language) => has($("from"), language);
const listed = (numbers) => numbers.slice(0, NAMED).join(", ") + (numbers.length > NAMED ? ", …" : "");
/** Underlines a sentence that has reasons, which are its tooltip with its confidence. */
function flag(item, found, confidence = null) {
  item.targetSpan.classList.toggle("flagged", found.length > 0);
  item.targetSpan.title = [...(confidence === null ? [] : [say("confidence", percent(confidence))]), ...found].join(
    " ",
  );
}
/** Removes the translation. */
export function clear() {
  shown.done = shown.detected = shown.chosen = null;
  shown.items = [];
  for (const id of ["output", "mirror", "alternatives"]) $(id).replaceChildren();
  for (const id of ["route", "warning", "status"]) $(id).textContent = "";
  nameDetected();
  outdated(true);
  $("output").classList.remove("busy");
}
/** Writes the detected language into the first choice of the source languages. */
export function nameDetected() {
  const { language, confidence } = shown.detected || {};
  $("detected").textContent = confidence ? say("detected", languageName(language)) : "";
  $("from").options[0].textContent = $("detected").textContent || say("detect");
}
/** Marks the translation as that of another text than the one in the field: it cannot be used. */
export function outdated(is) {
  mark();
  $("output").classList.toggle("busy", is);
  $("output").setAttribute("aria-busy", is);
  $("output").inert = $("mirror").hidden = is;
  $("copy").hidden = is || !shown.done;
  for (const id of ["others", "inside"]) $(id).hidden = is || !shown.chosen;
  if (!is) return;
  for (const id of ["alternatives", "doubt", "warning", "offer", "confidence"]) $(id).hidden = true;
}
/** Chooses the sentence whose alternatives are shown. */
export function choose(item, marked = true) {
  shown.chosen = item;
  lead();
  $("alternatives").hidden = true;
  document.querySelectorAll(".s.chosen").forEach((node) => node.classList.remove("chosen"));
  if (marked && shown.items.length > 1) item.targetSpan.classList.add("chosen");
}
/** Links to the chosen sentence in the explorer, with the words taken. */
function lead() {
  const { done, detected, items, chosen } = shown,
    s = items.filter(({ copied }) => !copied).indexOf(chosen), // the explorer has no others
    fork = chosen?.fork?.join(" ");
  const text = { q: done.text.slice(0, 5000), source: detected?.language || done.from, target: done.to };
  $("inside").href = "attention#" + query({ ...text, options: JSON.stringify(done.options), s: s || null, fork });
}

/** Shows other translations of the chosen sentence. */
export async function showAlternatives(took) {
  const item = shown.chosen,
    { done } = shown;
  if (!item || !done) return;
  const answer = await ask("/translate", {
    body: {
      q: item.legs > 1 ? done.text : item.source,
      source: item.legs > 1 ? done.from : item.from,
      target: item.to,
      alternatives: NUMBER,
      ...done.options,
    },
  });
  if (shown.done !== done || shown.chosen !== item) return;
  const others = [...new Set([item.sentence.target, answer.translatedText, ...answer.alternatives])].filter(
    (text) => text !== item.target,
  );
  offer(
    item,
    others.map((text) => [text, () => take(item, text, took)]),
  );
}
/** Shows texts [[text, take, ...notes], ...] that may stand in a sentence. */
export function offer(item, choices) {
  if (shown.items.length > 1) item.targetSpan.classList.add("chosen");
  $("alternatives").hidden = false;
  $("alternatives").replaceChildren(
    ...choices.map(([text, onclick, ...notes]) =>
      el("li", el("button", { type: "button", lang: item.to, dir: "auto", onclick }, text, ...notes)),
    ),
    ...(choices.length ? [] : [el("li", say("none"))]),
  );
  $("alternatives").querySelector("button")?.focus();
}
/** Takes over another translation of a sentence, which may begin with the pieces `fork`. */
export function take(item, text, took, fork = null) {
  mark();
  Object.assign(item, { target: text, taken: item.legs === 1, attended: item.legs > 1, targets: null, fork });
  item.targetSpan.textContent = text;
  flag(item, []);
  lead();
  $("alternatives").hidden = true;
  $("status").textContent = text;
  $("others").focus();
  if (!fork) attend(item);
  took();
}

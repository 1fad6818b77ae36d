// The translator: translates while one types. Uses the public API of this server only.
import { $, arrow, el, guarding, has, onSend, onText, shareOf, skipLink, textButton } from "../common/dom.js";
import { aborted, ask, copyText, query, repeating } from "../common/server.js";
import { acceptFiles, drawFiles } from "./files.js";
import { beginGlossary, drawGlossary, glossary } from "./glossary.js";
import { drawHistory, keep, kept, rememberTranslation } from "./memory.js";
import { explained, interfaceLanguage, languageName, nameInSentence, number, said, say, speak } from "./messages.js";
import { beginModels, chooseModel, drawModel } from "./models.js";
import { choose, clear, nameDetected, outdated, quality, serves, show, showAlternatives, shown } from "./result.js";
import { attendFirst, mark, pointAt, step } from "./word_pairs.js";

const PAUSE = 300,
  SETTLED = 1500,
  LINK = 2000,
  LONG = 1500,
  CERTAIN = 98,
  KEPT = 1_000_000; // browsers refuse states of some MB
let languages = [],
  limit = Infinity,
  busy = new AbortController(),
  timer = 0,
  settled = 0,
  problem = null,
  turned = null,
  wished = ""; // the chosen target; only a text that is in it already is translated into another one

function showError(error) {
  if (aborted(error)) return;
  problem = error;
  $("error").replaceChildren(...(error ? explained(error) : []));
  $("again").hidden = !error?.passing || shown.done !== null;
  $("error").hidden = !error;
  repeat(shown.done ? null : error);
}
const repeat = repeating(() => guard(translate)());
/** Writes the words of a link instead of those of the translation. */
const fork = async (forks) => forks.length && (await import("./word_choice.js")).fork(forks, took);
const guard = guarding(showError);

// -- translating --------------------------------------------------------------
/** Translates the text of the field, with the words `forks` of a link. */
async function translate(forks = []) {
  if (!languages.length) return load();
  const text = $("text").value;
  clearTimeout(timer);
  if ($("text").composing) return;
  busy.abort();
  showError(null);
  const controller = (busy = new AbortController());
  remember(forks);
  if (!text.trim()) return clear();
  outdated(true);
  try {
    if ([...text].length > limit) throw said("long", number(limit));
    const options = { ...choices(), ...quality(text) },
      done = { text, from: $("from").value, to: $("to").value, options };
    const answer = await ask("/translate", {
      body: { q: text, source: done.from, target: done.to, details: true, ...options },
      signal: controller.signal,
      progress: text.length > LONG && shareOf($("progress"), text.length),
    });
    const other = turned !== text && otherTarget(writtenIn(text, answer));
    if (other) {
      turned = text;
      $("to").value = other;
      drawGlossary($("from").value, other);
      return translate(forks);
    }
    show(done, answer);
    model();
  } catch (error) {
    if (busy === controller) clear();
    throw error;
  } finally {
    if (busy === controller) $("progress").hidden = true;
  }
  settled = setTimeout(store, SETTLED);
  await Promise.all([
    offer(shown.done, controller.signal),
    attendFirst(shown.items, controller.signal).then(() => fork(forks)),
  ]);
}
/** Returns the parameters of the reader's choices: terms and form of address. */
const choices = () => ({ glossary: glossary(), ...(form() && { formality: `prefer_${form()}` }) });
const form = () => ($("formality").hidden ? "" : $("formality").value);
/** Offers the language that the text is certainly in, if another one is chosen, or says that no model translates it. */
async function offer({ text, from }, signal) {
  if (from === "auto") return;
  const [found] = await ask("/detect", { body: { q: text }, signal }).catch(() => []);
  const base = (code) => code.split("-")[0];
  if (signal.aborted || !found || found.confidence < CERTAIN || base(found.language) === base(from)) return;
  const name = nameInSentence(found.language);
  const change = guard(() => {
    languageLists(found.language);
    changed();
    return translate();
  });
  $("offer").replaceChildren(
    say("seems", name) + " ",
    serves(found.language) ? textButton(say("fromLanguage", name), change) : say("unserved", name),
  );
  $("offer").hidden = false;
}
/** Returns the language that the text is in. A copied text that is perhaps in the target language counts as written in it. */
function writtenIn(text, { detectedLanguage: found, translatedText }) {
  if (!found?.confidence) return null;
  const target = $("to").value,
    perhaps = found.alternatives?.some(({ language }) => language === target);
  return perhaps && translatedText.trim() === text.trim() ? target : found?.language;
}
/** Returns the target of a text in a language, if it is not the present one: the wished one, or another for a text in it. */
function otherTarget(language) {
  const target =
    language && preferred([...$("to").options].map(({ value }) => value).filter((code) => code !== language));
  return target === $("to").value ? null : target;
}
/** Returns the code of the list that the reader probably wants. */
const preferred = (codes) =>
  [wished, kept("target", ""), usual(), interfaceLanguage(), "en"].find((code) => codes.includes(code)) || codes[0];
const usual = () => (interfaceLanguage() === "en" ? "de" : "en");
/** Keeps a translation of which something was taken over. */
function took() {
  remember(shown.items.flatMap(({ number, fork }) => (fork ? [[number, ...fork].join(" ")] : [])));
  store();
}
const result = () => $("output").textContent;
function store() {
  clearTimeout(settled);
  if (!shown.done) return;
  rememberTranslation({ ...shown.done, result: result() });
  drawHistory(recall);
}
/** Translates soon; a text that an input method composes is not written yet. */
function typed({ isComposing }) {
  resize();
  clearTimeout(timer);
  clearTimeout(settled);
  if (!$("text").value.trim()) return isComposing || guard(translate)();
  if (shown.done) outdated($("text").value !== shown.done.text);
  if (!isComposing) timer = setTimeout(guard(translate), PAUSE);
}
function resize() {
  const { value } = $("text"),
    length = [...value].length;
  $("text").style.height = "auto";
  if (value) $("text").style.height = `${$("text").scrollHeight + 2}px`; // an empty field keeps its height of the first paint
  $("clear").hidden = !value;
  $("count").textContent = !length
    ? ""
    : limit < Infinity
      ? `${number(length)} / ${number(limit)}`
      : say("count", number(length));
}
function setText(text) {
  $("text").value = text;
  resize();
}

// -- languages ----------------------------------------------------------------
/** Fills the lists of languages and chooses `from` and `to` where the server has them. */
function languageLists(from = $("from").value, to = $("to").value) {
  const codes = new Set(languages.flatMap(({ code, targets }) => [code, ...targets]));
  const names = [...codes]
    .map((code) => [code, languageName(code)])
    .sort(([, a], [, b]) => a.localeCompare(b, interfaceLanguage()));
  const options = (chosen) =>
    names.filter(([code]) => chosen.has(code)).map(([code, name]) => el("option", { value: code }, name));
  const sources = new Set(
    languages.filter(({ code, targets }) => targets.some((target) => target !== code)).map(({ code }) => code),
  );
  $("from").replaceChildren(el("option", { value: "auto" }), ...options(sources));
  nameDetected();
  pick($("from"), from);
  const source = languages.find(({ code }) => code === $("from").value);
  const targets = new Set(source ? source.targets : languages.flatMap((language) => language.targets));
  targets.delete($("from").value);
  $("to").replaceChildren(...options(targets));
  pick($("to"), targets.has(to) ? to : preferred([...targets]));
  $("text").lang = source ? source.code : "";
  $("formality").hidden = !languages.some(
    ({ code, formality }) => (!source || code === source.code) && formality.includes($("to").value),
  );
  drawGlossary($("from").value, $("to").value);
  model();
}
/** Shows the model for the chosen languages, or from the detected one. */
function model() {
  const from = $("from").value === "auto" ? shown.detected?.language : $("from").value;
  chooseModel(languages, from, $("to").value);
}
function pick(list, code) {
  if (has(list, code)) list.value = code;
}
function swap() {
  const from = $("from").value === "auto" ? shown.detected?.language : $("from").value,
    text = result();
  if (!from || !has($("from"), $("to").value)) return null; // not a source
  languageLists($("to").value, from);
  if (text && !$("output").inert) setText(text);
  changed();
  return translate();
}
function changed() {
  keep("formality", $("formality").value);
  keep("source", $("from").value);
  keep("target", (wished = $("to").value));
}

// -- the URL and the history of this device -----------------------------------
/** Writes text and languages into the fragment of the URL, which browsers do not send to the server. A text that is too long
 * for a link is kept with the entry of the browser's history. `forks` are the words that were chosen, see word_choice.js. */
function remember(forks = []) {
  const { value } = $("text");
  history.replaceState(
    value.length > LINK && value.length <= KEPT ? value : null,
    "",
    value
      ? "#" +
          query({
            source: $("from").value,
            target: $("to").value,
            formality: form(),
            q: value.length <= LINK ? value : null,
            fork: forks,
          })
      : location.pathname,
  );
}
function recall({ text, from, to }) {
  languageLists(from, to);
  wished = to;
  setText(text);
  guard(translate)();
  $("text").focus();
}
function restore() {
  const wanted = new URLSearchParams(location.hash.slice(1) || location.search);
  wished = wanted.get("target") || kept("target", usual());
  $("formality").value = wanted.get("formality") ?? (wanted.has("q") ? "" : kept("formality", ""));
  languageLists(wanted.get("source") || kept("source", "auto"), wished);
  const text = wanted.get("q") || history.state || $("text").value; // what was typed before the page was ready
  if (!text) return null;
  setText(text);
  return translate(wanted.getAll("fork"));
}

// -- the page itself ----------------------------------------------------------
function buttons() {
  onText($("text"), typed);
  onSend($("text"), () => guard(translate)());
  $("translate").addEventListener("submit", (event) => event.preventDefault());
  const relist = () => {
    languageLists();
    changed();
    guard(translate)();
  };
  for (const id of ["from", "to", "formality"]) $(id).addEventListener("change", relist);
  $("swap").onclick = guard(swap);
  $("again").onclick = () => guard(translate)(); // phones have no Ctrl + Enter
  $("clear").onclick = () => {
    setText("");
    guard(translate)();
    $("text").focus();
  };
  $("copy").onclick = guard(async () => {
    store(); // at once: the page may be left before the text is copied
    await copyText(result());
    $("copy").textContent = $("status").textContent = say("copied");
    setTimeout(() => ($("copy").textContent = say("copy")), 1200);
  });
  $("others").onclick = guard(() => {
    showError(null);
    return showAlternatives(took);
  });
  skipLink();
  $("interface").onchange = () => {
    keep("interface", $("interface").value);
    useInterface($("interface").value);
  };
}
function pointing() {
  for (const [id, side] of [
    ["text", "source"],
    ["output", "target"],
  ]) {
    for (const event of ["pointermove", "pointerdown"])
      $(id).addEventListener(event, (at) => $("output").inert || pointAt(shown.items, side, at, busy.signal));
    $(id).addEventListener("pointerleave", () => mark());
  }
  const words = guard(async () => $("output").inert || (await import("./word_choice.js")).offer(took));
  $("output").addEventListener("click", words);
  $("output").addEventListener("keydown", (event) => {
    const by = arrow(event);
    if (event.key === "Escape") mark();
    if (event.key === "Enter") words();
    if (!by) return;
    event.preventDefault();
    const item = step(shown.items, by);
    if (item) choose(item);
  });
  $("output").addEventListener("blur", () => mark());
}
function useInterface(language) {
  speak(language);
  $("interface").value = interfaceLanguage();
  showError(problem);
  languageLists();
  drawModel();
  resize();
  drawFiles();
  drawHistory(recall);
}
async function begin() {
  // Links from the time when the explorer was at this address.
  if (/[#&](tab|kind|view)=/.test(location.hash)) return location.replace("attention" + location.hash);
  buttons();
  pointing();
  addEventListener(
    "hashchange",
    guard(() => (languages.length ? restore() : load())),
  );
  addEventListener("storage", ({ key }) => key === "translations" && drawHistory(recall)); // another tab changed it
  $("memory").addEventListener("click", () => clearTimeout(settled)); // deleted for good
  beginGlossary(guard(translate));
  useInterface(kept("interface", document.documentElement.lang));
  return load();
}
let loading = null;
/** Asks for the languages and settings and translates what is typed. After an error the next call asks again. */
function load() {
  return (loading ??= settle().catch((error) => {
    loading = null;
    throw error;
  }));
}
async function settle() {
  const [served, settings] = await Promise.all([ask("/languages"), ask("/frontend/settings")]);
  languages = served;
  limit = settings.charLimit > 0 ? settings.charLimit : Infinity;
  if (settings.filesTranslation)
    acceptFiles(settings.supportedFilesFormat, () => ({
      source: $("from").value,
      target: $("to").value,
      ...choices(),
    }));
  else $("choose").hidden = true;
  beginModels(settings.manageModels, async () => {
    languages = await ask("/languages");
    languageLists();
    await translate();
  });
  return restore();
}
guard(begin)();

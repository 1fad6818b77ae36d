// The explorer: translates a text and shows its attention. Uses the public API of this server only.
import {
  arrow,
  chance,
  decimal,
  el,
  has,
  onSend,
  onText,
  percent,
  segmented,
  shareOf,
  skipLink,
} from "../common/dom.js";
import { say } from "../common/sentences.js";
import { ask, download, parsed, query, repeating } from "../common/server.js";
import { interfaceLanguage } from "../translator/messages.js";
import { commandDialog, copyFrom, dialogButtons } from "./dialog.js";
import { chapters } from "./film/chapters.js";
import { stop } from "./film/film.js";
import { change, showFilm } from "./film/versions.js";
import { beginLanguage } from "./language.js";
import { opening, slides, toLesson } from "./opening.js";
import { attentionOf, forget, served } from "./results.js";
import { total, written } from "./search/scores.js";
import { $, direction, guard, name, permalink, recalled, remember, showError, state, TABS, unchosen } from "./state.js";
import { emptyPanels, tab } from "./tabs.js";
import { clear, firstExample, highlight, outdated, pointAtSource, show, step, words } from "./text.js";

const LONG = 1500;
let busy = null,
  timer = 0,
  starting = null;

// -- translating --------------------------------------------------------------
const choice = () => ({ from: $("from").value, to: $("to").value, beam: $("beam").value, options: state.options });
/** Returns a choice as parameters of POST /translate. */
function parameters({ from, to, beam, options }) {
  const { glossary, formality, rerank } = parsed(options);
  return { source: from, target: to, beam_size: Number(beam) || undefined, glossary, formality, rerank };
}
/** Translates the text of the field and opens a sentence. `typed`: the entry in the browser's history is replaced. */
async function translate({ typed = false, sentence = 0, asked } = {}) {
  const text = $("text").value;
  clearTimeout(timer);
  if ($("text").composing) return;
  busy?.abort();
  showError(null);
  if (!state.languages.length) return load();
  stop();
  if (!text.trim()) return clear();
  const controller = (busy = new AbortController());
  outdated();
  const began = performance.now();
  let paragraphs;
  try {
    paragraphs = await translated(text, controller.signal);
  } catch (error) {
    if (busy === controller) clear();
    throw error;
  } finally {
    if (busy === controller) $("progress").hidden = true;
  }
  const first = state.done === null || state.done.text === firstExample();
  state.done = { text, ...choice(), seconds: (performance.now() - began) / 1000 };
  if (!state.restoring) Object.assign(state, { leg: null, version: null, film: null, works: unchosen() });
  state.fresh = true;
  present(paragraphs);
  state.current = Math.min(sentence, Math.max(0, state.items.length - 1));
  if (asked && state.items.length) state.items[state.current].asked = asked;
  remember(typed && !first);
  await open(state.current);
}
/** Returns the lines of the text with their translations: {source, target, id, detected, route, legs}. `legs` has the
 * sentences of each leg. */
async function translated(text, signal) {
  const lines = text.split("\n"),
    wanted = lines.map((line, i) => [line, i]).filter(([line]) => line.trim());
  const paragraphs = lines.map((line) => ({ source: line, target: line, route: [], legs: [] }));
  const answer = await ask("/translate", {
    signal,
    progress: text.length > LONG && shareOf($("progress"), text.length),
    body: { q: wanted.map(([line]) => line), ...parameters(choice()), details: true },
  });
  wanted.forEach(([line, i], j) => {
    const details = answer.details[j];
    paragraphs[i] = {
      source: line,
      target: answer.translatedText[j],
      id: answer.id[j],
      detected: answer.detectedLanguage?.[j],
      route: details.route,
      legs: details.sentences,
    };
  });
  return paragraphs;
}
/** Shows a translation and the choice of its legs. */
function present(paragraphs) {
  forget();
  emptyPanels();
  outdated($("text").value !== state.done.text);
  state.steps = Math.max(1, ...paragraphs.map((paragraph) => paragraph.legs.length));
  state.leg = Math.min(state.leg ?? state.steps - 1, state.steps - 1);
  show(
    paragraphs,
    guard((index) => (index === state.current ? null : choose(index))),
  );
  const route = paragraphs.map((paragraph) => paragraph.route).find((route) => route.length > 1);
  $("legs").hidden = !route;
  if (!route) return;
  const names = [name(route[0].source), ...route.map((leg) => name(leg.target))];
  const choose = guard((leg) => {
    state.leg = leg;
    state.current = 0;
    present(paragraphs);
    document.querySelector("#legs [aria-checked=true]")?.focus();
    return open(0);
  });
  $("route").replaceChildren(
    el(
      "span",
      say(
        "No model here translates {0} to {1} directly. This was translated in two steps: {2}. Look inside the step",
        names[0],
        names[names.length - 1],
        names.join(" → "),
      ),
    ),
    segmented(
      say("Step"),
      route.map((leg, i) => [i, `${name(leg.source)} → ${name(leg.target)}`]),
      Math.min(state.leg, route.length - 1),
      choose,
    ),
  );
  $("between-label").textContent = names[1];
}

/** Opens another sentence; its film begins. */
function choose(index) {
  Object.assign(state, { version: null, film: null, fresh: true, works: unchosen() });
  return open(index);
}

// -- one sentence -------------------------------------------------------------
async function open(index) {
  const item = state.items[index];
  if (!item) return;
  state.current = index;
  markCurrent(item);
  sentences();
  showError(null);
  usable(false);
  let found;
  try {
    found = await attentionOf(item);
  } catch (error) {
    if (state.items[state.current] === item) unseen(); // nothing of another sentence stays under this one
    throw error;
  }
  if (state.items[state.current] !== item) return;
  usable(!$("output").inert);
  words(item, found);
  facts(found);
  const lab = guard((wanted) => tab(wanted, true)),
    compare = (text) => {
      item.asked = text;
      return lab("whynot");
    };
  chapters(item, found, {
    choose: guard((fork) => change({ fork })),
    without: guard((off) => change(off ? { off } : null)),
    open: lab,
  });
  await still(() => showFilm(item, found, compare));
  await Promise.all([tab(state.tab), opening(item, found)]);
  if (state.present || document.documentElement.dataset.present) await slides(state.present);
}
/** Shows film, chapters and laboratory, dimmed and without effect until they are those of the current sentence. */
function usable(is) {
  for (const id of ["inside", "show", "chapters", "opening"]) {
    $(id).hidden = false;
    $(id).inert = !is;
    $(id).classList.toggle("busy", !is);
  }
}
/** Removes film, chapters and laboratory. */
function unseen() {
  stop();
  emptyPanels();
  for (const id of ["inside", "opening"]) $(id).hidden = true;
  for (const id of ["film", "chapters"]) $(id).replaceChildren();
  $("facts").textContent = "";
}
/** Runs `work`, which may change the height of the film; the field below it keeps its place on the screen. */
async function still(work) {
  const top = () => $("translate").getBoundingClientRect().top,
    before = top();
  await work();
  if (document.activeElement === $("text")) scrollBy(0, top() - before);
}
function markCurrent(item) {
  document.querySelectorAll(".s.current").forEach((node) => node.classList.remove("current"));
  if (state.items.length > 1)
    for (const node of [item.source, item.target]) {
      node.classList.add("current");
      const sheet = node.closest(".sheet"),
        box = node.getBoundingClientRect(),
        frame = sheet?.getBoundingClientRect();
      if (frame && (box.top < frame.top || box.bottom > frame.bottom)) sheet.scrollTop += box.top - frame.top - 40;
    }
}
function sentences() {
  $("sentences").hidden = state.items.length < 2;
  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / (numbers.length || 1);
  $("sentences").replaceChildren(
    ...state.items.slice(0, 400).map(({ sentence }, i) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(i === state.current),
          title: `${sentence.source}\n${say("{0} per piece", chance(mean(sentence.hypotheses[0]?.token_scores || [])))}`,
          onclick: guard(() => choose(i)),
        },
        `${i + 1} ${sentence.source}`,
      ),
    ),
  );
}
function facts(found) {
  const mean = total(found) / found.target.scores.length,
    { seconds } = state.done;
  const { confidence } = state.items[state.current].sentence;
  $("facts").textContent = [
    seconds < 0.95 ? `${Math.round(1000 * seconds)} ms` : `${decimal(seconds, 1)} s`,
    found.model,
    ...Object.keys(parsed(state.done.options)),
    say("log-probability {0} ({1} per piece)", written(found), chance(mean)),
    ...(confidence === null ? [] : [say("probability that this is not wrong {0}", percent(confidence))]),
  ].join(" · ");
  $("served").textContent = say("Model: {0}.", found.model);
}
async function alternatives() {
  const item = state.items[state.current];
  showError(null);
  const answer = await ask("/translate", { body: { q: item.sentence.source, ...direction(item), alternatives: 4 } });
  if (state.items[state.current] !== item) return;
  const compare = (text) =>
    guard(() => {
      item.asked = text;
      return tab("whynot");
    });
  $("alternatives").hidden = false;
  $("alternatives").replaceChildren(
    ...answer.alternatives.map((text) =>
      el(
        "li",
        el(
          "button",
          { type: "button", title: say("Compare with the translation above"), onclick: compare(text) },
          text,
        ),
      ),
    ),
  );
}

// -- the page itself ----------------------------------------------------------
const english = () => state.languages.some(({ code }) => code === "en");
/** Lists the targets of the source. The translator had options for its languages. */
function targets() {
  state.options = "";
  const before = $("to").value,
    from = state.languages.find((language) => language.code === $("from").value);
  const codes = (from ? from.targets : state.languages.map((language) => language.code)).filter(
    (code) => code !== $("from").value,
  );
  $("to").replaceChildren(...codes.map((code) => el("option", { value: code }, name(code))));
  if (codes.includes(before)) $("to").value = before;
  $("text").lang = $("from").value === "auto" ? "" : $("from").value;
  $("output").lang = $("to").value;
}
function setText(text) {
  $("text").value = text;
  resize();
}
function resize() {
  $("text").style.height = "auto";
  const { scrollHeight, clientHeight } = $("text");
  if (scrollHeight > clientHeight) $("text").style.height = scrollHeight + 2 + "px"; // a short text keeps its height
}
/** Shows the view of the URL, with `typed` instead of its text; without a text, the first example where a model reads English. Translates
 * only if the text or the languages are others than those shown. */
async function restore(typed = "") {
  state.restoring += 1; // the next entry of the history may be asked for before this one is shown
  busy?.abort();
  try {
    const wanted = { ...recalled(), ...(typed && { text: typed, sentence: 0, asked: "" }) },
      set = (id, value) => has($(id), value) && ($(id).value = value);
    const bare = !wanted.text && english();
    if (bare) Object.assign(wanted, { text: firstExample(), from: "en", to: wanted.to ?? interfaceLanguage() });
    set("from", wanted.from);
    targets();
    set("to", wanted.to);
    targets();
    set("beam", wanted.beam); // without one, what was chosen before the page was ready stays
    setText(wanted.text);
    state.options = wanted.options;
    const done = JSON.stringify({ ...state.done, seconds: undefined }),
      same = done === JSON.stringify({ text: wanted.text, ...choice() });
    if (!same) await translate(wanted);
    if (!same && bare && state.tab === "works" && !state.present) await toLesson();
    if (!same) return;
    showError(null);
    present(state.paragraphs);
    state.current = Math.min(wanted.sentence, Math.max(0, state.items.length - 1));
    if (state.items.length) state.items[state.current].asked = wanted.asked;
    await open(state.current);
  } finally {
    state.restoring -= 1;
  }
}
function example(text) {
  $("from").value = english() ? "en" : "auto";
  targets();
  setText(text);
  return translate();
}
function swap() {
  const from =
      $("from").value === "auto" ? state.paragraphs.find((p) => p.detected)?.detected.language : $("from").value,
    text = $("output").textContent;
  if (!from || !has($("from"), $("to").value)) return null;
  $("from").value = $("to").value;
  targets();
  $("to").value = from;
  targets();
  if (text.trim() && !$("output").inert) setText(text);
  return translate();
}
function textEvents() {
  const soon = guard(translate);
  onText($("text"), ({ isComposing }) => {
    resize();
    clearTimeout(timer);
    if (state.done) outdated($("text").value !== state.done.text);
    if (!isComposing && $("text").value.length < LONG) timer = setTimeout(() => soon({ typed: true }), 450);
  });
  for (const event of ["pointermove", "pointerdown"]) $("text").addEventListener(event, pointAtSource);
  $("text").addEventListener(
    "pointerleave",
    () => state.items[state.current]?.soft && highlight(state.items[state.current]),
  );
  onSend($("text"), () => guard(translate)());
  $("output").addEventListener("keydown", (event) => {
    const by = arrow(event);
    if (!by) return;
    event.preventDefault();
    step(by);
  });
  $("output").addEventListener("blur", () => state.items[state.current]?.soft && highlight(state.items[state.current]));
  $("go").addEventListener("click", () => guard(translate)());
}
function buttons() {
  skipLink();
  for (const id of ["from", "to", "beam"])
    $(id).addEventListener("change", () => {
      if (id !== "beam") targets();
      guard(translate)();
    });
  $("swap").onclick = guard(swap);
  $("copy").onclick = () => copyFrom($("output").textContent, $("copy"));
  $("link").onclick = () => copyFrom(new URL(permalink(), location.href).href, $("link"));
  $("curl").onclick = () => commandDialog("POST", "/translate", { q: state.done.text, ...parameters(state.done) });
  $("report").onclick = guard(() =>
    served(state.items[state.current], (which) =>
      download("/attention?" + query({ ...which, format: "html" }), "attention.html"),
    ),
  );
  $("others").onclick = guard(alternatives);
  dialogButtons();
  $("lesson").onclick = (event) => {
    if (!state.items.length) return; // the link opens the first example
    event.preventDefault();
    toLesson();
  };
  document.querySelector(".tabs").addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) guard(tab)(TABS[(TABS.indexOf(state.tab) + move + TABS.length) % TABS.length], true);
  });
  TABS.forEach((each) => ($("tab-" + each).onclick = guard(() => tab(each))));
  for (const button of $("examples").querySelectorAll("button"))
    button.onclick = guard(() => example(button.textContent));
}
/** Loads the languages, then shows the view of the URL. A failed load is repeated with the next translation. */
function load() {
  return (starting ??= languages().finally(() => (starting = null)));
}
async function languages() {
  await beginLanguage();
  state.languages = await ask("/languages");
  const sources = state.languages.filter((language) => language.targets.some((target) => target !== language.code));
  $("from").append(
    el("option", { value: "auto" }, say("Detect language")),
    ...sources.map((language) => el("option", { value: language.code }, name(language.code))),
  );
  if (english()) $("from").value = "en";
  targets();
  await named();
  await restore($("text").value);
}
/** Replaces the id of a translation in the URL, as in a request for its numbers, by its text and its languages. */
async function named() {
  const { id, sentence, leg } = Object.fromEntries(new URLSearchParams(location.search));
  if (!id || location.hash) return;
  const found = await ask(
    "/attention?" + query({ id, sentence, leg, kind: "cross", layer: 0, head: "mean", format: "json" }),
  );
  history.replaceState(
    null,
    "",
    "attention#" + query({ q: found.source.text, source: found.language.source, target: found.language.target }),
  );
}
state.repeat = repeating(() => guard(state.done ? () => open(state.current) : translate)());
textEvents();
buttons();
addEventListener(
  "popstate",
  guard(() => (state.languages.length ? restore() : load())),
);
guard(load)();

// The state of the explorer, its errors, and its URL.
import { $, guarding } from "../common/dom.js";
import { aborted, query } from "../common/server.js";
import { explained, interfaceLanguage, languageName } from "../translator/messages.js";
import { start } from "./maps/panel.js";

export { $ };
export const TABS = ["works", "attention", "decoding", "whynot", "heads"];
/** `items` are the sentences of the chosen leg (null: the last of `steps`); `done` holds text and languages of the translation that is shown;
 * `options` are other
 * parameters of POST /translate, as JSON of the translator; `word` is the target word that the URL marks; `link.point(query, key)` marks words in the panel below the text. `version` is
 * the version of the sentence in the film (see film/versions.js), `film` the word at which the film stands (null: at its end),
 * `fresh` whether it has not been played, `who` the head of the first chapter. `works` is what is chosen in "How it works": `positions` and
 * `example` of the order of the words, `figures` whether the figures of the paper are drawn, the `distance` and `scheme` of their chapters,
 * `path`, the pieces, layers and the head that are followed, see paper/path.js. `present` is the slide that is shown, counted from 1 (null: none). `repeat(error)` tries again after an error that may pass. */
export const state = {
  languages: [],
  paragraphs: [],
  items: [],
  current: 0,
  leg: null,
  steps: 1,
  panel: start(),
  link: {},
  word: null,
  tab: "attention",
  masked: new Set(),
  done: null,
  options: "",
  restoring: 0,
  version: null,
  film: null,
  fresh: false,
  who: null,
  works: unchosen(),
  present: null,
  repeat: () => {},
};
/** Returns the state of "How it works" before anything is chosen. */
export function unchosen() {
  return { positions: true, figures: false, distance: null, path: null, scheme: null };
}
/** Returns the name of a language, by the server where the browser does not know it. */
export function name(code) {
  const own = languageName(code);
  return own === code ? state.languages.find((language) => language.code === code)?.name || code : own;
}

export function showError(error) {
  if (aborted(error)) return;
  const english = interfaceLanguage() === "en"; // the sentences of the server are English
  $("error").replaceChildren(...(!error ? [] : english ? [error.message] : explained(error)));
  $("error").hidden = !error;
  state.repeat(error);
}
export const guard = guarding(showError);

// -- parameters of requests about a sentence ----------------------------------
/** Returns the heads that are switched off. */
export const masked = () => [...state.masked].sort().join(",");
export const direction = (item) => ({ source: item.route.source, target: item.route.target });
/** Returns the parameters that name a sentence of the served translation. */
export const address = (item, extra = {}) => ({
  id: item.paragraph.id,
  sentence: item.number,
  leg: item.leg || null,
  ...extra,
});
/** Returns the parameters for the sentence with a given translation. */
export const pair = (item, translation, extra = {}) => ({ q: item.read, translation, ...direction(item), ...extra });

// -- the URL ------------------------------------------------------------------
/** Returns the view as a URL fragment. Browsers do not send fragments, so the text does not reach server logs. */
export function permalink() {
  const { kind, layer, head, level, view, special } = state.panel;
  const { text, from, to, beam, options } = state.done,
    { works } = state;
  return (
    "#" +
    query({
      q: text,
      source: from,
      target: to,
      beam,
      options,
      leg: state.steps > 1 ? state.leg : null,
      s: state.current || null,
      tab: state.tab,
      kind,
      layer,
      head,
      level,
      view,
      special: special ? 1 : null,
      word: state.items[state.current]?.word ?? state.word,
      off: masked(),
      trace: state.beam,
      asked: state.items[state.current]?.asked,
      film: state.film,
      who: state.who?.join("."),
      fork: state.version?.fork?.join(" "),
      hyp: state.version?.beam ? `${state.version.hypothesis}.${state.version.beam}` : null,
      broken: state.version?.off && 1,
      positions: works.positions ? null : 0,
      figures: works.figures ? 1 : null,
      distance: works.distance,
      path: works.path?.join("."),
      scheme: works.scheme,
      present: state.present,
    })
  );
}
/** Writes the view into the URL, without a query: as a new entry of the browser's history, or in place of the current one. */
export function remember(replace = false) {
  if (!state.done || "embed" in document.documentElement.dataset) return;
  const link = permalink();
  if (link === location.hash && !location.search) return;
  history[replace || state.restoring ? "replaceState" : "pushState"](null, "", location.pathname + link);
}
/** Reads the view of the URL into `state` and returns its text, languages and beam width. */
export function recalled() {
  const wanted = new URLSearchParams(`${location.hash.slice(1)}&${location.search.slice(1)}`);
  const among = (value, list, fallback) => (list.includes(value) ? value : fallback);
  const number = (value, fallback) => (/^\d{1,4}$/.test(value) ? Number(value) : fallback);
  const head = wanted.get("head");
  state.present = number(wanted.get("present"), null);
  state.tab = state.present ? "works" : among(wanted.get("tab"), TABS, "attention");
  state.leg = number(wanted.get("leg"), null);
  state.word = number(wanted.get("word"), null);
  state.panel = {
    kind: among(wanted.get("kind"), ["cross", "encoder", "decoder", "alignment"], "cross"),
    level: among(wanted.get("level"), ["word", "piece"], "word"),
    view: among(wanted.get("view"), ["map", "model", "figures"], "map"),
    layer: number(wanted.get("layer"), null),
    head: number(head, among(head, ["mean", "max", "rollout"], "mean")),
    special: wanted.get("special") === "1",
  };
  state.masked = new Set(
    (wanted.get("off") || "").split(",").filter((head) => /^(cross|encoder|decoder)\.\d{1,3}\.\d{1,3}$/.test(head)),
  );
  state.beam = [1, 2, 3, 4, 6, 8].find((beam) => String(beam) === wanted.get("trace"));
  state.film = number(wanted.get("film"), null);
  const pairOf = (value) => (/^\d{1,3}\.\d{1,3}$/.test(value) ? value.split(".").map(Number) : null);
  state.who = pairOf(wanted.get("who"));
  state.version = version(wanted);
  state.works = {
    positions: wanted.get("positions") !== "0",
    figures: wanted.get("figures") === "1",
    distance: number(wanted.get("distance"), null),
    path: /^\d{1,4}(\.\d{1,4}){4}$/.test(wanted.get("path")) ? wanted.get("path").split(".").map(Number) : null,
    scheme: among(wanted.get("scheme"), ["sinusoidal", "learned", "rope", "alibi", "restricted"], null),
  };
  return {
    asked: (wanted.get("asked") || "").slice(0, 2000),
    text: (wanted.get("q") || "").slice(0, 20000),
    from: wanted.get("source"),
    to: wanted.get("target"),
    beam: wanted.get("beam"),
    options: wanted.get("options") || "",
    sentence: number(wanted.get("s"), 0),
  };
}
/** Returns the version of the sentence that a URL names. */
function version(wanted) {
  const fork = (wanted.get("fork") || "").slice(0, 8000).split(" ").filter(Boolean),
    beam = /^(\d{1,2})\.(\d{1,2})$/.exec(wanted.get("hyp"));
  if (fork.length) return { fork };
  if (beam) return { hypothesis: Number(beam[1]), beam: Number(beam[2]) };
  return wanted.get("broken") && state.masked.size ? { off: masked() } : null;
}

// The model of the chosen pair: how good its publisher found it, and a stronger one to download where this server lets one.
import { $, el, textButton } from "../common/dom.js";
import { failure, query, unreachable, withKey } from "../common/server.js";
import { explained, interfaceLanguage, number, said, say } from "./messages.js";

const PAUSE = 1000;
let managed = false,
  served = [],
  pair = {},
  pulls = [],
  offered = null,
  problem = null,
  ready = null,
  timer = 0,
  renew = () => {};

/** Begins to show what is being downloaded. `manages` says whether this page may download models; `changed` is called when there
 * is a new one. */
export function beginModels(manages, changed) {
  managed = manages;
  renew = changed;
  return watch();
}
/** Shows the model for a pair of the languages of GET /languages. */
export async function chooseModel(languages, source, target) {
  if (served === languages && pair.source === source && pair.target === target) return;
  served = languages;
  pair = { source, target };
  offered = problem = null;
  drawModel();
  const asked = pair;
  if (!managed || !served.some(({ code }) => code === source)) return;
  const { available, stronger } = await send(`/admin/models?${query(asked)}`).catch(() => ({ available: [] }));
  if (asked !== pair) return;
  offered = available.find(({ name }) => name === stronger) || null;
  drawModel();
}
/** Writes the model, the offer and the downloads in the language of the interface. */
export function drawModel() {
  const language = served.find(({ code }) => code === pair.source),
    name = language?.models[pair.target],
    coming = pulls.some((pull) => pull.name === offered?.name && pull.state !== "failed");
  const offer = offered && !coming ? textButton(say("stronger", facts(offered)), get) : null;
  $("model").replaceChildren(
    ...(name ? [say("model", [name, ...scores(language.scores[pair.target])].join(" · "))] : []),
    ...(offer ? [" ", offer] : []),
    ...(problem ? [" ", el("span.bad", { role: "alert" }, ...explained(problem))] : []),
  );
  $("model").hidden = !$("model").hasChildNodes();
  $("pulls").replaceChildren(...pulls.map(line));
  if (ready) $("pulls").append(el("li", { role: "status" }, say("got", ready)));
  $("pulls").hidden = !$("pulls").hasChildNodes();
}
const megabytes = (bytes) => `${number(Math.round(bytes / 1e6))} MB`;
const facts = ({ bytes, publisher, license, scores: known }) =>
  [...(bytes ? [megabytes(bytes)] : []), publisher, license, ...scores(known)].join(", ");
const scores = (known = {}) =>
  known.bleu ? [say("scores", number(known.bleu), known.comet ? number(known.comet) : "–")] : [];
const REASONS = {
  noDisk: /disk|space/i,
  noModel: /not found|no model|not the name|404/i,
  noNetwork: /reach|connect|network|resolve|timed out|status/i,
};
/** Returns why a download failed, in the language of the interface; the sentence of the server, which is English, where its cause is not known. */
function why(error) {
  const [reason] = Object.entries(REASONS).find(([, words]) => words.test(error)) ?? [];
  return reason && interfaceLanguage() !== "en" ? el("small.bad", say(reason)) : el("small.bad", { lang: "en" }, error);
}
/** Returns the list item of a download. */
function line({ name, state, bytes, total, error }) {
  const failed = state === "failed";
  const bar = el("progress", {
    "aria-label": name,
    ...(state === "downloading" && total ? { max: total, value: bytes } : {}),
  });
  return el(
    "li",
    failed ? { role: "alert" } : {},
    say({ failed: "notGot", importing: "installing" }[state] || "getting", name),
    failed ? why(error) : bar,
    state === "downloading" && total ? el("span.note", `${megabytes(bytes)} / ${megabytes(total)}`) : null,
  );
}
async function get() {
  problem = ready = null;
  try {
    await send("/admin/models", { name: offered.name });
  } catch (error) {
    problem = error;
  }
  drawModel();
  return watch();
}
/** Asks for the downloads until there is none that will go on. */
async function watch() {
  clearTimeout(timer);
  const before = pulls,
    answer = await send("/ready").catch(() => null);
  if (answer) pulls = answer.pulls;
  const gone = before.find(({ name, state }) => state !== "failed" && !pulls.some((pull) => pull.name === name));
  if (gone) {
    ready = gone.name;
    await renew().catch(() => {});
  }
  drawModel();
  if (!answer || pulls.length) timer = setTimeout(watch, PAUSE);
}
/** Returns a JSON answer, also that of a server that is starting. */
async function send(path, body) {
  const type = body ? { "Content-Type": "application/json" } : {};
  const options = { method: body ? "POST" : "GET", headers: withKey(type), body: body && JSON.stringify(body) };
  const response = await fetch(`.${path}`, options).catch(() => Promise.reject(unreachable()));
  const answer = await response.json().catch(() => Promise.reject(said("unreachable")));
  if (!response.ok && !answer.pulls) throw failure(response.status, answer);
  return answer;
}

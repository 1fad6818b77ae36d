// The language of the interface.
import { el } from "../common/dom.js";
import { phrases, worded } from "../common/server.js";

/** The texts of the page by language and name. */
const TEXTS = JSON.parse(document.getElementById("texts").textContent);
let language = "en";
const KINDS = { 401: "key", 403: "key", 413: "large", 429: "busy", 503: "starting", 504: "slow" };

/** Returns a text of the interface with its arguments. */
export const say = (key, ...values) => TEXTS[language][key].replace(/\{(\d)\}/g, (_, i) => values[i]);
/** Returns an error with a text of the interface as its message. */
export const said = (key, ...values) => worded(() => say(key, ...values));
export const interfaceLanguage = () => language;
/** Returns the name of a language in the language of the interface, as within a sentence. */
export function nameInSentence(code) {
  try {
    return new Intl.DisplayNames(language, { type: "language" }).of(code);
  } catch {
    return code; // not a code that the browser knows
  }
}
/** Returns the name of a language with a capital letter, for lists. */
export function languageName(code) {
  const name = nameInSentence(code);
  return name === code ? code : name.charAt(0).toLocaleUpperCase(language) + name.slice(1);
}
export const number = (value) => value.toLocaleString(language);

/** Returns what to show for an error: a sentence in the language of the interface, and the server's own below it if the
 * cause is not in the first. */
export function explained({ message, status, seconds, sentence }) {
  if (!status) return [sentence ? sentence() : message];
  const kind = KINDS[status] || (status < 500 ? "refused" : "fault"),
    named = kind === "key" || kind === "busy";
  return [
    say(kind) + (seconds ? ` ${say("wait", seconds)}` : ""),
    ...(named ? [] : [" ", el("small", { lang: "en" }, message)]),
  ];
}

/** Writes all texts of the page in a language. */
export function speak(wanted) {
  language = wanted in TEXTS ? wanted : "en";
  document.documentElement.lang = language;
  Object.assign(phrases, { unreachable: say("unreachable"), key: `${say("key")} ${say("yourKey")}` });
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = say(node.dataset.text);
  for (const node of document.querySelectorAll("[data-label]"))
    node.setAttribute("aria-label", say(node.dataset.label));
  for (const node of document.querySelectorAll("[data-label][title]")) node.title = say(node.dataset.label);
  for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = say(node.dataset.placeholder);
}

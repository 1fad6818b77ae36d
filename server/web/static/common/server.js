// Requests to the server, at addresses relative to the page, as a proxy may serve it under a prefix. A server that requires an
// API key gets the key that the user typed in once; it is kept in localStorage.
import { el } from "./dom.js";

/** Sentences of this module, which a page may replace by those of its language. */
export const phrases = {
  unreachable: "The server cannot be reached.",
  key: "This server needs a valid API key. Your key:",
};
/** Returns an error whose message the function `sentence` returns, in the language that the page has when it is called. */
export const worded = (sentence) => Object.assign(new Error(sentence()), { sentence });
/** Returns the error of a request without an answer. */
export const unreachable = () =>
  Object.assign(
    worded(() => phrases.unreachable),
    { passing: true },
  );
/** An embedded page is of another one, for which it never uses the key of its reader. */
const embedded = "embed" in document.documentElement.dataset;
export const key = () => {
  if (embedded) return null;
  try {
    return localStorage.getItem("key");
  } catch {
    return null;
  }
};
export const withKey = (headers) => (key() ? { ...headers, Authorization: `Bearer ${key()}` } : headers);
/** Returns a query string without empty values. A list is a repeated parameter. */
export const query = (values) => {
  const given = Object.entries(values).flatMap(([name, value]) => [].concat(value).map((each) => [name, each]));
  return new URLSearchParams(
    given.filter(([, value]) => value !== null && value !== undefined && value !== ""),
  ).toString();
};
export const aborted = (error) => error?.name === "AbortError";

const PAUSE = 3;
const LONGEST = 3600; // a quota may be used up for a month, and a timer of more than 24 days runs at once
const PASSING = [429, 502, 503, 504];
/** Returns the error of an answer: the server's sentence, `status`, `seconds` to wait or null, and whether it is `passing`: the same
 * request may succeed later. */
export const failure = (status, answer, wait) =>
  Object.assign(new Error(answer?.error || answer?.message || `The server answered ${status}.`), {
    status,
    seconds: Number(wait) || null,
    passing: PASSING.includes(status),
  });
/** Asks for a key after a 403 to a request with the key `used`. Returns whether there is another one now. */
export function otherKey(used) {
  const given = !embedded && key() === used ? prompt(phrases.key) : null;
  try {
    if (given) localStorage.setItem("key", given.trim());
  } catch {
    // A browser that blocks storage keeps no key.
  }
  return key() !== used;
}

/** Returns a function that takes the last error or null, and calls `work` after one that is `passing`: at the time that the
 * server names, after some seconds, or when the device is online again. */
export function repeating(work) {
  let timer = 0;
  const stop = () => {
    clearTimeout(timer);
    timer = 0;
  };
  const go = () => {
    stop();
    work();
  };
  addEventListener("online", () => timer && go());
  return (error) => {
    stop();
    if (error?.passing) timer = setTimeout(go, 1000 * Math.min(LONGEST, error.seconds || PAUSE * (1 + Math.random())));
  };
}

/** Returns the JSON answer. Sends POST if there is a body. Throws the error of `failure`, one without `status` if there is
 * no answer, or an AbortError. With `progress`, the answer is a stream of events, and `progress(characters)` gets the number
 * of characters of the source that are translated. */
export async function ask(path, { body, signal, progress } = {}) {
  const used = key();
  let response, answer;
  try {
    const type = body ? { "Content-Type": "application/json" } : {};
    response = await fetch(`.${path}`, {
      method: body ? "POST" : "GET",
      signal,
      headers: withKey({ Accept: "application/json", ...type }),
      body: body && JSON.stringify(progress ? { ...body, stream: true } : body),
    });
    if (progress && response.ok) answer = await streamed(response, progress);
    else answer = parsed(await response.text());
    signal?.throwIfAborted(); // an aborted request must not look like an empty answer
  } catch (error) {
    if (aborted(error) || error.status) throw error;
    throw unreachable();
  }
  if (response.status === 403 && otherKey(used)) return ask(path, { body, signal, progress });
  if (!response.ok) throw failure(response.status, answer, response.headers.get("Retry-After"));
  return answer;
}
/** Returns the answer that ends a stream of events. */
async function streamed(response, progress) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "",
    read = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw unreachable();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) || [];
      if (name === "sentence") progress((read += JSON.parse(data).source.length));
      if (name === "translation") return JSON.parse(data);
      if (name === "error") throw failure(JSON.parse(data).status, JSON.parse(data));
    }
  }
}
/** Reads JSON, or {}. */
export function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** Fetches a file of the server and saves it under the name. */
export async function download(path, file) {
  const response = await fetch(`.${path}`, { headers: withKey({}) });
  if (!response.ok) throw failure(response.status, parsed(await response.text()));
  save(await response.blob(), file);
}
/** Saves a blob as a file. */
export function save(blob, file) {
  const link = el("a", { href: URL.createObjectURL(blob), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
/** Copies a text to the clipboard. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = el("textarea");
    field.value = text;
    (document.querySelector("dialog[open]") || document.body).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

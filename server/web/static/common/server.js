// Requests to the server. A server that requires an API key gets the key that the user typed in once; it is kept in
// localStorage.
import { el } from "./dom.js";

const key = () => {
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
  return new URLSearchParams(given.filter(([, value]) => value !== null && value !== undefined && value !== "")).toString();
};
export const aborted = (error) => error?.name === "AbortError";

/** Returns the JSON answer. Sends POST if there is a body. Throws an Error with one sentence, or an AbortError. */
export async function ask(path, { body, signal, unreachable = "The server cannot be reached." } = {}) {
  const used = key();
  let response, answer;
  try {
    const type = body ? { "Content-Type": "application/json" } : {};
    response = await fetch(path, {
      method: body ? "POST" : "GET", signal, headers: withKey({ Accept: "application/json", ...type }), body: body && JSON.stringify(body),
    });
    const text = await response.text();
    signal?.throwIfAborted(); // an aborted request must not look like an empty answer
    answer = parsed(text);
  } catch (error) {
    if (aborted(error)) throw error;
    throw new Error(unreachable);
  }
  if (response.status === 403) {
    const given = key() === used ? prompt(answer.error + " Your key:") : null;
    if (given) localStorage.setItem("key", given.trim());
    if (key() !== used) return ask(path, { body, signal, unreachable });
  }
  if (!response.ok) {
    throw Object.assign(new Error(answer.error || answer.message || `The server answered ${response.status}.`), { status: response.status });
  }
  return answer;
}
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** Fetches a file of the server and saves it under the name. */
export async function download(path, file) {
  const response = await fetch(path, { headers: withKey({}) });
  if (!response.ok) throw new Error(parsed(await response.text()).error || `The server answered ${response.status}.`);
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
    const field = el("textarea", {});
    field.value = text;
    (document.querySelector("dialog[open]") || document.body).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

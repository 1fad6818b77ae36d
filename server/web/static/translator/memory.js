// The browser's storage: the chosen languages and the latest translations. They are not sent to the server.
import { el } from "../common/dom.js";
import { languageName, say } from "./messages.js";

const ENTRIES = 50,
  LONGEST = 2000;

/** Returns a value that this device keeps, or the fallback. */
export function kept(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? fallback;
  } catch {
    return fallback;
  }
}
export function keep(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    /* full, or unavailable in private windows */
  }
}
const entries = () => kept("translations", []);

/** Adds a translation {text, result, from, to}. One of a text that was typed on replaces that of its beginning. */
export function rememberTranslation(entry) {
  if (!entry.text.trim() || entry.text.length > LONGEST) return;
  const grown = (old) =>
    old.from === entry.from &&
    old.to === entry.to &&
    (entry.text.startsWith(old.text) || old.text.startsWith(entry.text));
  const [latest, ...older] = entries();
  const others = [...(latest && !grown(latest) ? [latest] : []), ...older].filter(
    (old) => old.text !== entry.text || old.to !== entry.to,
  );
  keep("translations", [entry, ...others].slice(0, ENTRIES));
}

/** Draws the history. `choose(entry)` is called with the chosen translation. */
export function drawHistory(choose) {
  const box = document.getElementById("memory"),
    all = entries();
  const redraw = (left) => {
    keep("translations", left);
    drawHistory(choose);
  };
  box.hidden = !all.length;
  document.getElementById("forget").onclick = () => redraw([]);
  document.getElementById("entries").replaceChildren(
    ...all.map((entry, i) =>
      el(
        "li",
        el(
          "button.entry",
          { type: "button", onclick: () => choose(entry) },
          el("span.clip", { dir: "auto", lang: entry.from === "auto" ? "" : entry.from }, entry.text),
          el("b.clip", { dir: "auto", lang: entry.to }, entry.result),
        ),
        el(
          "button.quiet",
          {
            type: "button",
            "aria-label": `${say("remove")}: ${entry.text.slice(0, 40)}`,
            title: `${languageName(entry.to)} · ${say("remove")}`,
            onclick: () => redraw(all.filter((_, j) => j !== i)),
          },
          "✕",
        ),
      ),
    ),
  );
}

// A table of numbers, which scrolls where the screen is narrower than it.
import { el } from "../../common/dom.js";

/** Returns the table with the names of its columns and its rows (tr). `label` names it for assistive technology. */
export const table = (label, heads, rows) =>
  el(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": label },
    el(
      "table",
      { class: "numbers" },
      el("thead", {}, el("tr", {}, ...heads.map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))),
      el("tbody", {}, ...rows),
    ),
  );

// DOM helpers. Text is inserted as text nodes, never as markup.
import { say } from "./sentences.js";

/** Returns an element. The tag may have classes, as in "p.note". Attributes, which may be left out, are event listeners if they
 * begin with "on"; booleans set properties. */
export function el(tag, attributes, ...children) {
  if (attributes?.constructor !== Object) return el(tag, {}, attributes, ...children);
  const [name, ...classes] = tag.split("."),
    node = document.createElement(name);
  node.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && typeof value === "boolean") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Returns a button, such as a "quiet" one. */
export const textButton = (text, onclick, kind = "") => el("button", { type: "button", class: kind, onclick }, text);

/** Returns a paragraph, such as a "note". */
export const paragraph = (content, kind = "") => el("p", { class: kind }, content);
/** Returns a paragraph with a sentence of the page, see `say`; `noted` is a note. */
export const told = (...sentence) => paragraph(say(...sentence));
export const noted = (...sentence) => paragraph(say(...sentence), "note");

/** Returns a table of numbers, which scrolls where the screen is narrower than it, with the names of its columns and its rows (tr). `label` names it for assistive technology. */
export const table = (label, heads, rows) =>
  el(
    "div.wide",
    { tabindex: "0", role: "region", "aria-label": label },
    el(
      "table.numbers",
      el("thead", el("tr", ...heads.map((name) => (name ? el("th", { scope: "col" }, name) : el("td"))))),
      el("tbody", ...rows),
    ),
  );

/** Returns an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const formats = {};
/** Returns a number with its digits after the separator, as the language of the page writes it. */
export function decimal(x, digits) {
  const { lang } = document.documentElement,
    ends = { minimumFractionDigits: digits, maximumFractionDigits: digits },
    format = (formats[lang + digits] ??= new Intl.NumberFormat(lang, {
      ...ends,
      useGrouping: false,
      signDisplay: "negative",
    }));
  return format.format(x).replace("-", "−");
}
export const percent = (share) =>
  (share >= 0.001 ? decimal(100 * share, share >= 0.0995 ? 0 : 1) : `<${decimal(0.1, 1)}`) + "\u00a0%";
/** Returns the probability of a log-probability as text. */
export const chance = (score) => percent(Math.exp(score));
/** Returns the value of a CSS variable. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns whether a select element has an option. */
export const has = (list, value) => [...list.options].some((option) => option.value === value);
export const $ = (id) => document.getElementById(id);
/** Returns a function that shows the errors of `work`. */
export const guarding =
  (showError) =>
  (work) =>
  (...args) =>
    Promise.resolve()
      .then(() => work(...args))
      .catch(showError);
/** Returns the direction of an arrow key. */
export const arrow = ({ key }) => ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 })[key];
/** Makes the first link lead to the text; the fragment of the address stays. */
export function skipLink() {
  document.querySelector(".skip").onclick = (event) => {
    event.preventDefault();
    $("text").focus();
  };
}
/** Calls `send()` for Ctrl + Enter in a field. */
export const onSend = (field, send) =>
  field.addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && send());
/** Calls `changed(event)` when the text of a field changes. While an input method composes, `event.isComposing` and `field.composing` are
 * true: the text is not written yet. The last event comes after it. */
export function onText(field, changed) {
  for (const name of ["input", "compositionend"])
    field.addEventListener(name, (event) => {
      field.composing = event.isComposing;
      changed(event);
    });
}

/** Shows a progress bar of `length` characters and returns the function that sets how many are done. */
export function shareOf(bar, length) {
  bar.max = length;
  bar.value = 0;
  bar.hidden = false;
  return (characters) => (bar.value = characters);
}

/** Returns a radio group of options [[value, label], ...]. Arrow keys change the choice. */
export function segmented(label, options, value, choose) {
  const group = el("div.seg", { role: "radiogroup", "aria-label": label });
  const show = () =>
    [...group.children].forEach((button, i) => {
      button.setAttribute("aria-checked", options[i][0] === value);
      button.tabIndex = options[i][0] === value ? 0 : -1;
    });
  const pick = (i, focus) => {
    value = options[i][0];
    show();
    if (focus) group.children[i].focus();
    choose(value);
  };
  options.forEach(([, text], i) =>
    group.append(el("button", { type: "button", role: "radio", onclick: () => pick(i) }, text)),
  );
  group.addEventListener("keydown", (event) => {
    const move = arrow(event);
    if (!move) return;
    event.preventDefault();
    pick((options.findIndex(([v]) => v === value) + move + options.length) % options.length, true);
  });
  show();
  return group;
}

/** Returns a select element of options [[value, label], ...]. */
export function select(label, options, value, choose) {
  const node = el("select", { "aria-label": label, onchange: () => choose(options[node.selectedIndex][0]) });
  for (const [key, text] of options) node.append(el("option", { value: key, selected: key === value }, text));
  return node;
}

// Redraws a host when its width or the theme changes. One observer serves all hosts; references to hosts are weak.
const watched = new WeakMap();
const watchedHosts = new Set();
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const seen = watched.get(target);
    if (seen && Math.abs(seen.width - target.clientWidth) > 1) {
      seen.width = target.clientWidth;
      seen.draw();
    }
  }
});
/** Calls `draw` when the width of the host or the theme changes. */
export function observe(host, draw) {
  watched.set(host, { width: host.clientWidth, draw });
  watchedHosts.add(new WeakRef(host));
  sizes.observe(host);
}
addEventListener("themechange", () => {
  for (const reference of watchedHosts) {
    const host = reference.deref();
    if (host?.isConnected) watched.get(host)?.draw();
    else watchedHosts.delete(reference);
  }
});

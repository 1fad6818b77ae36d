// Slides for talks: the film and the chapters of the lesson, one at a time in the whole window, moved by keys alone.
import { el } from "../common/dom.js";
import { say } from "../common/sentences.js";
import { $, remember, state } from "./state.js";

const DIGITS = 900; // milliseconds in which a second digit belongs to the first
const BY = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 };
const WIDE = 900,
  SMALLEST = 0.3;
const slides = () => [$("film"), ...document.querySelectorAll("#panel-works .slide")];
const bar = el("div.row.note", { id: "slides", hidden: true });
let typed = "",
  last = 0;

/** Makes a slide that is higher than the window smaller. A phone scrolls instead. */
const fitting = new ResizeObserver(([{ target }]) => fit(target));
function fit(slide) {
  slide.style.zoom = 1;
  if (!state.present || innerWidth < WIDE) return;
  const over = () => document.documentElement.scrollHeight - innerHeight;
  for (let zoom = 1; over() > 0 && zoom > SMALLEST; slide.style.zoom = zoom) {
    const { height } = slide.getBoundingClientRect(); // a smaller slide is wider, and its drawings grow with it
    zoom *= Math.min(0.98, (height - over()) / height);
  }
}
/** Shows slide `number`, counted from 1; null leaves the slides. The URL names it. */
export function present(number) {
  const all = slides(),
    root = document.documentElement.dataset,
    began = !root.present;
  state.present = number && Math.max(1, Math.min(all.length, number));
  fitting.disconnect();
  delete root.blank;
  all.forEach((slide, i) => {
    slide.classList.toggle("now", i + 1 === state.present);
    slide.style.zoom = 1;
  });
  if (!state.present) {
    delete root.present;
    bar.hidden = true;
    if (document.fullscreenElement) document.exitFullscreen();
    return remember(true);
  }
  root.present = state.present;
  const now = all[state.present - 1];
  bar.hidden = false;
  $("slide").textContent = `${state.present} / ${all.length}`;
  $("keys").hidden = !began;
  scrollTo(0, 0);
  now.tabIndex = -1;
  now.focus({ preventScroll: true });
  fitting.observe(now);
  return remember(!began);
}
/** Fills the bar of this view, which also serves those who have no keyboard, and listens to keys. */
function begin() {
  const button = (text, label, onclick) => el("button.quiet", { type: "button", "aria-label": label, onclick }, text);
  const turn = (by) => () => present(state.present + by),
    help = () => ($("keys").hidden = !$("keys").hidden);
  bar.append(
    el(
      "span",
      { id: "keys", "aria-live": "polite" },
      say(
        "← → chapters · number: that chapter · ↑ ↓ scroll · Tab: controls · B: black · F: full screen · ?: keys · Esc: leave",
      ),
    ),
    button("‹", say("Chapter before"), turn(-1)),
    el("span", { id: "slide", "aria-live": "polite" }),
    button("›", say("Next chapter"), turn(1)),
    button("?", say("Keys"), help),
    button("✕", say("Leave the slides"), () => present(null)),
  );
  addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (!state.present || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const control = target.closest?.("input, select, textarea") || (key === " " && target.closest?.("button"));
    if (key === "Escape") present(null);
    else if (control) return;
    else if (key === "?") help();
    else if ("bB.".includes(key)) document.documentElement.toggleAttribute("data-blank");
    else if ("fF".includes(key)) document.documentElement.requestFullscreen?.().catch(() => {});
    else if (key === "Home" || key === "End") present(key === "Home" ? 1 : slides().length);
    else if (BY[key]) turn(BY[key])();
    else if (/^\d$/.test(key)) {
      typed = event.timeStamp - last < DIGITS ? typed + key : key;
      last = event.timeStamp;
      if (Number(typed)) present(Number(typed));
    } else return;
    event.preventDefault();
  });
  document.addEventListener("fullscreenchange", () => state.present && !document.fullscreenElement && present(null));
}
begin();
document.body.append(bar);

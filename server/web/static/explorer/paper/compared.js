// Recurrence, convolution and self-attention compared: table 1 of the paper for a length, and measured times.
import { el, noted, table, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { beside, chart, slider } from "./drawings.js";

const KERNEL = 3,
  WINDOW = 32;
const LAYERS = [
  {
    name: "Self-attention",
    cost: ["n² · d", (n, d) => n * n * d],
    steps: ["1", () => 1],
    path: ["1", () => 1],
  },
  {
    name: "Recurrence",
    cost: ["n · d²", (n, d) => n * d * d],
    steps: ["n", (n) => n],
    path: ["n", (n) => n],
  },
  {
    name: "Convolution of width k = {0}",
    cost: ["k · n · d²", (n, d) => KERNEL * n * d * d],
    steps: ["1", () => 1],
    path: ["logₖ n", (n) => Math.max(1, Math.ceil(Math.log(n) / Math.log(KERNEL) - 1e-9))],
    value: KERNEL,
  },
  {
    name: "Self-attention within r = {0} words",
    cost: ["r · n · d", (n, d) => Math.min(n, WINDOW) * n * d],
    steps: ["1", () => 1],
    path: ["n / r", (n) => Math.ceil(n / WINDOW)],
    value: WINDOW,
  },
];
const SOURCE =
  "Processor time in milliseconds for one layer with d = 512 (a GRU, a convolution of width 3, self-attention with 8 heads, fused), PyTorch, float32, one thread of an AMD EPYC, the least of 9 to 21 runs, 2026-11-26.";
const TIMES = [
  [32, 4.0, 0.6, 0.8],
  [64, 7.3, 1.2, 1.8],
  [128, 14.3, 2.4, 4.2],
  [256, 28.2, 4.7, 8.1],
  [512, 55.2, 8.8, 19.5],
  [1024, 111.3, 16.7, 51.0],
  [2048, 223.5, 34.2, 161.3],
];
const NAMES = ["Recurrence", "Convolution", "Self-attention"];

/** Draws the chapter for the width `d` of a model; the slider begins at the `n` pieces of the sentence. */
export function compared(host, d, n) {
  const view = el("div", { "aria-live": "polite" });
  const cell = (text) => el("td.n", text);
  const draw = (length) => {
    const count = ([formula, value], ...sizes) =>
      cell(formula === "1" ? "1" : `${formula} = ${value(...sizes).toLocaleString(document.documentElement.lang)}`);
    const rows = LAYERS.map(({ name, cost, steps, path, value }) =>
      el("tr", el("td", say(name, value)), count(cost, length, d), count(steps, length), count(path, length)),
    );
    view.replaceChildren(
      noted("For n = {0} words and d = {1} numbers a word:", length, d),
      table(
        say("Layers compared"),
        [say("layer"), say("products"), say("one after the other"), say("longest path between two words")],
        rows,
      ),
    );
  };
  host.replaceChildren(
    told(
      "A recurrence reads one word after the other: word n waits for all before it, and what it learns of the first has passed through n states. A convolution sees k neighbours at once and needs a stack of layers for distant words. Self-attention joins any two words in one step, and all of it can be computed at the same time; its price grows with n².",
    ),
    slider(say("Length n"), { min: 4, max: 2048, value: n }, draw),
    view,
  );
}
/** Draws the chapter of the measured times. */
export function times(host) {
  const curves = el("div.drawing");
  chart(
    curves,
    NAMES.map((_, i) => TIMES.map((row) => [row[0], row[i + 1]])),
    say("milliseconds by length n, measured"),
    { names: NAMES.map((name) => say(name)), log: true },
  );
  beside(
    host,
    [
      told(
        "Self-attention has fewer products than a recurrence as long as a sentence has fewer words than a word has numbers. The times are those of one thread, which does one thing after the other; even there a recurrence is slow, since it multiplies a matrix with one word at a time. On a GPU its steps also wait for each other, and all others run at once.",
      ),
      noted(SOURCE),
    ],
    curves,
  );
}

// The measured cost of self-attention by the length of a sentence. The numbers are those of the result that is named below
// the table.
import { decimal, el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { table } from "./drawings.js";

const WINDOW = 32;
const SOURCE = "Processor time in milliseconds, PyTorch, float32, one thread of an AMD EPYC, 2026-11-22.";
const ROWS = [
  [32, 2.064, 1.66, 2.677, 3.458],
  [64, 2.891, 2.813, 3.855, 5.229],
  [128, 6.235, 5.094, 7.725, 10.103],
  [256, 11.19, 10.02, 13.944, 17.528],
  [512, 26.548, 26.784, 25.389, 30.158],
  [1024, 76.289, 79.904, 53.202, 68.434],
  [2048, 226.192, 256.092, 98.954, 123.482],
];

/** Draws the table. `n` is the number of pieces of the sentence. */
export function cost(host, n) {
  const heads = [
    "n",
    say("all words"),
    say("window of {0}, masked", WINDOW),
    say("window of {0}, in blocks", WINDOW),
    say("feed-forward"),
  ];
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "Every word looks at every other in one step: no two words are more than one layer apart, and all places are computed at once. The price is n² products in each head: O(n² d). Within a window of r words it would be O(r n d), and n / r layers between distant words. Measured for one layer of the paper's base model (d = 512, 8 heads):",
      ),
    ),
    table(
      say("What attention costs"),
      heads,
      ROWS.map((row) => el("tr", {}, ...row.map((x, i) => el("td", { class: "n" }, i ? decimal(x, 1) : String(x))))),
    ),
    el(
      "p",
      {},
      say(
        "Up to some 500 words the products with the weights, which grow with n, cost more than the n² part; this sentence has {0} pieces. A window that only masks saves nothing: it computes all products. Only blocks save what the window promises, from about 1,000 words on.",
        n,
      ),
    ),
    el("p", { class: "note" }, say(SOURCE)),
  );
}

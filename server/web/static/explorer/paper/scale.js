// Why queries and keys are divided by the root of their width: the products and the softmax of one head, with and without.
import { decimal, el, svg } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { best } from "../maps/maps.js";
import { bits, dot, mean, softmax } from "./numbers.js";

const BINS = 40;
const deviation = (numbers) => {
  const middle = mean(numbers);
  return Math.sqrt(mean(numbers.map((x) => (x - middle) ** 2)));
};
/** Draws the chapter for the cross-attention head that aligns best. `vectors(kind, layer, head)` fetches its vectors. */
export async function scale(host, result, vectors) {
  const layer = best(result).layer,
    head = best(result).head || 0;
  const { query, key } = (await vectors("cross", layer, head)).vectors,
    D = query[0].length,
    root = Math.sqrt(D);
  const products = query.map((q) => key.map((k) => dot(q, k))),
    all = products.flat();
  const [raw, scaled] = [1, root].map((by) => ({
    spread: deviation(all) / by,
    entropy: mean(products.map((row) => bits(softmax(row.map((x) => x / by))))),
  }));
  const text = ({ spread, entropy }) =>
    say("standard deviation {0}, the softmax has {1} bits", decimal(spread, 2), decimal(entropy, 2));
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "Numbers with variance 1 give products of variance dₖ = {0}. The larger the products, the closer the softmax comes to choosing one word only, and its gradient vanishes. So they are divided by √{0} = {1}.",
        D,
        decimal(root, 2),
      ),
    ),
    el(
      "div",
      { class: "split even" },
      ...[
        ["q · k", all, raw],
        [`q · k ÷ √${D}`, all.map((x) => x / root), scaled],
      ].map(([name, numbers, found]) =>
        el(
          "div",
          { class: "card drawing" },
          el("h3", {}, name),
          histogram(numbers, Math.max(...all.map(Math.abs)), name),
          el("p", { class: "note" }, text(found) + "."),
        ),
      ),
    ),
    el(
      "p",
      { class: "note" },
      say(
        "The {0} products of this sentence in cross-attention layer {1}, head {2}. {3} words that are equally likely have {4} bits; a single one has 0.",
        all.length,
        layer,
        head,
        key.length,
        decimal(Math.log2(key.length), 2),
      ),
    ),
  );
}
function histogram(numbers, largest, title) {
  const W = 480,
    H = 150,
    counts = new Array(BINS).fill(0);
  for (const x of numbers) counts[Math.min(BINS - 1, Math.floor(((x / largest + 1) / 2) * BINS))] += 1;
  const top = Math.max(...counts),
    drawing = svg("svg", {
      viewBox: `0 0 ${W} ${H}`,
      width: "100%",
      role: "img",
      "aria-label": say("Histogram of {0} from {1} to {2}", title, decimal(-largest, 1), decimal(largest, 1)),
    });
  counts.forEach((count, i) =>
    drawing.append(
      svg("rect", {
        class: "bin",
        x: (i * W) / BINS + 1,
        width: W / BINS - 2,
        y: H - 24 - (count * (H - 34)) / top,
        height: (count * (H - 34)) / top,
      }),
    ),
  );
  for (const [share, anchor] of [
    [0, "start"],
    [0.5, "middle"],
    [1, "end"],
  ])
    drawing.append(
      svg(
        "text",
        { class: "soft", x: share * W, y: H - 6, "text-anchor": anchor },
        decimal((2 * share - 1) * largest, 1),
      ),
    );
  return drawing;
}

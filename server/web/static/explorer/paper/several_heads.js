// Why there are several heads: what each of a layer looks at for one word, and what their mean keeps of it.
import { decimal, el, percent, select } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { best, pick } from "../maps/maps.js";
import { table } from "./drawings.js";
import { bits, mean } from "./numbers.js";

const SHOWN = 3;

/** Draws the chapter for the layer of the cross-attention that aligns best and the target word `chosen`; null for the word for which the mean
 * loses most. `choose(word)` is called for another. */
export function severalHeads(host, result, chosen, choose) {
  const { layer } = best(result),
    heads = result.maps.cross.shape[1];
  const maps = [...Array(heads).keys(), "mean"].map((head) => pick(result, "cross", layer, head, "word", true));
  const [{ queries, keys, columns }] = maps,
    words = result.target.words.map((word, i) => [word, i]).filter(([word]) => word.start < word.end);
  const row = (map, q) => [...map.data.subarray(q * columns, (q + 1) * columns)];
  const view = el("div"),
    sentence = el("p", {});
  function show(q) {
    const rows = maps.map((map) => row(map, q)),
      each = rows.slice(0, -1).map(bits),
      blended = bits(rows[heads]);
    view.replaceChildren(
      table(
        say("Several heads"),
        [say("head"), say("looks at"), say("bits")],
        rows.map((weights, i) =>
          el(
            "tr",
            { class: i === heads ? "on" : "" },
            el("td", {}, i === heads ? say("mean of heads") : say("head {0}", i)),
            el("td", {}, strongest(weights)),
            el("td", { class: "n" }, decimal(i === heads ? blended : each[i], 2)),
          ),
        ),
      ),
    );
    sentence.textContent = say(
      "For “{0}” the heads of layer {1} look with {2} bits on average; their mean, which is all that a single head could pass on, with {3}.",
      queries[q],
      layer,
      decimal(mean(each), 2),
      decimal(blended, 2),
    );
  }
  const strongest = (weights) =>
    weights
      .map((weight, k) => [weight, keys[k]])
      .sort((a, b) => b[0] - a[0])
      .slice(0, SHOWN)
      .map(([weight, word]) => `${word} ${percent(weight)}`)
      .join(" · ");
  const first = words.some(([, i]) => i === chosen) ? chosen : widest();
  const choice = select(
    say("Word of the translation"),
    words.map(([word, i]) => [i, word.text]),
    first,
    (q) => {
      choose(q);
      show(q);
    },
  );
  /** Returns the word for which the mean loses most. */
  function widest() {
    const loss = (q) => bits(row(maps[heads], q)) - mean(maps.slice(0, heads).map((map) => bits(row(map, q))));
    return words.map(([, i]) => i).sort((a, b) => loss(b) - loss(a))[0] ?? 0;
  }
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "A head gives a word one set of weights. Several heads look at different words at once, and the next layer reads them all: a “bank” can look at the river with one head and at money with another. An average would mix them.",
      ),
    ),
    el("div", { class: "controls" }, el("label", { class: "note" }, say("What each head looked at for") + " ", choice)),
    view,
    sentence,
  );
  show(first);
}

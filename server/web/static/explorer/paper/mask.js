// The mask of the decoder: the products of one head before it, the mask that is added, and the softmax after it.
import { decimal, el, percent, select } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { dot, softmax } from "./numbers.js";

/** Draws the chapter for a head of the decoder's self-attention, `chosen` as [layer, head], null for the first. `vectors(kind, layer, head)`
 * fetches its vectors; `choose([layer, head])` is called for another. */
export function mask(host, result, vectors, chosen, choose) {
  const [layers, heads] = result.maps.decoder.shape,
    [queries, keys] = [result.target.pieces, result.decoder_input.pieces],
    n = queries.length;
  const all = Array.from({ length: layers * heads }, (_, i) => [Math.floor(i / heads), i % heads]);
  const cards = [say("Products q · k / √dₖ"), say("+ the mask"), say("Softmax: the weights")].map((title) => {
    const picture = el("div");
    return [picture, el("div", { class: "card" }, el("h3", {}, title), picture)];
  });
  const ahead = el("p", { "aria-live": "polite" });
  const number = (x) => (x === -Infinity ? "−∞" : decimal(x, 2));
  async function draw([layer, head]) {
    const { query, key } = (await vectors("decoder", layer, head)).vectors,
      hidden = (i, j) => (j > i ? -Infinity : 0);
    const scores = query.map((q) => key.map((k) => dot(q, k) / Math.sqrt(q.length))),
      masked = scores.map((row, i) => row.map((x, j) => x + hidden(i, j))),
      top = Math.max(...scores.flat().map(Math.abs));
    const lost = scores.map((row, i) => softmax(row).reduce((sum, w, j) => sum + (j > i ? w : 0), 0));
    const show = (at, rows, signed, more) =>
      heat(
        cards[at][0],
        { rows: n, columns: n, data: Float32Array.from(rows.flat()), queries, keys, signed },
        { label: cards[at][1].firstChild.textContent, verb: "→", ...more },
      );
    show(0, scores, true, { top, format: number, scale: number });
    const mask = scores.map((row, i) => row.map((_, j) => hidden(i, j)));
    show(1, mask, true, { format: number, scale: (x) => (x ? (x < -0.9 ? "−∞" : "") : "0") });
    show(2, masked.map(softmax), false);
    ahead.textContent = say(
      "Without the mask this head would give {0} of its weight to words that are not written yet, on average.",
      percent(lost.reduce((a, b) => a + b, 0) / n),
    );
  }
  const first = all.find(([layer, head]) => layer === chosen?.[0] && head === chosen?.[1]) ?? all[0];
  const failed = (error) => ahead.replaceChildren(el("span", { class: "error" }, error.message));
  const change = (option) => {
    choose(option);
    return draw(option).catch(failed);
  };
  const names = all.map((option) => [option, say("layer {0}, head {1}", ...option)]);
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "While it writes, the decoder may look at what is already there, never ahead. So that a whole sentence is trained in one pass, all products are computed, and −∞ is added to those above the diagonal: the softmax makes 0 of them.",
      ),
    ),
    el("div", { class: "controls" }, select(say("Head of the decoder"), names, first, change)),
    el("div", { class: "split three" }, ...cards.map(([, card]) => card)),
    ahead,
  );
  return draw(first).catch(failed);
}

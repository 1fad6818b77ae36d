// Chapters with the numbers of GET /encoder: what each layer of the encoder adds, and what the order of the words changes.
import { el, percent, segmented } from "../../common/dom.js";
import { table } from "./table.js";

const share = (x) => (x >= 0.0005 ? percent(x) : `${(100 * x).toExponential(0)} %`);
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
const row = (name, cells) => el("tr", {}, el("td", {}, name), ...cells.map((text) => el("td", { class: "n" }, text)));
const FIELDS = ["carried_past_attention", "attention", "carried_past_feed_forward", "feed_forward"];
const HEADS = ["layer", "carried past attention", "attention adds", "carried past feed-forward", "feed-forward adds"];

/** Draws the lengths of what the residual connections add and the share of active feed-forward units, a row a layer. */
export function sublayers(host, { layers }) {
  const numbers = (layer) => [...FIELDS.map((name) => mean(layer[name]).toFixed(1)), percent(mean(layer.active))];
  const rows = layers.map((layer, i) => row(String(i), numbers(layer)));
  host.replaceChildren(
    el("p", {}, "Lengths of the vectors, and units above 0, on average over the pieces of this sentence:"),
    table("Sublayers", [...HEADS, "active units"], rows),
  );
}

/** Draws what the words in reverse order change, with positions if `on`. `choose(on)` is called for the other. */
export function order(host, { source, order, position_fit: fit }, on, choose) {
  const view = el("div", { "aria-live": "polite" });
  const part = ([start, end]) => (/\s/.test(source.text[start - 1] ?? " ") ? " " : "") + source.text.slice(start, end);
  const places = order.pieces.filter((i) => source.offsets[i][0] < source.offsets[i][1]);
  const reversed = places.map((i) => part(source.offsets[i])).join("");
  function draw(on) {
    const moved = on ? order.moved : order.moved_without_positions;
    const most = share(Math.max(...moved));
    const fits = fit?.[on ? "with_positions" : "without_positions"].map((x) => x.toFixed(2)).join(", ");
    const change = on
      ? `with positions the encoder's outputs change by up to ${most} of their length.`
      : `without positions each piece has the same output in both, to ${most}: rounding. The encoder reads a bag of words.`;
    const cells = (i) => [String(i), String(order.pieces.indexOf(i)), share(moved[i])];
    view.replaceChildren(
      el("p", {}, `“${source.text}” and “${reversed.replace(/\s+/g, " ").trim()}”: ${change}`),
      table(
        "The order of the words",
        ["piece", "place", "place in the other order", "its output changes by"],
        source.pieces.map((piece, i) => row(piece, cells(i))),
      ),
      el("p", {}, `R² of a piece's place, by linear regression from embedding and layers: ${fits ?? "not measured"}.`),
    );
  }
  const change = (on) => {
    choose(on);
    draw(on);
  };
  const modes = [true, false].map((on) => [on, on ? "positions on" : "positions off"]);
  host.replaceChildren(
    el("p", {}, "Only positions tell “Cat eats fish” from “Fish eats cat”: attention itself has no order."),
    el("div", { class: "controls" }, segmented("Positions", modes, on, change)),
    view,
  );
  draw(on);
}

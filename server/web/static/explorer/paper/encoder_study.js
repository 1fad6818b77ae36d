// The chapter about positions: what the order of the words changes in the encoder, with the numbers of GET /encoder.
import { el, percent, segmented } from "../../common/dom.js";
import { table } from "./table.js";

const SHOWN = 40;
const share = (x) => (x >= 0.0005 ? percent(x) : `${(100 * x).toExponential(0)} %`);
const number = (text) => el("td", { class: "n" }, text);
function bar(share) {
  const fill = el("i");
  fill.style.width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
  return el("td", {}, el("span", { class: "share", "aria-hidden": "true" }, fill));
}

/** Draws how far the encoder's outputs move if the words stand in reverse order, with positions if `on`. `choose(on)` is called for the other. */
export function order(host, { source, order }, on, choose) {
  const view = el("div", { "aria-live": "polite" });
  const part = ([start, end]) => (/\s/.test(source.text[start - 1] ?? " ") ? " " : "") + source.text.slice(start, end);
  const places = order.pieces.filter((i) => source.offsets[i][0] < source.offsets[i][1]);
  const reversed = places.map((i) => part(source.offsets[i])).join("");
  function draw(on) {
    const moved = on ? order.moved : order.moved_without_positions,
      most = share(Math.max(...moved));
    const row = (piece, i) => {
      const cells = [String(i), String(order.pieces.indexOf(i)), share(moved[i])];
      return el("tr", {}, el("td", {}, piece), ...cells.map(number), bar(moved[i]));
    };
    view.replaceChildren(
      el(
        "p",
        {},
        "“",
        el("b", {}, source.text),
        "” and “",
        el("b", {}, reversed.replace(/\s+/g, " ").trim()),
        "”: ",
        on
          ? `with positions the encoder's outputs change by up to ${most} of their length.`
          : `without positions each piece has the same output in both, to ${most}: rounding. The encoder reads a bag of words.`,
      ),
      table(
        "The order of the words",
        ["piece", "place", "place in the other order", "its output changes by", ""],
        source.pieces.slice(0, SHOWN).map(row),
      ),
      source.pieces.length > SHOWN
        ? el("p", { class: "note" }, `The first ${SHOWN} of ${source.pieces.length} pieces.`)
        : "",
    );
  }
  const modes = [
    [true, "positions on"],
    [false, "positions off"],
  ];
  const change = (on) => {
    choose(on);
    draw(on);
  };
  host.replaceChildren(
    el(
      "p",
      {},
      "Attention has no order of its own: a head compares words, wherever they stand. Only positions tell “Cat eats fish” from “Fish eats cat”. Here the encoder reads the words in two orders.",
    ),
    el("div", { class: "controls" }, segmented("Positions", modes, on, change)),
    view,
  );
  draw(on);
}

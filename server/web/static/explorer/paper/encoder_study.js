// The chapter with the numbers of GET /encoder: what the order of the words changes.
import { decimal, el, percent, segmented, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

/** Writes what the words in reverse order change, with positions if `on`. `choose(on)` is called for the other. */
export function order(host, { source, order, position_fit: fit }, on, choose) {
  const view = el("div", { "aria-live": "polite" });
  const words = order.pieces.filter((i) => source.offsets[i][0] < source.offsets[i][1]).map((i) => source.pieces[i]);
  const reversed = words.join("").replaceAll("▁", " ").trim();
  function draw(on) {
    const most = percent(Math.max(...(on ? order.moved : order.moved_without_positions)));
    const fits = fit?.[on ? "with_positions" : "without_positions"].map((x) => decimal(x, 2)).join(", ");
    const change = on
      ? say("with positions the encoder's outputs change by up to {0} of their length.", most)
      : say("without positions they change by {0}, by rounding. The encoder reads a bag of words.", most);
    view.replaceChildren(
      told("“{0}” and “{1}”: {2}", source.text, reversed, change),
      told("R² of a piece's place, by linear regression from embedding and layers: {0}.", fits ?? say("not measured")),
    );
  }
  const change = (on) => {
    choose(on);
    draw(on);
  };
  const modes = [true, false].map((on) => [on, say(on ? "positions on" : "positions off")]);
  host.replaceChildren(
    told("Only positions tell “Cat eats fish” from “Fish eats cat”: attention itself has no order."),
    el("div.controls", segmented(say("Positions"), modes, on, change)),
    view,
  );
  draw(on);
}

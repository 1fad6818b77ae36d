// Ways to tell a model the places of words, with the numbers of GET /positions: sinusoids, learned positions, RoPE, ALiBi, a neighbourhood.
import { decimal, el, segmented, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { chart } from "./drawings.js";

const written = (x) => decimal(x, 2);
/** Returns [name, what is said, title of the curves] of each scheme. `c` is the configuration of a model, `r` the neighbourhood. */
const schemes = (c, r, middle) => ({
  sinusoidal: [
    say("Sinusoids"),
    say(
      c.positions === "sinusoidal_half"
        ? "Every position gets a vector: the first half sines, the second half cosines of different wavelengths. The product of two of them depends on their distance only."
        : "Every position gets a vector of sines and cosines of different wavelengths. The product of two of them depends on their distance only, so the model can compute how far apart two words are.",
    ),
    say("dot product with position {0}, by position", middle),
  ],
  learned: [
    say("Learned"),
    say(
      "A vector for every position is a weight like others. Before the training they are random, as here, and say nothing of distance: all of it must be learned, and a place behind the last one has no vector.",
    ),
    say("dot product with position {0}, by position", middle),
  ],
  rope: [
    "RoPE",
    say(
      "Nothing is added to the words. Every head turns each pair of numbers of a query and of a key by an angle that grows with the place (Su et al. 2021). Their product then depends on the distance only: here the products of one query with the same key, at all places.",
    ),
    say("product of a query and the same key, by distance"),
  ],
  alibi: [
    "ALiBi",
    say(
      "Nothing is added to the words, and nothing is turned. A head takes its slope m times the distance from every product (Press et al. 2022); with {0} heads m goes from {1} to {2}. So the first head looks near and the last one far, and sentences may be longer than those of the training.",
      c.heads,
      decimal(2 ** (-8 / c.heads), 3),
      decimal(2 ** -8, 3),
    ),
    say("weights if all products were equal, by distance; a curve a head"),
  ],
  restricted: [
    say("Neighbourhood"),
    say(
      "Each word sees only {0} places around it, as table 1 of the paper proposes for long texts: others get −∞. Distant words then meet only after several layers. Here the weights of equal products.",
      r,
    ),
    say("weights if all products were equal, by position"),
  ],
});
/** Draws the chapter of what a good code of places needs, with the numbers of the sinusoids of a model in an answer of GET /positions. */
export function criteria(host, { n, schemes: { sinusoidal } }) {
  const [products] = sinusoidal.curves, // of the vector in the middle with all
    middle = Math.floor(n / 2);
  host.replaceChildren(
    told(
      "A code of places must be unique for each place, bounded, the same in every sentence and without a longest length, and tell distances.",
    ),
    told(
      "The formula of the paper: PE(p, 2i) = sin(p / 10000^(2i / d)), PE(p, 2i + 1) = cos(p / 10000^(2i / d)). Here all {0} vectors have the length {1}, neighbours differ by {2} or more, and every number lies between −1 and 1.",
      n,
      written(Math.sqrt(products[middle])),
      written(Math.sqrt(2 * (products[middle] - products[middle + 1]))),
    ),
  );
}

/** Draws the scheme that is `chosen`, or that of the model with the configuration `c`. `answer` is that of GET /positions; `choose(name)` is
 * called for another. */
export function positions(host, c, answer, chosen, choose) {
  const picture = el("div"),
    curve = el("div.drawing"),
    text = el("p"),
    own = c.positions.startsWith("sinusoidal") ? "sinusoidal" : c.positions,
    middle = Math.floor(answer.n / 2),
    all = schemes(c, answer.r, middle);
  function draw(name) {
    const { columns, cells, curves } = answer.schemes[name],
      [label, about, title] = all[name],
      data = Float32Array.from(cells.flat()),
      top = data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    text.textContent = about + (name === own ? ` ${say("This is how the loaded model does it.")}` : "");
    const map = {
      rows: answer.n,
      columns: columns.length,
      data,
      queries: cells.map((_, p) => String(p)),
      keys: columns.map(String),
      signed: true,
    };
    heat(picture, map, {
      top,
      label,
      format: written,
      scale: written,
      verb: columns.length === answer.n ? "→" : say("dimension"),
    });
    chart(
      curve,
      curves.map((row) => [...row.entries()]),
      title,
    );
  }
  const first = all[chosen] ? chosen : all[own] ? own : "sinusoidal";
  const change = (name) => {
    choose(name);
    draw(name);
  };
  const modes = Object.entries(all).map(([name, [label]]) => [name, label]);
  host.replaceChildren(
    el("div.controls", segmented(say("How places are told"), modes, first, change)),
    text,
    el("div.split.even", el("div.card", picture), el("div.card", curve)),
  );
  draw(first);
}

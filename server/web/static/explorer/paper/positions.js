// Four ways to tell a model the places of words, each computed here, without weights: sinusoids, learned positions, RoPE, ALiBi.
import { decimal, el, segmented } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { chart } from "./drawings.js";
import { angles, dot, softmax } from "./numbers.js";

const PAIRS = 20; // of dimensions that fit beside each other
const range = (n, value) => Array.from({ length: n }, (_, i) => value(i));
const written = (x) => decimal(x, 2);

/** Returns the sinusoids of `n` positions of `d` numbers, a list each. */
function sinusoids(n, d, half) {
  const steps = angles(d, half);
  return range(n, (p) =>
    half
      ? [...steps.map((step) => Math.sin(p * step)), ...steps.map((step) => Math.cos(p * step))]
      : steps.flatMap((step) => [Math.sin(p * step), Math.cos(p * step)]),
  );
}
/** Returns a table of normal random numbers, as learned positions are before the training; the same in every call. */
function random(n, d) {
  let seed = 1;
  const uniform = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  return range(n, () => range(d, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())));
}
/** Returns the views of a table with one vector a position: some of its dimensions, and the products with the middle one. */
function table(vectors) {
  const pairs = vectors[0].length / 2,
    shown = Math.min(pairs, PAIRS),
    columns = range(2 * shown, (i) => 2 * Math.floor((Math.floor(i / 2) * pairs) / shown) + (i % 2)),
    middle = Math.floor(vectors.length / 2);
  return {
    cells: vectors.map((vector) => columns.map((i) => vector[i])),
    keys: columns.map(String),
    verb: say("dimension"),
    curves: [vectors.map((vector, p) => [p, dot(vector, vectors[middle])])],
    title: say("dot product with position {0}, by position", middle),
  };
}
/** Returns the views of numbers between positions: all of them, and curves over them. */
const between = (n, value, more) => ({
  cells: range(n, (i) => range(n, (j) => value(i, j))),
  keys: range(n, String),
  verb: "→",
  ...more,
});
const SCHEMES = {
  sinusoidal: (c, n) => ({
    name: say("Sinusoids"),
    text: say(
      c.positions === "sinusoidal_half"
        ? "Every position gets a vector: the first half sines, the second half cosines of different wavelengths. The product of two of them depends on their distance only."
        : "Every position gets a vector of sines and cosines of different wavelengths. The product of two of them depends on their distance only, so the model can compute how far apart two words are.",
    ),
    ...table(sinusoids(n, c.d_model, c.positions === "sinusoidal_half")),
  }),
  learned: (c, n) => ({
    name: say("Learned"),
    text: say(
      "A vector for every position is a weight like others. Before the training they are random, as here, and say nothing of distance: all of it must be learned, and a place behind the last one has no vector.",
    ),
    ...table(random(n, c.d_model)),
  }),
  rope: (c, n) => {
    const steps = angles(c.head_dim),
      product = (i, j) => steps.reduce((sum, step) => sum + Math.cos((i - j) * step), 0) / steps.length;
    return {
      name: "RoPE",
      text: say(
        "Nothing is added to the words. Every head turns each pair of numbers of a query and of a key by an angle that grows with the place (Su et al. 2021). Their product then depends on the distance only: here the products of one query with the same key, at all places.",
      ),
      ...between(n, product, {
        curves: [range(n, (j) => [j, product(0, j)])],
        title: say("product of a query and the same key, by distance"),
      }),
    };
  },
  alibi: (c, n) => {
    const slope = (head) => 2 ** ((-8 * (head + 1)) / c.heads),
      bias = (head) => (i, j) => -slope(head) * Math.abs(i - j);
    return {
      name: "ALiBi",
      text: say(
        "Nothing is added to the words, and nothing is turned. A head takes its slope m times the distance from every product (Press et al. 2022); with {0} heads m goes from {1} to {2}. So the first head looks near and the last one far, and sentences may be longer than those of the training.",
        c.heads,
        slope(0).toPrecision(2),
        slope(c.heads - 1).toPrecision(2),
      ),
      ...between(n, bias(0), {
        curves: range(c.heads, (head) => softmax(range(n, (j) => bias(head)(0, j))).map((w, j) => [j, 100 * w])),
        title: say("weights in % if all products were equal, by distance; a curve a head"),
      }),
    };
  },
};

/** Returns what a good code of places needs, and the numbers of the sinusoids of a model for it. */
function criteria(c, n) {
  const all = sinusoids(n, c.d_model, c.positions === "sinusoidal_half"),
    apart = (a, b) => Math.hypot(...a.map((x, i) => x - b[i])),
    least = Math.min(...all.slice(1).map((vector, i) => apart(vector, all[i])));
  return [
    say(
      "A code of places must be unique for each place, bounded, the same in every sentence and without a longest length, and tell distances.",
    ),
    say(
      "The formula of the paper: PE(p, 2i) = sin(p / 10000^(2i / d)), PE(p, 2i + 1) = cos(p / 10000^(2i / d)). Here all {0} vectors have the length {1}, neighbours differ by {2} or more, and every number lies between −1 and 1.",
      n,
      written(Math.sqrt(c.d_model / 2)),
      written(least),
    ),
  ].map((text) => el("p", {}, text));
}

/** Draws the scheme that is `chosen`, or that of the model with the configuration `c`, for `n` positions. `choose(name)` is called for another. */
export function positions(host, c, n, chosen, choose) {
  const picture = el("div"),
    curve = el("div", { class: "drawing" }),
    text = el("p"),
    own = c.positions.startsWith("sinusoidal") ? "sinusoidal" : c.positions;
  const schemes = Object.fromEntries(Object.entries(SCHEMES).map(([name, scheme]) => [name, scheme(c, n)]));
  function draw(name) {
    const { cells, keys, verb, curves, title, text: about } = schemes[name],
      data = Float32Array.from(cells.flat()),
      top = data.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    text.textContent = about + (name === own ? ` ${say("This is how the loaded model does it.")}` : "");
    const map = { rows: n, columns: keys.length, data, queries: range(n, String), keys, signed: true };
    heat(picture, map, { top, label: schemes[name].name, format: written, scale: written, verb });
    chart(curve, curves, title);
  }
  const first = schemes[chosen] ? chosen : (schemes[own] && own) || "sinusoidal";
  const change = (name) => {
    choose(name);
    draw(name);
  };
  const modes = Object.entries(schemes).map(([name, scheme]) => [name, scheme.name]);
  host.replaceChildren(
    ...criteria(c, n),
    el("div", { class: "controls" }, segmented(say("How places are told"), modes, first, change)),
    text,
    el("div", { class: "split even" }, el("div", { class: "card" }, picture), el("div", { class: "card" }, curve)),
  );
  draw(first);
}

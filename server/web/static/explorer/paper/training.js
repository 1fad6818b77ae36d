// How such a model is trained: the learning rate, label smoothing, dropout, and the loss of the model that comes with the server.
import { decimal, el, noted, percent, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { beside, chart, slider, strip } from "./drawings.js";
import { angles } from "./numbers.js";

const STEPS = 40_000,
  POINTS = 160,
  SHOWN = 64,
  PLACE = 5,
  [BETA1, BETA2] = [0.9, 0.98];
/** Loss on development sentences, in nats a token, by millions of target tokens: weights/general-en-de-fr-es/training.json. The rate was
 * constant before a point of the first list and had fallen to zero before one of the second. */
const CONSTANT = [
  [4.9, 2.759],
  [8.9, 2.675],
  [13.2, 2.631],
  [16.6, 2.635],
];
const FALLEN = [
  [7.6, 2.467],
  [11.4, 2.425],
  [16.1, 2.369],
  [19.7, 2.329],
  [24.6, 2.292],
  [32.8, 2.251],
  [43.5, 2.206],
  [62.9, 1.964],
  [390.9, 1.497],
];
/** Draws the chapter of the loss, with that of the model that comes with the server. */
export function losses(host) {
  const curve = el("div.drawing");
  chart(curve, [CONSTANT, FALLEN], say("loss by millions of target tokens"), {
    names: [say("constant rate"), say("rate fallen to zero")],
    dots: true,
    base: 2,
    log: true,
  });
  beside(
    host,
    [
      told(
        "The model reads a sentence and the beginning of its translation, and gives each next piece a probability. The loss is the negative logarithm of that of the right piece. All positions are trained at once, thanks to the mask.",
      ),
      told(
        "Loss of general-en-de-fr-es on development sentences. At a constant rate it hardly falls after 13 million tokens; each time the rate falls to zero it drops by 0.25 to 0.31, and the next one starts from there. Large steps explore, small ones settle.",
      ),
    ],
    curve,
    noted("From training.json of the model, 2026-11-29."),
  );
}
/** Draws the chapter of the learning rate for a model of width `d`. */
export function warmUp(host, d) {
  const curve = el("div.drawing");
  const draw = (warmup) => {
    const rate = (step) => d ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5),
      points = Array.from({ length: POINTS }, (_, i) => ((i + 1) * STEPS) / POINTS);
    chart(curve, [points.map((step) => [step, 1000 * rate(step)])], say("learning rate × 1000, by step"));
  };
  beside(
    host,
    [
      told(
        "The paper's rate is d^−0.5 · min(step^−0.5, step · warmup^−1.5): it grows while the weights are still random, since large steps would lead astray there, and then falls.",
      ),
      slider(say("Steps of warm-up"), { min: 500, max: 16000, step: 500, value: 4000 }, draw),
    ],
    curve,
  );
}
/** Draws the chapter of label smoothing for a vocabulary of `V` pieces. */
export function smoothing(host, V) {
  const curve = el("div.drawing"),
    found = el("p.note", { "aria-live": "polite" });
  const draw = (hundredths) => {
    const e = hundredths / 100,
      right = 1 - e + e / V; // what the right piece should get; all others share the rest
    const loss = (p, aim) => -aim * Math.log(p) - (aim < 1 ? (1 - aim) * Math.log((1 - p) / (V - 1)) : 0),
      shares = Array.from({ length: POINTS }, (_, i) => 0.3 + (0.699 * i) / (POINTS - 1));
    chart(
      curve,
      [1, right].map((aim) => shares.map((p) => [p, loss(p, aim)])),
      say("loss by the probability of the right piece"),
      { names: [say("without"), say("smoothed")], formatX: percent },
    );
    found.textContent = e
      ? say("ε = {0}: the loss is least at {1}, no longer at 100 %.", decimal(e, 2), percent(right))
      : say("ε = 0: nothing is smoothed, and the loss is least at 100 %.");
  };
  beside(
    host,
    [
      told(
        "The right piece should get 1 − ε, and all {0} pieces together ε. So the model does not become surer than it can know; its probabilities get worse, its translations better (the paper, 5.4).",
        V,
      ),
      slider(say("ε in hundredths"), { min: 0, max: 40, value: 10 }, draw),
    ],
    curve,
    found,
  );
}
/** Draws the chapter of dropout: what is left of a vector in some passes. */
export function dropout(host) {
  const view = el("div.strip"),
    vector = angles(SHOWN).flatMap((step) => [Math.sin(PLACE * step), Math.cos(PLACE * step)]);
  const draw = (hundredths) => {
    const p = hundredths / 100;
    const rows = [vector, ...[1, 2, 3].map(() => vector.map((x) => (Math.random() < p ? 0 : x / (1 - p))))];
    view.replaceChildren(
      ...rows.flatMap((row, i) => [
        el("span.note", i ? say("pass {0}", i) : say("the sinusoids of position {0}", PLACE)),
        strip([row], { top: 1 / (1 - p) }),
      ]),
    );
  };
  beside(
    host,
    [
      told(
        "In every pass of the training each number becomes 0 with probability p, and the others grow by 1 / (1 − p), so that their mean stays. No number can rely on another one. A translation uses all of them. The paper has p = 0.1; with little training, as for the model that comes with the server, it is left out.",
      ),
      slider(say("p in hundredths"), { min: 0, max: 60, step: 5, value: 10 }, draw),
    ],
    view,
  );
}
/** Draws Adam's moments for the gradients of one weight: a slope of 1 with noise, which changes its sign in the middle. */
export function adam(host) {
  const curve = el("div.drawing");
  const draw = (tenths) => {
    const lines = [[], [], []];
    let [m, v, seed] = [0, 0, 1];
    for (let t = 1; t <= POINTS; t++) {
      seed = (seed * 48271) % 2147483647;
      const g = (t > POINTS / 2 ? -1 : 1) + ((seed / 2147483647 - 0.5) * 2 * tenths) / 10;
      m = BETA1 * m + (1 - BETA1) * g;
      v = BETA2 * v + (1 - BETA2) * g * g;
      const [mean, root] = [m / (1 - BETA1 ** t), Math.sqrt(v / (1 - BETA2 ** t))];
      [g, mean, mean / (root + 1e-9)].forEach((x, i) => lines[i].push([t, x]));
    }
    chart(curve, lines, say("by step: the gradient, its mean m, the step m / √v"), {
      names: ["g", "m", "m / √v"],
      base: -1,
    });
  };
  beside(
    host,
    [
      told(
        "Adam keeps two numbers for each weight: m, the mean of its last gradients (β₁ = 0.9), and v, the mean of their squares (β₂ = 0.98). The step is the rate times m / √v: as large for weights with small gradients, smaller where they only tremble. This is a drawing with gradients made up for one weight.",
      ),
      slider(say("noise in tenths"), { min: 0, max: 40, value: 15 }, draw),
    ],
    curve,
  );
}

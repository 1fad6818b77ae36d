// The matrix that shifts a positional encoding: PE(p + k) = T_k PE(p), the same for all positions p.
import { el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";

const SHOWN = 8;
/** Returns the angle per position of each pair of a sine and a cosine. */
const angles = (d, half) =>
  Array.from({ length: d / 2 }, (_, i) => 1 / 10000 ** (half && d > 2 ? i / (d / 2 - 1) : (2 * i) / d));

/** Draws the matrix for the distance `chosen` (null: 3), and how exact the equation is for `n` positions. `choose(distance)` is called for another. */
export function shift(host, c, n, chosen, choose) {
  const steps = angles(c.d_model, c.positions === "sinusoidal_half"),
    picture = el("div"),
    error = el("p", { class: "note", "aria-live": "polite" });
  const slider = el("input", {
    type: "range",
    min: "1",
    max: String(Math.min(32, n - 1)),
    value: String(chosen ?? 3),
    "aria-label": say("Distance k"),
  });
  function draw() {
    const k = Number(slider.value),
      shown = Math.min(SHOWN, steps.length),
      data = new Float32Array((2 * shown) ** 2).fill(0.5);
    const set = (row, column, x) => (data[row * 2 * shown + column] = (x + 1) / 2);
    const spread = (i) => Math.floor((i * (steps.length - 1)) / Math.max(1, shown - 1));
    const names = [];
    for (let i = 0; i < shown; i++) {
      const angle = k * steps[spread(i)];
      set(2 * i, 2 * i, Math.cos(angle)), set(2 * i, 2 * i + 1, Math.sin(angle));
      set(2 * i + 1, 2 * i, -Math.sin(angle)), set(2 * i + 1, 2 * i + 1, Math.cos(angle));
      names.push(`sin ${spread(i)}`, `cos ${spread(i)}`);
    }
    heat(
      picture,
      { rows: 2 * shown, columns: 2 * shown, data, queries: names, keys: names },
      {
        label: say("T for k = {0}", k),
        format: (x) => (2 * x - 1).toFixed(2),
        scale: (x) => (2 * x - 1).toFixed(1),
        verb: "←",
      },
    );
    error.textContent = say(
      "k = {0}. Over {1} positions and {2} dimensions, T applied to PE(p) differs from PE(p + {0}) by at most {3}.",
      k,
      n,
      c.d_model,
      largestError(steps, k, n).toExponential(1),
    );
  }
  slider.addEventListener("input", draw);
  slider.addEventListener("change", () => choose(Number(slider.value)));
  host.replaceChildren(
    el(
      "p",
      {},
      say(
        "A shift by k places is one matrix, whatever the position: each pair of a sine and a cosine is turned by an angle. So a layer can learn to look k words back, everywhere in a sentence.",
      ),
    ),
    el("div", { class: "controls" }, el("label", { class: "note" }, say("Distance k") + " ", slider)),
    picture,
    error,
  );
  draw();
}
function largestError(steps, k, n) {
  let largest = 0;
  for (let p = 0; p + k < n; p++)
    for (const step of steps) {
      const [s, c] = [Math.sin(p * step), Math.cos(p * step)],
        [ks, kc] = [Math.sin(k * step), Math.cos(k * step)];
      largest = Math.max(
        largest,
        Math.abs(s * kc + c * ks - Math.sin((p + k) * step)),
        Math.abs(c * kc - s * ks - Math.cos((p + k) * step)),
      );
    }
  return largest;
}

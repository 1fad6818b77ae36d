// The matrix that shifts a positional encoding: PE(p + k) = T_k PE(p), the same for all positions p.
import { decimal, el, told } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";
import { beside, slider } from "./drawings.js";
import { angles } from "./numbers.js";

const SHOWN = 8;
const written = (x) => decimal(x, 2);

/** Draws the matrix for the distance `chosen` (null: 3), and how exact the equation is for `n` positions. `choose(distance)` is called for another. */
export function shift(host, c, n, chosen, choose) {
  const steps = angles(c.d_model, c.positions === "sinusoidal_half"),
    picture = el("div"),
    error = el("p.note", { "aria-live": "polite" });
  function draw(k) {
    const shown = Math.min(SHOWN, steps.length),
      data = new Float32Array((2 * shown) ** 2);
    const set = (row, column, x) => (data[row * 2 * shown + column] = x);
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
      { rows: 2 * shown, columns: 2 * shown, data, queries: names, keys: names, signed: true },
      { label: say("T for k = {0}", k), format: written, scale: written, verb: "←" },
    );
    error.textContent = say(
      "k = {0}. Over {1} positions and {2} dimensions, T applied to PE(p) differs from PE(p + {0}) by at most {3}.",
      k,
      n,
      c.d_model,
      largestError(steps, k, n).toExponential(1),
    );
  }
  const limits = { min: 1, max: Math.min(32, n - 1), value: chosen ?? 3 },
    distance = slider(say("Distance k"), limits, draw, choose);
  beside(
    host,
    [
      told(
        "A shift by k places is one matrix, whatever the position: each pair of a sine and a cosine is turned by an angle. So a layer can learn to look k words back, everywhere in a sentence.",
      ),
      distance,
      error,
    ],
    picture,
  );
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

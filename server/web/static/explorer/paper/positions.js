// Positional encodings as a heat map and as a curve.
import { el, svg } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { heat } from "../maps/heat.js";

function sinusoids(n, d, half) {
  const data = new Float32Array(n * d);
  for (let p = 0; p < n; p++)
    for (let i = 0; i < d / 2; i++) {
      const angle = p / 10000 ** (half && d > 2 ? i / (d / 2 - 1) : (2 * i) / d);
      data[p * d + (half ? i : 2 * i)] = Math.sin(angle);
      data[p * d + (half ? d / 2 + i : 2 * i + 1)] = Math.cos(angle);
    }
  return data;
}
/** Draws the encodings of `n` positions into `wave`, and their products by distance into `curve`. */
export function positions(wave, curve, c, n) {
  if (!c.positions.startsWith("sinusoidal")) {
    wave.append(el("p", { class: "note" }, say("Nothing to draw without the weights.")));
    return curve.append(el("p", { class: "note" }, say("At most {0} positions.", c.max_length)));
  }
  const d = c.d_model,
    all = sinusoids(n, d, c.positions === "sinusoidal_half"),
    shown = Math.min(d, 64),
    stride = d / shown;
  const data = new Float32Array(n * shown);
  for (let p = 0; p < n; p++)
    for (let i = 0; i < shown; i++) data[p * shown + i] = (all[p * d + Math.floor(i * stride)] + 1) / 2;
  heat(
    wave,
    {
      rows: n,
      columns: shown,
      data,
      queries: Array.from({ length: n }, (_, p) => String(p)),
      keys: Array.from({ length: shown }, (_, i) => String(Math.floor(i * stride))),
    },
    {
      top: 1,
      label: say("Positional encodings"),
      format: (x) => (2 * x - 1).toFixed(2),
      scale: (x) => (2 * x - 1).toFixed(1),
      verb: say("dimension"),
    },
  );
  const middle = Math.floor(n / 2),
    dots = [];
  for (let p = 0; p < n; p++) {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += all[p * d + i] * all[middle * d + i];
    dots.push(sum);
  }
  chart(curve, [dots], say("dot product with position {0}, by position", middle));
}
function chart(host, series, title) {
  const W = 480,
    H = 240,
    low = Math.min(0, ...series.flat()),
    high = Math.max(...series.flat()),
    n = series[0].length;
  const x = (i) => 44 + (i * (W - 56)) / (n - 1),
    y = (v) => 12 + ((high - v) * (H - 44)) / (high - low || 1);
  const drawing = svg("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img", "aria-label": title });
  for (const v of [low, (low + high) / 2, high])
    drawing.append(
      svg("line", { x1: 44, x2: W - 12, y1: y(v), y2: y(v), class: "edge" }),
      svg("text", { x: 4, y: y(v) + 4, class: "soft" }, v.toFixed(v > 9 ? 0 : 1)),
    );
  series.forEach((values) =>
    drawing.append(
      svg("path", {
        class: "edge win",
        d: "M" + values.map((v, i) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("L"),
      }),
    ),
  );
  drawing.append(svg("text", { x: 44, y: H - 8, class: "soft" }, title));
  host.replaceChildren(drawing);
}

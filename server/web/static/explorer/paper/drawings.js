// What several chapters draw: curves, strips of numbers, tables, sliders.
import { decimal, el, observe, svg } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { paint } from "../maps/colour.js";

// The style of the chapters is no part of the page's first paint.
await new Promise((loaded) =>
  document.head.append(
    el("link", { rel: "stylesheet", href: "static/explorer/lesson.css", onload: loaded, onerror: loaded }),
  ),
);
// A card on a phone is as wide.
const WIDTH = 340,
  HEIGHT = 190,
  [LEFT, RIGHT, TOP, BOTTOM] = [48, 332, 14, 168];

/** Returns a function that writes the numbers of an axis with as many decimals as three digits of the largest of `ends` need. */
function writer(ends) {
  const top = Math.max(...ends.map(Math.abs)) || 1,
    most = Math.max(0, 2 - Math.floor(Math.log10(top))),
    digits = ends.map((x) => String(Number(x.toFixed(most))).split(".")[1]?.length ?? 0);
  return (x) => decimal(x, Math.max(...digits));
}
/** Draws curves, each a list of points [x, y], with three numbers at each axis. Below them `title` and `names` say what they are; points are
 * marked if `dots`. The axis includes `base`. Values of x are spaced by their logarithms if `log`. */
export function chart(host, curves, title, { names = [], formatX, log = false, dots = false, base = 0 } = {}) {
  const all = curves.flat(),
    spread = log ? Math.log : (x) => x;
  const [x0, x1] = [Math.min, Math.max].map((end) => end(...all.map(([x]) => x)));
  const [y0, y1] = [Math.min, Math.max].map((end) => end(base, ...all.map(([, y]) => y)));
  const x = (v) => LEFT + ((spread(v) - spread(x0)) * (RIGHT - LEFT)) / (spread(x1) - spread(x0) || 1),
    y = (v) => TOP + ((y1 - v) * (BOTTOM - TOP)) / (y1 - y0 || 1);
  const heights = [y0, (y0 + y1) / 2, y1],
    write = writer(heights),
    writeX = formatX ?? writer([x0, x1]);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", "aria-label": title });
  const label = (text, at) => drawing.append(svg("text", { class: "soft", ...at }, text));
  for (const v of heights) {
    drawing.append(svg("line", { x1: LEFT, x2: RIGHT, y1: y(v), y2: y(v), class: "edge" }));
    label(write(v), { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" });
  }
  label(writeX(x0), { x: LEFT, y: BOTTOM + 14 });
  label(writeX(x1), { x: RIGHT, y: BOTTOM + 14, "text-anchor": "end" });
  curves.forEach((points, i) => {
    const places = points.map(([a, b]) => [x(a).toFixed(1), y(b).toFixed(1)]);
    drawing.append(svg("path", { class: `edge win curve c${i}`, d: "M" + places.map((at) => at.join(" ")).join("L") }));
    if (dots) drawing.append(...places.map(([cx, cy]) => svg("circle", { class: "bin", cx, cy, r: 4 })));
  });
  host.replaceChildren(drawing, el("p.note", title, ...names.map((name, i) => el(`span.key.c${i}`, name))));
}

/** Draws a chapter: what is `said` and chosen, and beside it a drawing with its notes. */
export const beside = (host, said, ...drawn) =>
  host.replaceChildren(el("div.split.even", el("div", ...said), el("div.card", ...drawn)));

/** Returns a strip with a row for each vector: blue is positive, orange negative. `top` is the number of the strongest colour, `read(dimension)`
 * is called for the one under the pointer. */
export function strip(rows, { top = Math.max(...rows.flat().map(Math.abs)), read } = {}) {
  const all = rows.flat(),
    map = { rows: rows.length, columns: rows[0].length, data: Float32Array.from(all), signed: true };
  const [low, high] = [Math.min(...all), Math.max(...all)].map((x) => decimal(x, 2));
  const label =
    rows.length > 1
      ? say("{0} vectors of {1} numbers between {2} and {3}", rows.length, map.columns, low, high)
      : say("{0} numbers between {1} and {2}", map.columns, low, high);
  const canvas = el("canvas.signed", { role: "img", "aria-label": label });
  canvas.style.height = `${Math.max(16, Math.min(160, 10 * rows.length))}px`;
  observe(canvas, () => paint(map, top || 1, canvas));
  paint(map, top || 1, canvas);
  if (read)
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect(),
        at = Math.floor(((event.clientX - box.left) / box.width) * map.columns);
      read(Math.min(map.columns - 1, Math.max(0, at)));
    });
  return canvas;
}

/** Returns a labelled slider. `draw(value)` is called now and for each other value, `choose(value)` when it is left at one. */
export function slider(label, { min, max, step = 1, value }, draw, choose = () => {}) {
  const node = el("input", { type: "range", min, max, step, value, "aria-label": label });
  node.addEventListener("input", () => draw(Number(node.value)));
  node.addEventListener("change", () => choose(Number(node.value)));
  draw(Number(node.value));
  return el("label.note", label + " ", node);
}

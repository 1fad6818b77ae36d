// The colour scale of the weights. It is the same for all maps: 0 % is the lightest colour and 100 % the strongest.
import { color, el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

/** Exponent between weight and place on the scale, so that small weights stay visible. */
const GAMMA = 0.6;
const ramps = {};

function rgb(text) {
  const n = parseInt(text.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
/** Returns 256 colours from weight 0 to weight 1, as 32-bit pixels. One table per theme. */
function ramp() {
  const theme = document.documentElement.dataset.theme;
  if (ramps[theme]) return ramps[theme];
  const stops = ["--heat0", "--heat1", "--heat2"].map((name) => rgb(color(name)));
  const bytes = new Uint8ClampedArray(1024);
  for (let i = 0; i < 256; i++) {
    const x = (i / 255) * 2,
      low = Math.min(1, Math.floor(x)),
      a = stops[low],
      b = stops[low + 1];
    for (let c = 0; c < 3; c++) bytes[4 * i + c] = a[c] + (b[c] - a[c]) * (x - low);
    bytes[4 * i + 3] = 255;
  }
  return (ramps[theme] = new Uint32Array(bytes.buffer));
}
const place = (share) => Math.round(255 * Math.min(1, Math.max(0, share)) ** GAMMA);

/** Paints a map into a canvas with one pixel per weight. `top` is the value of the strongest colour. */
export function paint(map, top = 1, canvas = document.createElement("canvas")) {
  canvas.width = map.columns;
  canvas.height = map.rows;
  const context = canvas.getContext("2d"),
    image = context.createImageData(map.columns, map.rows),
    table = ramp();
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < map.data.length; i++) pixels[i] = table[place(map.data[i] / top)];
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Returns the bar of the scale from 0 to `top`, linear in the value. `format` writes the numbers beside it. */
export function scaleBar(top = 1, format = (x) => `${Math.round(100 * x)} %`) {
  const stops = [0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1].map((share) => {
    const bytes = new Uint8Array(ramp().buffer, 4 * place(share), 3);
    return `rgb(${bytes.join(" ")}) ${100 * share}%`;
  });
  const bar = el("i");
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const numbers = [0, 0.25, 0.5, 0.75, 1].map((share) => el("span", {}, format(share * top)));
  return el(
    "div",
    { class: "scale", role: "img", "aria-label": say("Colour scale from {0} to {1}", format(0), format(top)) },
    bar,
    el("div", {}, ...numbers),
  );
}

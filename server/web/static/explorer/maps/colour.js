// The colour scales. That of weights is the same for all maps: 0 % is the lightest colour and 100 % the strongest. That of
// numbers with a sign goes from orange over the colour of the page, which is 0, to blue.
import { color, el } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

/** Exponent between weight and place on the scale, so that small weights stay visible. */
const GAMMA = 0.6;
const LAST = 256;
const ramps = {};

function rgb(text) {
  const n = parseInt(text.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
/** Returns the colours from 0 to 1, or from -1 to 1 if `signed`, as 32-bit pixels. One table per theme. */
function ramp(signed) {
  const theme = document.documentElement.dataset.theme + (signed ? " signed" : "");
  if (ramps[theme]) return ramps[theme];
  const names = signed ? ["--minus", "--card", "--plus"] : ["--heat0", "--heat1", "--heat2"],
    stops = names.map((name) => rgb(color(name)));
  const bytes = new Uint8ClampedArray(4 * (LAST + 1));
  for (let i = 0; i <= LAST; i++) {
    const x = (i / LAST) * 2,
      low = Math.min(1, Math.floor(x)),
      a = stops[low],
      b = stops[low + 1];
    for (let c = 0; c < 3; c++) bytes[4 * i + c] = a[c] + (b[c] - a[c]) * (x - low);
    bytes[4 * i + 3] = 255;
  }
  return (ramps[theme] = new Uint32Array(bytes.buffer));
}
function place(share, signed) {
  if (!signed) return Math.round(LAST * Math.min(1, Math.max(0, share)) ** GAMMA);
  return Math.round((LAST / 2) * (1 + Math.sign(share) * Math.min(1, Math.abs(share)) ** GAMMA));
}

/** Paints a map into a canvas with one pixel per number. `top` is the value of the strongest colour; the numbers of a
 * `signed` map go from -`top` to `top`. */
export function paint(map, top = 1, canvas = document.createElement("canvas")) {
  canvas.width = map.columns;
  canvas.height = map.rows;
  const context = canvas.getContext("2d"),
    image = context.createImageData(map.columns, map.rows),
    table = ramp(map.signed);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < map.data.length; i++) pixels[i] = table[place(map.data[i] / top, map.signed)];
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Returns the bar of the scale from 0, or -`top` if `signed`, to `top`. `format` writes the numbers below it. */
export function scaleBar(top = 1, format = (x) => `${Math.round(100 * x)} %`, signed = false) {
  const low = signed ? -1 : 0,
    at = (x) => low + x * (1 - low);
  const stops = [0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.42, 0.5, 0.58, 0.75, 1].map((x) => {
    const bytes = new Uint8Array(ramp(signed).buffer, 4 * place(at(x), signed), 3);
    return `rgb(${bytes.join(" ")}) ${100 * x}%`;
  });
  const bar = el("i");
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const numbers = [0, 0.25, 0.5, 0.75, 1].map((x) => el("span", format(at(x) * top)));
  return el(
    "div.scale",
    { role: "img", "aria-label": say("Colour scale from {0} to {1}", format(low * top), format(top)) },
    bar,
    el("div", ...numbers),
  );
}

// The picture of the film: both texts, and ribbons from the source words to the words of the translation.
import { color, el, observe } from "../../common/dom.js";

/** A word is written within its step of length 1; its ribbons then fade within `FADE`. */
export const HOLD = 0.85;
const FADE = 0.6,
  GROW = 0.5,
  APPEAR = 0.3,
  LAST = 0.3,
  WIDEST = 120;
const clamp = (x) => Math.min(1, Math.max(0, x)),
  ease = (x) => 1 - (1 - x) ** 3;

/** Draws `film` (see `steps`) into `host`. Returns {draw(position, focus), nodes, end}: `position` counts words, `focus` is
 * [side, place] of a word under the pointer or null. `onFocus(focus)` and `onPick(place)` are called for words. */
export function stage(host, film, { source = "", target = "", onFocus = () => {}, onPick = null } = {}) {
  const canvas = el("canvas", { "aria-hidden": "true" }),
    context = canvas.getContext("2d");
  const nodes = { source: [], target: [] };
  const line = (side, words, lang) =>
    el(
      "p",
      { class: `line ${side}`, lang, dir: "auto" },
      ...words.flatMap((word, i) => {
        const node = el(
          "span.fw",
          { onpointerenter: () => onFocus([side, i]), onpointerleave: () => onFocus(null) },
          word.text,
        );
        if (side === "target" && onPick) node.addEventListener("click", () => onPick(i));
        nodes[side].push(node);
        return [word.before, node];
      }),
    );
  host.replaceChildren(canvas, line("source", film.sources, source), line("target", film.targets, target));
  const words = film.targets.length;
  // Past ribbons of a long sentence would hide the present ones; at the end they come back.
  const trail = (position) =>
    Math.min(0.16, 1.8 / words) + Math.min(0.22, 2.5 / words) * clamp((position - words) / FADE);
  let ribbons = [],
    at = [0, null],
    tinted = "";
  const seen = film.targets.map(() => -1);

  function layout() {
    const frame = host.getBoundingClientRect(),
      ratio = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, frame.width * ratio);
    canvas.height = Math.max(1, frame.height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const place = (node) => {
      const box = node.getClientRects()[0] || node.getBoundingClientRect();
      return {
        x: box.left - frame.left + box.width / 2,
        top: box.top - frame.top,
        bottom: box.bottom - frame.top,
        width: Math.min(WIDEST, Math.max(12, box.width)),
      };
    };
    const from = nodes.source.map(place),
      to = nodes.target.map(place);
    // Ribbons fill the gap between the two texts, so that they do not cross further lines of either.
    const bottom = Math.max(...from.map((box) => box.bottom)),
      top = Math.min(...to.map((box) => box.top));
    for (const box of from) box.bottom = bottom;
    for (const box of to) box.top = top;
    seen.fill(-1);
    const glow = color("--glow");
    ribbons = film.targets.map(({ looks }, t) =>
      bands(looks, from, to[t]).map((band) => {
        const fill = context.createLinearGradient(0, band.top, 0, band.bottom);
        fill.addColorStop(0, `rgb(${glow} / .45)`);
        fill.addColorStop(1, `rgb(${glow})`);
        return { ...band, fill };
      }),
    );
    draw(...at);
  }
  function draw(position, focus) {
    at = [position, focus];
    context.clearRect(0, 0, canvas.width, canvas.height);
    const past = trail(position);
    ribbons.forEach((bands, t) => {
      const u = position - t;
      reveal(t, clamp((u - LAST) / APPEAR));
      if (u <= 0) return;
      const now = u <= 1 ? 1 : clamp(1 - (u - 1) / FADE);
      for (const band of bands) {
        const focused = focus && (focus[0] === "target" ? focus[1] === t : focus[1] === band.source);
        context.globalAlpha = focus ? (focused ? 0.75 : 0.06) : past + 0.5 * now;
        fill(band, ease(clamp(u / GROW)));
      }
    });
    tint(
      focus ||
        (position < film.targets.length + FADE
          ? ["target", Math.min(film.targets.length, Math.ceil(position)) - 1]
          : null),
    );
  }
  function reveal(t, share) {
    if (seen[t] === share) return;
    seen[t] = share;
    nodes.target[t].style.opacity = share;
  }
  /** Fills a ribbon down to a share of its height. */
  function fill(band, share) {
    context.fillStyle = band.fill;
    if (share >= 1) return context.fill(band.path);
    context.save();
    context.beginPath();
    context.rect(0, band.top, canvas.width, (band.bottom - band.top) * share);
    context.clip();
    context.fill(band.path);
    context.restore();
  }
  /** Shades the words that belong to a word of the other side. */
  function tint(word) {
    const key = String(word);
    if (key === tinted) return;
    tinted = key;
    const [side, i] = word || [],
      share = { source: new Map(), target: new Map() };
    film.targets.forEach(({ looks }, t) =>
      looks.forEach(([s, weight]) => {
        if (side === "target" && t === i) share.source.set(s, weight);
        if (side === "source" && s === i) share.target.set(t, weight);
      }),
    );
    for (const each of ["source", "target"])
      nodes[each].forEach((node, j) => {
        const weight = share[each].get(j) || 0;
        node.style.background = weight ? `rgb(var(--glow) / ${(0.08 + 0.4 * weight).toFixed(3)})` : "";
        node.classList.toggle("on", each === side && j === i);
      });
  }
  observe(host, layout);
  layout();
  document.fonts?.ready.then(layout);
  return { draw, nodes, end: film.targets.length + FADE };
}
/** Returns the ribbons of one word as {source, path, top, bottom}. They lie side by side above the word, and their
 * thickness is the weight. */
function bands(looks, from, to) {
  const sum = looks.reduce((total, [, weight]) => total + weight, 0);
  let left = to.x - (to.width * Math.min(1, sum)) / 2;
  return [...looks]
    .sort(([a], [b]) => from[a].x - from[b].x)
    .map(([source, weight]) => {
      const start = from[source],
        below = Math.max(1, to.width * weight),
        above = Math.max(1, Math.min(start.width, to.width) * weight);
      const [x0, x1, x2, x3] = [start.x - above / 2, start.x + above / 2, left + below, left];
      const [top, bottom] = [start.bottom, to.top],
        middle = (top + bottom) / 2;
      left += below;
      const path = new Path2D(
        `M${x0} ${top}C${x0} ${middle} ${x3} ${middle} ${x3} ${bottom}L${x2} ${bottom}C${x2} ${middle} ${x1} ${middle} ${x1} ${top}Z`,
      );
      return { source, path, top, bottom };
    });
}

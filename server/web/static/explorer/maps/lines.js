// Lines from queries to keys. Several heads are drawn as stripes of one line side by side, so that no head hides another.
import { color, el, observe } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

const HUES = ["#4e79a7", "#e8710a", "#2f9e44", "#d6336c", "#7950f2", "#1098ad", "#a0640f", "#5c6b7a"];
const ROW = 26,
  FAINT = 0.015,
  THICKEST = 9;

/** Draws queries on the left, keys on the right and a line per pair. `maps` has one map per head, `hues` their colours.
 * Returns {point(query, key)}. */
export function lines(host, maps, { hues = HUES, names = [], onPoint = () => {} } = {}) {
  const [first] = maps,
    shown = maps.map(() => true);
  let on = null;
  const canvas = el("canvas", {
    role: "img",
    "aria-label": say("Lines from each query to the keys it looks at; the words left and right can be chosen."),
  });
  const column = (texts, side) =>
    el(
      "div",
      { class: side },
      ...texts.map((text, i) =>
        el(
          "button",
          {
            type: "button",
            title: text,
            dir: "auto",
            onpointerenter: (event) => event.pointerType === "mouse" && focus(side, i),
            onpointerleave: (event) => event.pointerType === "mouse" && focus(null),
            onfocus: () => focus(side, i),
            onclick: () => focus(side, i),
            onblur: () => focus(null),
          },
          text,
        ),
      ),
    );
  const left = column(first.queries, "left"),
    right = column(first.keys, "right");
  const legend = el("div.legend", { role: "group", "aria-label": say("Heads shown") });
  if (maps.length > 1)
    names.forEach((name, i) => {
      const button = el(
        "button",
        {
          type: "button",
          "aria-pressed": "true",
          onclick: () => {
            shown[i] = !shown[i];
            button.setAttribute("aria-pressed", shown[i]);
            draw();
          },
        },
        name,
      );
      button.style.setProperty("--hue", hues[i % hues.length]);
      legend.append(button);
    });
  host.replaceChildren(
    legend,
    el("div.lines", { tabindex: "0", role: "region", "aria-label": say("Lines") }, left, canvas, right),
  );

  function focus(side, i, quiet) {
    on = side ? [side, i] : null;
    const weight = (map, query, key) => map.data[query * map.columns + key];
    const shares = (side, j) =>
      maps.map((map, m) => (!shown[m] ? 0 : side === "left" ? weight(map, i, j) : weight(map, j, i)));
    [...left.children].forEach((node, q) =>
      mark(node, side === "right" ? shares("right", q) : null, side === "left" && q === i),
    );
    [...right.children].forEach((node, k) =>
      mark(node, side === "left" ? shares("left", k) : null, side === "right" && k === i),
    );
    draw();
    if (!quiet) onPoint(side === "left" ? i : null, side === "right" ? i : null);
  }
  /** Shows the weights of the heads beside a word, one stripe per head. */
  function mark(node, weights, chosen) {
    node.classList.toggle("on", chosen);
    if (!weights || Math.max(...weights) < 0.005) return void (node.style.background = "");
    const tint = (weight, m) =>
      `color-mix(in srgb, ${maps.length > 1 ? hues[m % hues.length] : "var(--accent)"} ${Math.round(85 * Math.sqrt(weight))}%, transparent)`;
    const width = 100 / weights.length,
      stops = weights.map((weight, m) => `${tint(weight, m)} ${m * width}% ${(m + 1) * width}%`);
    node.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  }
  function draw() {
    const width = canvas.clientWidth || 200,
      height = Math.max(first.rows, first.columns) * ROW;
    const ratio = Math.min(window.devicePixelRatio || 1, 16000 / height);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    for (const ribbon of ribbons(
      maps.filter((_, m) => shown[m]),
      on,
    )) {
      for (const { map, offset, thickness, weight } of ribbon.stripes) {
        context.strokeStyle = maps.length > 1 ? hues[maps.indexOf(map) % hues.length] : color("--accent");
        context.globalAlpha = Math.min(1, (on ? 0.3 : 0.12) + weight);
        context.lineWidth = thickness;
        const from = ROW * (ribbon.query + 0.5) + offset,
          to = ROW * (ribbon.key + 0.5) + offset;
        context.beginPath();
        context.moveTo(0, from);
        context.bezierCurveTo(width * 0.45, from, width * 0.55, to, width, to);
        context.stroke();
      }
    }
  }
  observe(host, draw);
  requestAnimationFrame(draw);
  return {
    point(query, key) {
      if (query !== null && query !== undefined) focus("left", query, true);
      else if (key !== null && key !== undefined) focus("right", key, true);
      else focus(null, null, true);
    },
  };
}

/** Returns the lines to draw: {query, key, stripes: [{map, weight, thickness, offset}]}. The stripes of a line lie side
 * by side. `on` limits them to the lines of one word. */
export function ribbons(maps, on) {
  const found = [];
  if (!maps.length) return found;
  for (let query = 0; query < maps[0].rows; query++)
    for (let key = 0; key < maps[0].columns; key++) {
      if (on && (on[0] === "left" ? on[1] !== query : on[1] !== key)) continue;
      const weights = maps.map((map) => map.data[query * map.columns + key]);
      const kept = maps
        .map((map, m) => ({
          map,
          weight: weights[m],
          thickness: Math.max(0.7, (THICKEST * weights[m]) / Math.min(maps.length, 4)),
        }))
        .filter(({ weight }) => weight >= FAINT);
      let offset = -kept.reduce((sum, stripe) => sum + stripe.thickness, 0) / 2;
      for (const stripe of kept) {
        stripe.offset = offset + stripe.thickness / 2;
        offset += stripe.thickness;
      }
      if (kept.length) found.push({ query, key, stripes: kept });
    }
  return found;
}

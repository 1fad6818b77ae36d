// A heat map with labels that stay in view while the map scrolls.
import { el, observe, percent, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { paint, scaleBar } from "./colour.js";

const SMALLEST = 12,
  LARGEST = 40,
  ZOOM = 1.4;

/** Draws a labelled heat map into `host`. `onPoint(query, key)` is called with the cell under the pointer or chosen with
 * the arrow keys (null: none). `top` is the value of the strongest colour; a map may be `signed`. Returns {point(query, key)}. */
export function heat(
  host,
  map,
  { label = say("Attention"), onPoint = () => {}, format = percent, verb = say("looks at"), top = 1, scale } = {},
) {
  const canvas = el("canvas", {
    tabindex: "0",
    role: "img",
    "aria-label": say(
      "{0}: {1} queries by {2} keys. Arrow keys read single weights, plus and minus zoom.",
      label,
      map.rows,
      map.columns,
    ),
  });
  const mark = el("i.mark", { hidden: true }),
    body = el("div.cells", canvas, mark);
  const queries = labels("queries", map.queries),
    keys = labels("keys", map.keys);
  const view = el("div.heat", el("div.grid", body, queries, keys, el("div.corner")));
  const readout = el("div.readout", { "aria-live": "polite" });
  const zoom = (factor) => () => {
    room = factor && Math.min(LARGEST * 2, Math.max(4, cell * factor));
    resize();
  };
  const by = (name, factor, sign) =>
    el("button.quiet", { type: "button", "aria-label": name, onclick: zoom(factor) }, sign);
  const tools = el(
    "div.row.zoom",
    scaleBar(top, scale, map.signed),
    el(
      "span.row",
      by(say("Smaller"), 1 / ZOOM, "−"),
      textButton(say("Fit"), zoom(0), "quiet"),
      by(say("Larger"), ZOOM, "+"),
    ),
  );
  host.replaceChildren(view, readout, tools);
  let at = null,
    cell = LARGEST,
    room = 0;

  function resize() {
    const width = Math.max(160, (host.clientWidth || 600) - Math.min(150, queries.offsetWidth) - 14);
    cell = room || Math.max(SMALLEST, Math.min(LARGEST, Math.floor(width / map.columns)));
    view.style.setProperty("--cell", `${cell}px`);
    view.classList.toggle("tiny", cell < SMALLEST);
    canvas.style.width = `${cell * map.columns}px`;
    canvas.style.height = `${cell * map.rows}px`;
    place();
  }
  function place() {
    mark.hidden = !at;
    if (at) mark.style.cssText = `left:${cell * at[1]}px;top:${cell * at[0]}px;width:${cell}px;height:${cell}px`;
    [...queries.children].forEach((node, i) => node.classList.toggle("on", at?.[0] === i));
    [...keys.children].forEach((node, j) => node.classList.toggle("on", at?.[1] === j));
  }
  function point(next, quiet) {
    if (at?.[0] === next?.[0] && at?.[1] === next?.[1]) return;
    at = next;
    place();
    readout.textContent =
      at && at[0] !== null && at[1] !== null
        ? `${map.queries[at[0]]} ${verb} ${map.keys[at[1]]}: ${format(map.data[at[0] * map.columns + at[1]])}`
        : "";
    if (!quiet) onPoint(at ? at[0] : null, at ? at[1] : null);
  }
  const find = (event) => {
    const box = canvas.getBoundingClientRect(),
      i = Math.floor((event.clientY - box.top) / cell),
      j = Math.floor((event.clientX - box.left) / cell);
    return i >= 0 && j >= 0 && i < map.rows && j < map.columns ? [i, j] : null;
  };
  canvas.addEventListener("pointermove", (event) => point(find(event)));
  canvas.addEventListener("pointerdown", (event) => point(find(event)));
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? ZOOM : 1 / ZOOM)();
    if (event.key === "Escape") point(null);
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [i, j] = at || [0, -1];
    point([Math.min(map.rows - 1, Math.max(0, i + move[0])), Math.min(map.columns - 1, Math.max(0, j + move[1]))]);
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const repaint = () => {
    paint(map, top, canvas);
    tools.firstChild.replaceWith(scaleBar(top, scale, map.signed));
    resize();
  };
  observe(host, repaint);
  repaint();
  /** Marks the row of a query or the column of a key, without a call of `onPoint`. */
  const cross = (query, key) => {
    at = null;
    place();
    readout.textContent = "";
    queries.children[query]?.classList.add("on");
    keys.children[key]?.classList.add("on");
  };
  return { point: cross };
}

const labels = (side, texts) =>
  el(
    "div",
    { class: side, "aria-hidden": "true" },
    ...texts.map((text) =>
      el("span", { title: text, dir: "auto", class: /^<.*>$|^>>/.test(text) ? "special" : "" }, text),
    ),
  );

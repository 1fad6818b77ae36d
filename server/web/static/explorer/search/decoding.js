// The decoding of a sentence: the tree of beams and the candidates of every step.
import { chance, el, svg } from "../../common/dom.js";

const STEP = 104,
  ROW = 38;

/** Returns the nodes of the search: {step, row, parent, piece, total, pieces, dead, win, finished}. */
function nodes(trace) {
  const all = [],
    layers = [[{ step: -1, row: 0, parent: null, piece: "start", total: 0, pieces: [] }]];
  const ends = [];
  trace.steps.forEach((step, s) => {
    const before = layers[layers.length - 1];
    const next = step.chosen.map((c, row) => ({
      step: s,
      row,
      parent: before[c.parent],
      piece: c.piece,
      total: c.total,
      pieces: [...before[c.parent].pieces, c.piece],
    }));
    for (const end of step.finished) {
      const node = {
        step: s,
        row: next.length + ends.filter((e) => e.step === s).length,
        parent: before[end.parent],
        piece: "■ end",
        total: end.total,
        pieces: before[end.parent].pieces,
        finished: true,
      };
      ends.push(node);
    }
    layers.push(next);
  });
  all.push(layers[0][0], ...layers.slice(1).flat(), ...ends);
  const best = trace.hypotheses[0];
  const same = (node) =>
    best && node.pieces.length === best.pieces.length && node.pieces.every((piece, i) => piece === best.pieces[i]);
  const last = ends.find(same) || layers[layers.length - 1].find(same);
  for (let node = last; node; node = node.parent) node.win = true;
  const alive = new Set();
  for (const end of [...ends, ...layers[layers.length - 1]])
    for (let node = end; node; node = node.parent) alive.add(node);
  for (const node of all) node.dead = !alive.has(node);
  return { all, layers };
}

/** Draws the tree. `choose(node)` is called with the selected node. */
function tree(trace, choose) {
  const { all, layers } = nodes(trace);
  const rows = Math.max(...all.map((node) => node.row)) + 1;
  const x = (node) => 8 + (node.step + 1) * STEP,
    y = (node) => 8 + node.row * ROW;
  const drawing = svg("svg", {
    width: (trace.steps.length + 1) * STEP + 16,
    height: rows * ROW + 16,
    role: "group",
    "aria-label": "Beam tree",
  });
  for (const node of all)
    if (node.parent) {
      const [a, b, c, d] = [x(node.parent) + 88, y(node.parent) + 14, x(node), y(node) + 14];
      drawing.append(
        svg("path", {
          class: "edge" + (node.win ? " win" : ""),
          d: `M${a} ${b}C${a + 10} ${b} ${c - 10} ${d} ${c} ${d}`,
        }),
      );
    }
  const pick = (group, node) => {
    drawing.querySelectorAll(".at").forEach((other) => other.classList.remove("at"));
    group.classList.add("at");
    choose(node);
  };
  for (const node of all) {
    const text = node.piece.length > 10 ? node.piece.slice(0, 9) + "…" : node.piece;
    const group = svg(
      "g",
      {
        class: `node${node.win ? " win" : ""}${node.dead ? " dead" : ""}`,
        tabindex: "0",
        role: "button",
        transform: `translate(${x(node)} ${y(node)})`,
        "aria-label": `step ${node.step + 1}: ${node.piece}, ${node.dead ? "died here or later" : node.win ? "in the winner" : "alive"}`,
      },
      svg("rect", { width: 88, height: 28, rx: 7 }),
      svg("text", { x: 8, y: 18 }, (node.dead ? "✕ " : "") + text),
    );
    group.append(svg("title", {}, `${node.pieces.join(" ")}  ${node.total.toFixed(2)}`));
    group.addEventListener("click", () => pick(group, node));
    group.addEventListener(
      "keydown",
      (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), pick(group, node)),
    );
    drawing.append(group);
  }
  return { drawing, first: layers[0][0] };
}

export const bars = (candidates, picked) =>
  el(
    "div",
    { class: "bars" },
    ...candidates.flatMap(([piece, score]) => {
      const bar = el("i");
      bar.style.width = Math.max(0.5, 100 * Math.exp(score)) + "%";
      return [
        el("span", { class: picked.includes(piece) ? "picked" : "" }, piece + (picked.includes(piece) ? " ✓" : "")),
        bar,
        el("span", { class: "n" }, chance(score)),
      ];
    }),
  );

/** Shows the decoding panel: the tree, and the candidates after the selected node. `watch(number)` shows a hypothesis in the
 * film. */
export function decoding(host, trace, watch) {
  const side = el("div", { class: "card" });
  function candidates(node) {
    const step = trace.steps[node.step + 1];
    const row = !node.finished && step?.rows[node.row];
    const picked = row
      ? [
          ...step.chosen.filter((c) => c.parent === node.row).map((c) => c.piece),
          ...(step.finished.some((f) => f.parent === node.row) ? ["</s>"] : []),
        ]
      : [];
    side.replaceChildren(
      el(
        "h3",
        {},
        node.pieces.length ? "After " : "First ",
        el("span", { class: "note" }, node.pieces.join(" ").replaceAll("▁", "") || "nothing is written yet"),
      ),
      el(
        "p",
        { class: "note" },
        `Step ${node.step + 1} · log-probability ${node.total.toFixed(2)}${node.dead ? " · this branch died: others were likelier" : node.win ? " · in the winner" : ""}`,
      ),
      row ? bars(row, picked) : el("p", {}, node.finished ? "The sentence ended here." : "The search had ended."),
    );
  }
  const { drawing, first } = tree(trace, candidates);
  const results = el(
    "table",
    {},
    el(
      "tbody",
      {},
      ...trace.hypotheses.map((h, i) =>
        el(
          "tr",
          {},
          el("td", { class: "n" }, `${i + 1}.`),
          el("td", {}, h.text, el("div", { class: "note" }, `${h.score.toFixed(3)} · ${h.scores.length} pieces`)),
          el("td", {}, el("button", { type: "button", class: "quiet", onclick: () => watch(i) }, "Watch")),
        ),
      ),
    ),
  );
  host.replaceChildren(
    el(
      "p",
      { class: "note" },
      "Every step from left to right. The thick line became the translation, ✕ died because other beams were likelier, ■ ended. Choose a node to see what could have come next.",
    ),
    el("div", { class: "card tree", tabindex: "0", role: "region", "aria-label": "Beam tree" }, drawing),
    el(
      "div",
      { class: "split even" },
      side,
      el("div", { class: "card" }, el("h3", {}, "Finished, best first"), el("div", { class: "wide" }, results)),
    ),
  );
  candidates(first);
}

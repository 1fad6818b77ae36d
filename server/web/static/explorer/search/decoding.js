// The decoding of a sentence: the tree of beams and the candidates of every step.
import { chance, decimal, el, noted, observe, paragraph, svg, textButton } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { save } from "../../common/server.js";

const STEP = 104,
  ROW = 38,
  NODE = 88,
  EDGE = 8;

/** Returns the nodes of the search, first the start: {step, row, parent, piece, total, pieces, dead, win, finished}. */
function nodes(trace) {
  const layers = [[{ step: -1, row: 0, parent: null, piece: say("start"), total: 0, pieces: [] }]];
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
        piece: "■ " + say("end"),
        total: end.total,
        pieces: before[end.parent].pieces,
        finished: true,
      };
      ends.push(node);
    }
    layers.push(next);
  });
  const all = [...layers.flat(), ...ends],
    best = trace.hypotheses[0];
  const same = (node) =>
    best && node.pieces.length === best.pieces.length && node.pieces.every((piece, i) => piece === best.pieces[i]);
  const last = ends.find(same) || layers[layers.length - 1].find(same);
  for (let node = last; node; node = node.parent) node.win = true;
  const alive = new Set();
  for (const end of [...ends, ...layers[layers.length - 1]])
    for (let node = end; node; node = node.parent) alive.add(node);
  for (const node of all) node.dead = !alive.has(node);
  return all;
}

/** Places the nodes in as many bands as the width in pixels needs: a band begins with the step that the one above it ends with.
 * Returns {band(node), place(node, band), width, height}. */
function layout(all, width) {
  const steps = Math.max(1, Math.floor((width - 2 * EDGE - NODE) / STEP)), // of a band, beside the one that is repeated
    band = (node) => Math.max(0, Math.floor(node.step / steps)),
    rows = [];
  for (const node of all)
    for (const each of [node, node.parent || node]) rows[band(node)] = Math.max(rows[band(node)] || 0, each.row + 1);
  const tops = [EDGE];
  for (const count of rows) tops.push(tops[tops.length - 1] + count * ROW + EDGE);
  const place = (node, at) => [EDGE + (node.step + 1 - at * steps) * STEP, tops[at] + node.row * ROW];
  const last = Math.max(...all.map((node) => place(node, band(node))[0]));
  return { band, place, width: last + NODE + EDGE, height: tops[rows.length] };
}
/** Draws the tree. `choose(node)` is called with the selected node. */
function tree(all, room, choose) {
  const { band, place, width, height } = layout(all, room);
  const drawing = svg("svg", { width, height, role: "group", "aria-label": say("Beam tree") });
  const box = (node, at, kind, attributes) =>
    svg(
      "g",
      {
        class: `node${node.win ? " win" : ""}${node.dead ? " dead" : ""}${kind}`,
        transform: `translate(${place(node, at).join(" ")})`,
        ...attributes,
      },
      svg("rect", { width: NODE, height: 28, rx: 7 }),
      svg("text", { x: 8, y: 18 }, shown(node)),
    );
  const pick = (group, node) => {
    drawing.querySelectorAll(".at").forEach((other) => other.classList.remove("at"));
    group.classList.add("at");
    choose(node);
  };
  const repeated = new Set();
  for (const node of all.filter(({ parent }) => parent)) {
    const at = band(node),
      [a, b] = place(node.parent, at),
      [c, d] = place(node, at);
    if (band(node.parent) !== at) repeated.add(node.parent);
    const path = `M${a + NODE} ${b + 14}C${a + NODE + 10} ${b + 14} ${c - 10} ${d + 14} ${c} ${d + 14}`;
    drawing.append(svg("path", { class: "edge" + (node.win ? " win" : ""), d: path }));
  }
  for (const node of repeated) drawing.append(box(node, band(node) + 1, " repeated", { "aria-hidden": "true" }));
  for (const node of all) {
    const fate = node.dead ? say("died here or later") : node.win ? say("in the winner") : say("alive"),
      name = `${shown(node)} · ${say("step {0}", node.step + 1)}: ${node.piece}, ${fate}`;
    const group = box(node, band(node), "", { tabindex: "0", role: "button", "aria-label": name });
    group.append(svg("title", {}, `${node.pieces.join(" ")}  ${decimal(node.total, 2)}`));
    group.addEventListener("click", () => pick(group, node));
    group.addEventListener(
      "keydown",
      (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), pick(group, node)),
    );
    drawing.append(group);
  }
  return drawing;
}
const shown = (node) => fitting((node.dead ? "✕ " : "") + node.piece);
const pen = document.createElement("canvas").getContext("2d");
/** Returns a text that fits into a node. */
function fitting(text) {
  pen.font = "13px system-ui, sans-serif";
  const characters = [...text];
  while (characters.length > 1 && pen.measureText(characters.join("")).width > NODE - 2 * EDGE)
    characters.splice(-2, 2, "…");
  return characters.join("");
}
/** Saves a drawing of the page as an SVG with its colours. */
function saveDrawing(drawing, file) {
  const copy = drawing.cloneNode(true),
    all = [...copy.querySelectorAll("*")];
  drawing.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family"])
      all[i].setAttribute(name, style.getPropertyValue(name));
  });
  copy.style.background = getComputedStyle(drawing.parentElement).backgroundColor;
  save(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }), file);
}

export const bars = (candidates, picked) =>
  el(
    "div.bars",
    ...candidates.flatMap(([piece, score]) => {
      const bar = el("i");
      bar.style.width = Math.max(0.5, 100 * Math.exp(score)) + "%";
      return [
        el("span", { class: picked.includes(piece) ? "picked" : "" }, piece + (picked.includes(piece) ? " ✓" : "")),
        bar,
        el("span.n", chance(score)),
      ];
    }),
  );

/** Shows the decoding panel: the tree, and the candidates after the selected node. `watch(number)` shows a hypothesis in the
 * film. */
export function decoding(host, trace, watch) {
  const side = el("div.card");
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
        say(node.pieces.length ? "After" : "First") + " ",
        el("span.note", node.pieces.join(" ").replaceAll("▁", "") || say("nothing is written yet")),
      ),
      paragraph(
        [
          say("step {0}", node.step + 1),
          say("log-probability {0}", decimal(node.total, 2)),
          ...(node.dead ? [say("this branch died: others were likelier")] : node.win ? [say("in the winner")] : []),
        ].join(" · "),
        "note",
      ),
      row
        ? bars(row, picked)
        : paragraph(node.finished ? say("The sentence ended here.") : say("The search had ended.")),
    );
  }
  const found = nodes(trace),
    card = el("div.card.tree");
  const draw = () => {
    const room = card.clientWidth - 2 * Number.parseFloat(getComputedStyle(card).paddingLeft);
    if (room > 0) card.replaceChildren(tree(found, room, candidates));
  };
  const results = el(
    "table",
    el(
      "tbody",
      ...trace.hypotheses.map((h, i) =>
        el(
          "tr",
          el("td.n", `${i + 1}.`),
          el("td", h.text, el("div.note", `${decimal(h.score, 3)} · ${say("{0} pieces", h.scores.length)}`)),
          el(
            "td",
            textButton(say("Watch"), () => watch(i), "quiet"),
          ),
        ),
      ),
    ),
  );
  host.replaceChildren(
    noted(
      "Every step from left to right. The thick line became the translation, ✕ died because other beams were likelier, ■ ended. Choose a node to see what could have come next.",
    ),
    card,
    textButton(say("Download"), () => saveDrawing(card.firstChild, "search.svg"), "quiet"),
    el("div.split.even", side, el("div.card", el("h3", say("Finished, best first")), el("div.wide", results))),
  );
  candidates(found[0]);
  draw();
  observe(card, draw);
}

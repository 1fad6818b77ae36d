// The attention panel: all views of one result. Used by the explorer and by reports.
import { decimal, el, noted, paragraph, segmented, select } from "../../common/dom.js";
import { say } from "../../common/sentences.js";
import { scaleBar } from "./colour.js";
import { figures, role, thumbnails } from "./heads.js";
import { heat } from "./heat.js";
import { lines } from "./lines.js";
import { best, chosen, kinds, pick } from "./maps.js";
import { worth, worthOfLayers } from "./worth.js";

const DESCRIPTIONS = {
  cross: "Each word of the translation (row) and the source words (columns) it looked at.",
  encoder: "Each source word (row) and the source words (columns) it looked at.",
  decoder:
    "Each word of the translation (row) and what was already written (columns). The empty triangle is the mask: no look ahead.",
};
const METHODS = {
  combined:
    "Which words belong together, by attention and further evidence: the similarity of the encoder states of both sentences, and the probability that the model translates one word into the other.",
  attention:
    "Which words belong together, by what source words contribute to one layer of cross-attention, by spelling and by order.",
};
/** Returns all kinds of maps, those that the model does not have too. */
const choices = () => [...kinds(), ["alignment", say("Alignment")]];
export const start = () => ({ kind: "cross", layer: null, head: "mean", level: "word", view: "map", special: false });

/** Draws the panel into `host` and updates `state` (see `start`). `onPoint(state, query, key)` is called with the words
 * or pieces under the pointer; `link.point(query, key)` marks some. */
export function panel(host, result, state, given = {}) {
  const options = { onPoint() {}, changed() {}, tools: () => [], link: {}, ...given };
  if (result.absent?.[state.kind]) return absent(host, result, state, options);
  const aligning = state.kind === "alignment";
  const [layers, heads] = result.maps[aligning ? "cross" : state.kind].shape;
  if (state.layer === null || state.layer >= layers)
    state.layer = state.kind === "cross" ? Math.min(best(result).layer, layers - 1) : layers - 1;
  if ((typeof state.head === "number" && state.head >= heads) || (state.head === "rollout" && result.absent))
    state.head = "mean";
  const set = (change) => {
    Object.assign(state, change);
    options.changed(state);
    panel(host, result, state, options);
  };
  const keep = (name) => (value) => {
    set({ [name]: value, ...(name === "kind" ? { layer: null } : {}) });
    host
      .querySelector(
        `[aria-label="${say({ kind: "Attention", view: "View", level: "Level", layer: "Layer", head: "Head" }[name])}"]`,
      )
      ?.querySelector('[aria-checked="true"]')
      ?.focus();
  };
  const range = (n) => [...Array(n).keys()];
  const headOptions = [
    ["mean", say("mean of heads")],
    ["max", say("max of heads")],
    ...range(heads).map((h) => [h, say("head {0}", h)]),
    ...(result.absent ? [] : [["rollout", say("rollout")]]),
  ];
  const controls = el("div.controls", segmented(say("Attention"), choices(), state.kind, keep("kind")));
  const body = el("div");
  options.link.point = () => {};
  host.replaceChildren(controls, body);
  if (!aligning)
    controls.append(
      segmented(
        say("View"),
        [
          ["map", say("Map & lines")],
          ["model", say("All heads")],
          ["figures", say("Numbers")],
        ],
        state.view,
        keep("view"),
      ),
      segmented(
        say("Level"),
        [
          ["word", say("words")],
          ["piece", say("pieces")],
        ],
        state.level,
        keep("level"),
      ),
    );
  if (!aligning && state.view === "map")
    controls.append(
      select(
        say("Layer"),
        range(layers).map((l) => [l, say("layer {0}", l)]),
        state.layer,
        keep("layer"),
      ),
      select(say("Head"), headOptions, state.head, keep("head")),
    );
  if (!aligning && state.view !== "figures")
    controls.append(
      el(
        "label.note",
        el("input", {
          type: "checkbox",
          checked: state.special,
          onchange: (event) => set({ special: event.target.checked }),
        }),
        ` ${say("special tokens")}`,
      ),
    );
  const tools = options.tools(state);
  if (aligning) wordLinks(body, result, state, tools, options);
  else if (state.view === "map") mapAndLines(body, result, state, tools, options);
  else if (state.view === "model") {
    const grid = el("div");
    body.append(
      el(
        "p.note",
        say("Every head of every layer, all in the same colours; choose one to enlarge it."),
        ` ${worthOfLayers(result, state.kind)}`,
      ),
      el("div.row", ...tools),
      scaleBar(),
      grid,
    );
    thumbnails(grid, result, state.kind, {
      level: state.level,
      special: state.special,
      choose: (layer, head) => set({ layer, head, view: "map" }),
      state: (layer, head) => ({ current: layer === state.layer && head === state.head }),
    });
  } else {
    body.append(el("div.row", ...tools));
    figures(body, result, state.kind, (layer, head) => set({ layer, head, view: "map" }));
  }
}

/** Says why the model does not have maps of this kind, and shows the forget gates of a recurrence. */
function absent(host, result, state, options) {
  const keep = (kind) => {
    Object.assign(state, { kind, layer: null });
    options.changed(state);
    panel(host, result, state, options);
    host.querySelector(`[aria-label="${say("Attention")}"] [aria-checked="true"]`)?.focus();
  };
  options.link.point = () => {};
  const gates = result.forget_gates,
    map = el("div");
  host.replaceChildren(
    el("div.controls", segmented(say("Attention"), choices(), state.kind, keep)),
    el("p.note", { id: "absent" }, say(result.absent[state.kind])),
    ...(gates
      ? [
          noted(
            "Forget gates: the share of its state that a layer (row) keeps when it reads a piece (column), averaged over the features.",
          ),
          map,
        ]
      : []),
  );
  if (gates)
    heat(
      map,
      {
        rows: gates.length,
        columns: gates[0].length,
        queries: gates.map((_, layer) => say("layer {0}", layer)),
        keys: result.decoder_input.pieces,
        data: Float32Array.from(gates.flat()),
      },
      { label: say("Forget gates"), verb: say("keeps at") },
    );
}

function mapAndLines(body, result, state, tools, { onPoint, link }) {
  const of = (head) => pick(result, state.kind, state.layer, head, state.level, state.special),
    map = of(state.head);
  const head = typeof state.head === "number" ? say("head {0}", state.head) : say(state.head),
    name = `${say(state.kind)}, ${say("layer {0}", state.layer)}, ${head}`;
  const one =
    typeof state.head === "number" && result.figures ? result.figures[state.kind][state.layer][state.head] : null;
  const several = state.head === "mean" || state.head === "max";
  const maps = several ? [...Array(result.maps[state.kind].shape[1]).keys()].map(of) : [map];
  const hidden = state.special
    ? ""
    : " " + say("Weights on special tokens (the end of sentence, the language tag) are not shown.");
  draw(body, map, maps, {
    note: `${say(DESCRIPTIONS[state.kind])}${hidden} ${worth(result, state.kind, state.layer, state.head)}`,
    title: say("Heat map") + " ",
    name: name + (one ? ` · ${role(one)}, ${say("{0} bits", decimal(one.entropy, 2))}` : ""),
    tools,
    link,
    options: { label: name },
    report: (query, key) => onPoint(state, query, key),
  });
}
function wordLinks(body, result, state, tools, { onPoint, link }) {
  const real = (side) => [...side.words.keys()].filter((i) => side.words[i].start < side.words[i].end);
  const { source, target, alignment } = result,
    columns = source.words.length;
  const data = new Float32Array(target.words.length * columns);
  for (const [s, t, weight] of alignment.links) data[t * columns + s] = weight;
  const all = {
    rows: target.words.length,
    columns,
    data,
    queries: target.words.map((w) => w.text),
    keys: source.words.map((w) => w.text),
  };
  const map = chosen(all, real(target), real(source));
  draw(body, map, [map], {
    note: say(METHODS[alignment.method]),
    title: say("Word alignment") + " ",
    name: alignment.method === "attention" ? say("by attention") : say("by all evidence"),
    tools,
    link,
    options: { label: say("Word alignment"), verb: say("belongs to") },
    report: (query, key) => onPoint(state, query, key),
  });
}
/** Draws a heat map and lines beside each other. Pointing at one of them marks the other. */
function draw(body, map, maps, { note, title, name, tools, link, options, report }) {
  const grid = el("div"),
    lineView = el("div"),
    views = {};
  body.append(
    paragraph(note, "note"),
    el(
      "div.split",
      el("div.card", el("h3", title, el("span.note", name), el("span.row.tools", ...tools)), grid),
      el("div.card", el("h3", say("Lines")), lineView),
    ),
  );
  const pointed = (other) => (query, key) => {
    views[other].point(query, query === null ? key : null);
    report(query === null ? null : map.queryAt[query], key === null ? null : map.keyAt[key]);
  };
  views.heat = heat(grid, map, { ...options, onPoint: pointed("lines") });
  views.lines = lines(lineView, maps, { names: maps.map((_, h) => say("head {0}", h)), onPoint: pointed("heat") });
  link.point = (query, key) => {
    const [i, j] = [map.queryAt.indexOf(query), map.keyAt.indexOf(key)];
    views.heat.point(i, j);
    views.lines.point(i < 0 ? null : i, j < 0 ? null : j);
  };
}

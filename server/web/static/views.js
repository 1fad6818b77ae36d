// Draws attention maps: heat map, line view, thumbnails. Used by the explorer and by reports.
"use strict";
const Views = (() => {
  const HUES = ["#4e79a7", "#e8710a", "#2f9e44", "#d6336c", "#7950f2", "#1098ad", "#a0640f", "#5c6b7a"];

  // -- DOM helpers; text is inserted as text nodes, never as markup ---------------------------------------------------
  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "class") node.className = value;
      else if (name in node && typeof value === "boolean") node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }
  const SVG = "http://www.w3.org/2000/svg";
  function svg(tag, attributes = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }
  const percent = (share) => (share >= 0.0995 ? Math.round(100 * share) : share >= 0.001 ? (100 * share).toFixed(1) : "<0.1") + " %";
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const chance = (score) => percent(Math.exp(score));

  /** A radio group of options [[value, label], ...]. Arrow keys change the choice. */
  function segmented(label, options, value, choose) {
    const group = el("div", { class: "seg", role: "radiogroup", "aria-label": label });
    const show = () => [...group.children].forEach((button, i) => {
      button.setAttribute("aria-checked", options[i][0] === value);
      button.tabIndex = options[i][0] === value ? 0 : -1;
    });
    const pick = (i, focus) => {
      value = options[i][0];
      show();
      if (focus) group.children[i].focus();
      choose(value);
    };
    options.forEach(([, text], i) => group.append(el("button", { type: "button", role: "radio", onclick: () => pick(i) }, text)));
    group.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!move) return;
      event.preventDefault();
      pick((options.findIndex(([v]) => v === value) + move + options.length) % options.length, true);
    });
    show();
    return group;
  }
  function select(label, options, value, choose) {
    const node = el("select", { "aria-label": label, onchange: () => choose(options[node.selectedIndex][0]) });
    for (const [key, text] of options) node.append(el("option", { value: key, selected: key === value }, text));
    return node;
  }

  // -- data ---------------------------------------------------------------------------------------------------------
  /** Decodes an answer of GET /attention?numbers=uint16: adds `maps[kind]` = {shape, data}. */
  function unpack(result) {
    result.maps = {};
    for (const kind of Object.keys(result.shapes)) {
      const bytes = Uint8Array.from(atob(result[kind]), (c) => c.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      const data = new Float32Array(bytes.length / 2);
      for (let i = 0; i < data.length; i++) data[i] = view.getUint16(2 * i, true) / 65535;
      result.maps[kind] = { shape: result.shapes[kind], data };
      delete result[kind];
    }
    return result;
  }
  function sides(result, kind) {
    const { source, target, decoder_input: input } = result;
    return { cross: [target, source], encoder: [source, source], decoder: [target, input] }[kind];
  }
  const slice = (map, layer, head) => {
    const [, heads, rows, columns] = map.shape;
    const at = (layer * heads + head) * rows * columns;
    return { rows, columns, data: map.data.subarray(at, at + rows * columns) };
  };
  function combine(map, layer, how) {
    const heads = map.shape[1], first = slice(map, layer, 0);
    const data = new Float32Array(first.data);
    for (let head = 1; head < heads; head++) {
      const next = slice(map, layer, head).data;
      for (let i = 0; i < data.length; i++) data[i] = how === "max" ? Math.max(data[i], next[i]) : data[i] + next[i];
    }
    if (how === "mean") for (let i = 0; i < data.length; i++) data[i] /= heads;
    return { ...first, data };
  }
  const identity = (n) => Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0));
  function product(a, b, rows, inner, columns) {
    const out = new Float32Array(rows * columns);
    for (let i = 0; i < rows; i++)
      for (let k = 0; k < inner; k++) {
        const w = a[i * inner + k];
        if (w) for (let j = 0; j < columns; j++) out[i * columns + j] += w * b[k * columns + j];
      }
    return out;
  }
  const average = (a, b) => a.map((w, i) => 0.5 * w + 0.5 * b[i]);
  /** Returns attention rollout after `layer`. Residual connections count as half (Abnar & Zuidema 2020). */
  function rollout(result, kind, layer) {
    const { encoder, decoder, cross } = result.maps;
    const S = encoder.shape[2], T = decoder.shape[2];
    let source = identity(S);
    const depth = kind === "encoder" ? layer + 1 : encoder.shape[0];
    for (let l = 0; l < depth; l++) source = average(source, product(combine(encoder, l, "mean").data, source, S, S, S));
    if (kind === "encoder") return { rows: S, columns: S, data: source };
    let written = identity(T), read = new Float32Array(T * S);
    for (let l = 0; l <= layer; l++) {
      const own = combine(decoder, l, "mean").data;
      written = average(written, product(own, written, T, T, T)).map((w) => 0.5 * w);
      read = average(average(read, product(own, read, T, T, S)), product(combine(cross, l, "mean").data, source, T, S, S));
    }
    return kind === "decoder" ? { rows: T, columns: T, data: written } : { rows: T, columns: S, data: read };
  }
  /** Returns weights between words: summed over the pieces of a key, averaged over the pieces of a query. */
  function byWord(map, queries, keys) {
    const data = new Float32Array(queries.length * keys.length);
    const word = new Int32Array(map.columns);
    keys.forEach((key, j) => key.pieces.forEach((k) => (word[k] = j)));
    queries.forEach((query, i) => query.pieces.forEach((q) => {
      for (let k = 0; k < map.columns; k++) data[i * keys.length + word[k]] += map.data[q * map.columns + k] / query.pieces.length;
    }));
    return { rows: queries.length, columns: keys.length, data };
  }
  /** Returns one map with its labels. `head` is a number, "mean", "max" or "rollout"; `level` "word" or "piece". */
  function pick(result, kind, layer, head, level) {
    const raw = result.maps[kind];
    layer = Math.min(layer, raw.shape[0] - 1);
    const map = head === "rollout" ? rollout(result, kind, layer)
      : typeof head === "number" ? slice(raw, layer, Math.min(head, raw.shape[1] - 1)) : combine(raw, layer, head);
    const [queries, keys] = sides(result, kind);
    if (level === "word") return { ...byWord(map, queries.words, keys.words), queries: queries.words.map((w) => w.text), keys: keys.words.map((w) => w.text) };
    return { ...map, queries: queries.pieces, keys: keys.pieces };
  }
  /** Returns the best alignment head without shift, so that a row of its map belongs to the word of that row. */
  const best = (result) => result.alignment.heads.find((head) => !head.shift) || { layer: result.maps.cross.shape[0] - 1, head: 0 };
  /** Returns the soft word alignment (target words x source words) by the heads that the model folder names. */
  function aligned(result) {
    const raw = result.maps.cross, { rows, columns } = slice(raw, 0, 0), data = new Float32Array(rows * columns);
    for (const { layer, head, shift } of result.alignment.heads) {
      const map = head === null ? combine(raw, layer, "mean").data : slice(raw, layer, head).data;
      for (let q = 0; q < rows; q++) {
        const from = shift ? Math.min(q + 1, rows - 1) : q;
        for (let k = 0; k < columns; k++) data[q * columns + k] += map[from * columns + k] / result.alignment.heads.length;
      }
    }
    return byWord({ rows, columns, data }, result.target.words, result.source.words);
  }

  // -- colour -------------------------------------------------------------------------------------------------------
  function rgb(text) {
    const n = parseInt(text.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  }
  const ramps = {};
  /** Returns 256 colours from weight 0 to the largest weight, as 32-bit pixels. One table per theme. */
  function ramp() {
    const theme = document.documentElement.dataset.theme;
    if (ramps[theme]) return ramps[theme];
    const stops = ["--heat0", "--heat1", "--heat2"].map((name) => rgb(color(name)));
    const bytes = new Uint8ClampedArray(1024);
    for (let i = 0; i < 256; i++) {
      const x = (i / 255) * 2, low = Math.min(1, Math.floor(x)), a = stops[low], b = stops[low + 1];
      for (let c = 0; c < 3; c++) bytes[4 * i + c] = a[c] + (b[c] - a[c]) * (x - low);
      bytes[4 * i + 3] = 255;
    }
    return (ramps[theme] = new Uint32Array(bytes.buffer));
  }
  function paint(map, top) {
    const canvas = document.createElement("canvas"), { data } = map;
    canvas.width = map.columns;
    canvas.height = map.rows;
    const context = canvas.getContext("2d"), image = context.createImageData(map.columns, map.rows), table = ramp();
    const pixels = new Uint32Array(image.data.buffer);
    if (!top) {
      top = 0.2;
      for (let i = 0; i < data.length; i++) if (data[i] > top) top = data[i];
    }
    for (let i = 0; i < data.length; i++) pixels[i] = table[Math.round(255 * Math.min(1, Math.max(0, data[i] / top) ** 0.8))];
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // -- heat map -----------------------------------------------------------------------------------------------------
  /** Draws a labelled heat map into `host`. `onPoint(query, key)` is called with the position of the pointer or the arrow keys (null: none). */
  function heat(host, map, { label = "Attention", onPoint = () => {}, format = percent, verb = "looks at", top } = {}) {
    const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `${label}: ${map.rows} queries by ${map.columns} keys. Arrow keys read single weights.` });
    const tip = el("div", { class: "tip", hidden: true }), frame = el("div", { class: "heat" }, canvas, tip);
    const readout = el("div", { class: "readout", "aria-live": "polite" });
    host.replaceChildren(frame, readout);
    let at = null, cell = 0, left = 0, head = 0, image = paint(map, top);
    const short = (text, room) => (text.length > room ? text.slice(0, room - 1) + "…" : text);
    function draw() {
      const context = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
      const font = "px system-ui, sans-serif";
      const width = Math.max(220, host.clientWidth || 600);
      context.font = 13 + font;
      const longest = (labels) => labels.reduce((most, text) => Math.max(most, context.measureText(short(text, 18)).width), 0);
      left = Math.min(width * 0.34, longest(map.queries) + 12);
      cell = Math.max(7, Math.min(40, (width - left - 34) / map.columns));
      const size = Math.max(8, Math.min(13, cell * 0.8)), step = Math.ceil(9 / cell);
      head = Math.min(120, longest(map.keys) * 0.82 * (size / 13) + 16);
      const full = [left + cell * map.columns + 34, head + cell * map.rows + 2];
      canvas.width = full[0] * ratio;
      canvas.height = full[1] * ratio;
      canvas.style.width = full[0] + "px";
      canvas.style.height = full[1] + "px";
      context.scale(ratio, ratio);
      context.imageSmoothingEnabled = false;
      context.drawImage(image, left, head, cell * map.columns, cell * map.rows);
      context.font = size + font;
      const ink = color("--ink"), soft = color("--soft"), warm = color("--warm");
      map.queries.forEach((text, i) => {
        if (i % step && at?.[0] !== i) return;
        context.fillStyle = at?.[0] === i ? warm : /^<|^>>/.test(text) ? soft : ink;
        context.textAlign = "right";
        context.textBaseline = "middle";
        context.fillText(short(text, 18), left - 6, head + cell * (i + 0.5));
      });
      map.keys.forEach((text, j) => {
        if (j % step && at?.[1] !== j) return;
        context.save();
        context.translate(left + cell * (j + 0.5) - 2, head - 6);
        context.rotate(-Math.PI / 3.2);
        context.fillStyle = at?.[1] === j ? warm : /^<|^>>/.test(text) ? soft : ink;
        context.textAlign = "left";
        context.fillText(short(text, 18), 0, 0);
        context.restore();
      });
      if (at) {
        context.strokeStyle = warm;
        context.lineWidth = 2;
        context.strokeRect(left + cell * at[1], head + cell * at[0], cell, cell);
        context.globalAlpha = 0.25;
        context.strokeRect(left, head + cell * at[0], cell * map.columns, cell);
        context.strokeRect(left + cell * at[1], head, cell, cell * map.rows);
      }
    }
    function point(next, quiet) {
      if (at?.[0] === next?.[0] && at?.[1] === next?.[1]) return;
      at = next;
      draw();
      tip.hidden = !at;
      if (at) {
        const [i, j] = at, text = `${map.queries[i]} ${verb} ${map.keys[j]}: ${format(map.data[i * map.columns + j])}`;
        tip.textContent = text;
        tip.style.left = Math.max(80, left + cell * (j + 0.5)) + "px";
        tip.style.top = Math.max(34, head + cell * i) + "px";
        readout.textContent = text;
      } else readout.textContent = "";
      if (!quiet) onPoint(at ? at[0] : null, at ? at[1] : null);
    }
    const find = (event) => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / cell), i = Math.floor((event.clientY - box.top - head) / cell);
      return i >= 0 && j >= 0 && i < map.rows && j < map.columns ? [i, j] : null;
    };
    canvas.addEventListener("pointermove", (event) => point(find(event)));
    canvas.addEventListener("pointerdown", (event) => point(find(event)));
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (event.key === "Escape") point(null);
      if (!move) return;
      event.preventDefault();
      const [i, j] = at || [0, -1];
      point([Math.min(map.rows - 1, Math.max(0, i + move[0])), Math.min(map.columns - 1, Math.max(0, j + move[1]))]);
    });
    const redraw = () => { image = paint(map, top); draw(); };
    observe(host, redraw);
    draw();
    return { point: (query, key) => point(query === null ? null : [query, key], true), canvas };
  }

  // Redraws a host when its width or the theme changes. One observer serves all hosts; references to hosts are weak.
  const watched = new WeakMap();
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const seen = watched.get(target);
      if (seen && Math.abs(seen.width - target.clientWidth) > 1) {
        seen.width = target.clientWidth;
        seen.draw();
      }
    }
  });
  const hosts = new Set();
  function observe(host, draw) {
    watched.set(host, { width: host.clientWidth, draw });
    hosts.add(new WeakRef(host));
    sizes.observe(host);
  }
  function repaint() {
    for (const reference of hosts) {
      const host = reference.deref();
      if (host?.isConnected) watched.get(host)?.draw();
      else hosts.delete(reference);
    }
  }

  // -- line view ----------------------------------------------------------------------------------------------------
  /** Draws queries on the left, keys on the right and a line per weight. `maps` has one map per head, `hues` their colours. */
  function lines(host, maps, { hues = HUES, names = [], onPoint = () => {} } = {}) {
    const [first] = maps;
    const shown = maps.map(() => true);
    const canvas = el("canvas", { role: "img", "aria-label": "Lines from each query to the keys it looks at; the words left and right can be chosen." });
    const column = (labels, side) => el("div", { class: side }, ...labels.map((text, i) => el("button", {
      type: "button", title: text,
      onpointerenter: (event) => event.pointerType === "mouse" && focus(side, i), onpointerleave: (event) => event.pointerType === "mouse" && focus(null),
      onfocus: () => focus(side, i), onclick: () => focus(side, i), onblur: () => focus(null),
    }, text)));
    const left = column(first.queries, "left"), right = column(first.keys, "right");
    const legend = el("div", { class: "legend", role: "group", "aria-label": "Heads shown" });
    if (maps.length > 1) names.forEach((name, i) => {
      const button = el("button", { type: "button", "aria-pressed": "true", onclick: () => {
        shown[i] = !shown[i];
        button.setAttribute("aria-pressed", shown[i]);
        draw();
      } }, name);
      button.style.setProperty("--hue", hues[i % hues.length]);
      legend.append(button);
    });
    host.replaceChildren(legend, el("div", { class: "lines" }, left, canvas, right));
    let on = null;
    function focus(side, i) {
      on = side ? [side, i] : null;
      const count = shown.filter(Boolean).length || 1;
      const share = (query, key) => maps.reduce((sum, map, m) => sum + (shown[m] ? map.data[query * map.columns + key] : 0), 0) / count;
      [...left.children].forEach((node, q) => mark(node, on && side === "right" ? share(q, i) : 0, side === "left" && q === i));
      [...right.children].forEach((node, k) => mark(node, on && side === "left" ? share(i, k) : 0, side === "right" && k === i));
      draw();
      onPoint(side === "left" ? i : null, side === "right" ? i : null);
    }
    const mark = (node, weight, chosen) => {
      node.style.background = weight > 0.005 ? `rgb(${color("--glow")} / ${Math.min(0.6, 0.65 * Math.sqrt(weight)).toFixed(3)})` : "";
      node.classList.toggle("on", Boolean(chosen));
    };
    function draw() {
      const width = canvas.clientWidth || 200, height = Math.max(first.rows, first.columns) * 26, ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.height = height + "px";
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      const alone = shown.filter(Boolean).length === 1 && maps.length === 1;
      maps.forEach((map, m) => {
        if (!shown[m]) return;
        context.strokeStyle = alone ? color("--accent") : hues[m % hues.length];
        for (let q = 0; q < map.rows; q++)
          for (let k = 0; k < map.columns; k++) {
            const weight = map.data[q * map.columns + k];
            if (weight < 0.015 || (on && (on[0] === "left" ? on[1] !== q : on[1] !== k))) continue;
            context.globalAlpha = Math.min(1, weight * (on ? 1.6 : 1) + 0.02);
            context.lineWidth = 0.8 + 3 * weight;
            context.beginPath();
            context.moveTo(0, 26 * q + 13);
            context.bezierCurveTo(width * 0.45, 26 * q + 13, width * 0.55, 26 * k + 13, width, 26 * k + 13);
            context.stroke();
          }
      });
    }
    observe(host, draw);
    requestAnimationFrame(draw);
    return { draw };
  }

  // -- model view ---------------------------------------------------------------------------------------------------
  /** Draws layers x heads as thumbnails. `choose(layer, head)` is called on a click; `state(layer, head)` returns {current, pressed}. */
  function model(host, result, kind, { choose, state = () => ({}), level = "piece" }) {
    const [layers, heads] = result.maps[kind].shape;
    const grid = el("div", { class: "model" });
    grid.style.setProperty("--heads", heads);
    const jobs = [];
    for (let layer = 0; layer < layers; layer++) {
      const row = el("div", { class: "layer", role: "group", "aria-label": `Layer ${layer}` }, el("span", {}, `layer ${layer}`));
      for (let head = 0; head < heads; head++) {
        const figures = result.figures?.[kind]?.[layer]?.[head], { current, pressed } = state(layer, head);
        const picture = el("canvas", { "aria-hidden": "true" });
        const button = el("button", { type: "button", class: "thumb", onclick: () => choose(layer, head, button),
          title: figures ? `entropy ${figures.entropy.toFixed(2)} bits, diagonality ${figures.diagonality.toFixed(2)}` : "" },
          picture, el("small", {}, `head ${head}${figures ? " · " + role(figures).replace(/ token| of sentence/, "") : ""}`));
        button.setAttribute("aria-label", `${kind} layer ${layer} head ${head}${figures ? ", " + role(figures) : ""}`);
        if (current) button.setAttribute("aria-current", "true");
        if (pressed !== undefined) button.setAttribute("aria-pressed", pressed);
        jobs.push(() => {
          const map = level === "word" ? pick(result, kind, layer, head, "word") : slice(result.maps[kind], layer, head), small = paint(map);
          picture.width = small.width;
          picture.height = small.height;
          picture.getContext("2d").drawImage(small, 0, 0);
        });
        row.append(button);
      }
      grid.append(row);
    }
    host.replaceChildren(grid);
    const draw = () => jobs.forEach((job) => job());
    draw();
    observe(host, draw);
  }
  const role = (figures) => ({ end: "end of sentence", start: "first token", previous: "previous token", next: "next token", same: "same token" })[figures.role] || figures.role;

  /** Shows entropy, diagonality and role of every head as a table. */
  function table(host, result, kind, choose) {
    const body = el("tbody");
    result.figures[kind].forEach((row, layer) => row.forEach((f, head) => body.append(el("tr", {},
      el("td", {}, el("button", { type: "button", class: "quiet", onclick: () => choose(layer, head) }, `layer ${layer}, head ${head}`)),
      el("td", {}, role(f) + (f.role_share ? ` (${percent(f.role_share)} of queries)` : "")),
      ...[f.entropy.toFixed(2), percent(f.spread), f.diagonality.toFixed(2)].map((n) => el("td", { class: "n" }, n))))));
    host.replaceChildren(el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {},
      ...["head", "looks mostly at", "entropy (bits)", "of the largest", "diagonality"].map((t) => el("th", { scope: "col" }, t)))), body)));
  }
  /** Draws one number per head as a heat map of layers x heads. */
  function byHead(host, result, kind, name) {
    const values = result.figures[kind].map((row) => row.map((f) => f[name]));
    heat(host, { rows: values.length, columns: values[0].length, data: Float32Array.from(values.flat()),
      queries: values.map((_, i) => `layer ${i}`), keys: values[0].map((_, i) => `head ${i}`) },
      { label: name, format: (x) => x.toFixed(2), verb: "·", top: Math.max(...values.flat()) || 1 });
  }

  // -- the attention panel: all views of one result -----------------------------------------------------------------
  const KINDS = [["cross", "Cross"], ["encoder", "Encoder"], ["decoder", "Decoder"], ["alignment", "Alignment"]];
  const DESCRIPTIONS = {
    cross: "Each word of the translation (row) and the source words (columns) it looked at.",
    encoder: "Each source word (row) and the source words (columns) it looked at.",
    decoder: "Each word of the translation (row) and what was already written (columns). The empty triangle is the mask: no look ahead.",
  };
  const METHOD_DESCRIPTIONS = {
    combined: "Which words belong together, by attention and further evidence: the similarity of the encoder states of both sentences, and the probability that the model translates one word into the other.",
    attention: "The source word that each word of the translation looked at most, by the heads that align best.",
  };
  const start = () => ({ kind: "cross", layer: null, head: "mean", level: "word", view: "map" });
  /** Draws the panel into `host` and updates `state` (see `start`). `onPoint(state, query, key)` is called with the words under the pointer. */
  function panel(host, result, state, { onPoint = () => {}, changed = () => {}, tools = () => [] } = {}) {
    const aligning = state.kind === "alignment";
    const [layers, heads] = result.maps[aligning ? "cross" : state.kind].shape;
    if (state.layer === null || state.layer >= layers) state.layer = state.kind === "cross" ? Math.min(best(result).layer, layers - 1) : layers - 1;
    if (typeof state.head === "number" && state.head >= heads) state.head = "mean";
    const set = (change) => {
      Object.assign(state, change);
      changed(state);
      panel(host, result, state, { onPoint, changed, tools });
    };
    const keep = (name) => (value) => {
      set({ [name]: value, ...(name === "kind" ? { layer: null } : {}) });
      host.querySelector(`[aria-label="${{ kind: "Attention", view: "View", level: "Level" }[name]}"] [aria-checked="true"]`)?.focus();
    };
    const range = (n) => [...Array(n).keys()];
    const headOptions = [["mean", "mean of heads"], ["max", "max of heads"], ...range(heads).map((h) => [h, `head ${h}`]), ["rollout", "rollout"]];
    const controls = el("div", { class: "controls" }, segmented("Attention", KINDS, state.kind, keep("kind")));
    const body = el("div");
    host.replaceChildren(controls, body);
    if (aligning) return wordLinks(body, result, state, onPoint, tools(state));
    controls.append(
      segmented("View", [["map", "Map & lines"], ["model", "All heads"], ["figures", "Numbers"]], state.view, keep("view")),
      segmented("Level", [["word", "words"], ["piece", "pieces"]], state.level, keep("level")));
    if (state.view === "map") controls.append(
      select("Layer", range(layers).map((l) => [l, `layer ${l}`]), state.layer, keep("layer")),
      select("Head", headOptions, state.head, keep("head")));
    if (state.view === "map") mapAndLines(body, result, state, onPoint, tools(state));
    else if (state.view === "model") {
      const card = el("div");
      body.append(el("p", { class: "note" }, "Every head of every layer; choose one to enlarge it."), card);
      model(card, result, state.kind, { level: state.level, choose: (layer, head) => set({ layer, head, view: "map" }),
        state: (layer, head) => ({ current: layer === state.layer && head === state.head }) });
    } else figures(body, result, state, (layer, head) => set({ layer, head, view: "map" }));
  }
  function mapAndLines(body, result, state, onPoint, tools) {
    const map = pick(result, state.kind, state.layer, state.head, state.level);
    const name = `${state.kind}, layer ${state.layer}, ${typeof state.head === "number" ? "head " + state.head : state.head}`;
    const one = typeof state.head === "number" && result.figures ? result.figures[state.kind][state.layer][state.head] : null;
    const grid = el("div"), lineView = el("div");
    body.append(el("p", { class: "note" }, DESCRIPTIONS[state.kind]), el("div", { class: "split" },
      el("div", { class: "card" }, el("h3", {}, "Heat map ", el("span", { class: "note" }, name + (one ? ` · ${role(one)}, ${one.entropy.toFixed(2)} bits` : "")), el("span", { class: "grow" }), ...tools), grid),
      el("div", { class: "card" }, el("h3", {}, "Lines"), lineView)));
    const several = state.head === "mean" || state.head === "max";
    const maps = several ? [...Array(result.maps[state.kind].shape[1]).keys()].map((h) => pick(result, state.kind, state.layer, h, state.level)) : [map];
    const report = (query, key) => onPoint(state, query, key);
    heat(grid, map, { label: name, onPoint: report });
    lines(lineView, maps, { names: maps.map((_, h) => `head ${h}`), onPoint: report });
  }
  function wordLinks(body, result, state, onPoint, tools) {
    const real = (side) => [...side.words.keys()].filter((i) => side.words[i].start < side.words[i].end);
    const rows = real(result.target), columns = real(result.source), data = new Float32Array(rows.length * columns.length);
    for (const [source, target, weight] of result.alignment.links) data[rows.indexOf(target) * columns.length + columns.indexOf(source)] = weight;
    const map = { rows: rows.length, columns: columns.length, data, queries: rows.map((i) => result.target.words[i].text), keys: columns.map((i) => result.source.words[i].text) };
    const report = (row, column) => onPoint(state, row === null ? null : rows[row], column === null ? null : columns[column]);
    const grid = el("div"), lineView = el("div");
    body.append(el("p", { class: "note" }, METHOD_DESCRIPTIONS[result.alignment.method]), el("div", { class: "split" },
      el("div", { class: "card" }, el("h3", {}, "Word alignment ", el("span", { class: "note" }, result.alignment.method === "attention" ? "by attention" : "by all evidence"), el("span", { class: "grow" }), ...tools), grid),
      el("div", { class: "card" }, el("h3", {}, "Lines"), lineView)));
    heat(grid, map, { label: "Word alignment", onPoint: report, verb: "belongs to", top: 1 });
    lines(lineView, [map], { onPoint: report });
  }
  function figures(body, result, state, choose) {
    const bits = el("div"), diagonal = el("div"), rows = el("div");
    body.append(el("p", { class: "note" }, "Entropy says how widely a head looks (0 bits: one token). Diagonality is 1 for a head that follows the order of the sentence, 0 for one that looks everywhere alike."),
      el("div", { class: "split even" }, el("div", { class: "card" }, el("h3", {}, "Entropy in bits"), bits), el("div", { class: "card" }, el("h3", {}, "Diagonality"), diagonal)), rows);
    byHead(bits, result, state.kind, "entropy");
    byHead(diagonal, result, state.kind, "diagonality");
    table(rows, result, state.kind, choose);
  }

  return { panel, start, best, el, svg, percent, chance, color, segmented, select, unpack, pick, aligned, slice, heat, lines, model, table, byHead, role, repaint, observe, paint, HUES };
})();

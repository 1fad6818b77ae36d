// The explorer: translates a text and shows its attention. Uses the public API of this server only.
"use strict";
(() => {
  const { el, percent, chance } = Views;
  const $ = (id) => document.getElementById(id);
  const EXAMPLES = ["The cat sleeps on the table because it is tired.", "I never said that she stole my money.", "Could you showCount me where the station is, please?"];
  const state = { paragraphs: [], items: [], current: 0, panel: Views.start(), tab: "attention", masked: new Set(), options: {}, done: null, leg: 0 };
  const results = new Map();
  let languages = [], model = null, busy = null;

  // -- requests to the server ---------------------------------------------------------------------------------------
  // A server that requires an API key gets the key that the user typed in once; it is kept in localStorage.
  const key = () => localStorage.getItem("key");
  const withKey = (headers) => (key() ? { ...headers, Authorization: `Bearer ${key()}` } : headers);
  async function ask(path, { body, signal } = {}) {
    const used = key();
    let response;
    try {
      response = await fetch(path, { method: body ? "POST" : "GET", signal, headers: withKey({ Accept: "application/json", ...(body ? { "Content-Type": "application/json" } : {}) }), body: body ? JSON.stringify(body) : undefined });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server cannot be reached.");
    }
    const answer = await response.json().catch(() => ({}));
    if (response.status === 403) {
      const given = key() === used ? prompt(answer.error + " Your key:") : null;
      if (given) localStorage.setItem("key", given.trim());
      if (key() !== used) return ask(path, { body, signal });
    }
    if (!response.ok) throw new Error(answer.error || answer.message || `The server answered ${response.status}.`);
    return answer;
  }
  async function download(path, file) {
    const response = await fetch(path, { headers: withKey({}) });
    if (!response.ok) throw new Error((await response.json()).error);
    const link = el("a", { href: URL.createObjectURL(await response.blob()), download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }
  const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "")).toString();
  function showError(error) {
    if (error?.name === "AbortError") return;
    $("error").textContent = error ? error.message : "";
    $("error").hidden = !error;
  }
  const guard = (work) => (...args) => Promise.resolve(work(...args)).catch(showError);

  // -- translating --------------------------------------------------------------------------------------------------
  async function translate() {
    const text = $("text").value;
    busy?.abort();
    if (!text.trim()) return clear();
    const controller = (busy = new AbortController());
    showError(null);
    $("output").classList.add("busy");
    const lines = text.split("\n"), wanted = lines.map((line, i) => [line, i]).filter(([line]) => line.trim());
    const paragraphs = lines.map((line) => ({ source: line, target: line, sentences: [] }));
    const size = text.length > 1500 ? 4 : wanted.length, began = performance.now();
    $("progress").hidden = size === wanted.length;
    $("progress").max = wanted.length;
    $("progress").value = 0;
    try {
      for (let at = 0; at < wanted.length; at += size) {
        const part = wanted.slice(at, at + size);
        const answer = await ask("/translate", { signal: controller.signal, body: { q: part.map(([line]) => line), ...state.options, beam_size: Number($("beam").value), source: $("from").value, target: $("to").value, details: true } });
        part.forEach(([line, i], j) => {
          const details = answer.details[j], sentences = details.sentences[details.sentences.length - 1] || [];
          paragraphs[i] = { source: line, target: answer.translatedText[j], id: answer.id[j], detected: answer.detectedLanguage?.[j], legs: details.route.length, route: details.route, sentences };
        });
        $("progress").value = at + part.length;
        if (size < wanted.length) show(paragraphs);
      }
    } finally {
      if (busy === controller) {
        $("progress").hidden = true;
        $("output").classList.remove("busy");
      }
    }
    state.done = { text, from: $("from").value, to: $("to").value, beam: $("beam").value, seconds: (performance.now() - began) / 1000 };
    results.clear();
    show(paragraphs);
    remember();
    await open(Math.min(state.wantedSentence ?? 0, Math.max(0, state.items.length - 1)));
    state.wantedSentence = undefined;
  }
  function clear() {
    state.paragraphs = state.items = [];
    $("output").replaceChildren();
    $("mirror").replaceChildren();
    for (const id of ["inside", "copy", "link", "curl", "report", "others", "alternatives"]) $(id).hidden = true;
    $("facts").textContent = $("detected").textContent = $("legend").textContent = "";
    $("examples").hidden = false;
  }

  /** Shows output and mirror with one span per sentence. Words become spans when the attention of their sentence arrives. */
  function show(paragraphs) {
    state.paragraphs = paragraphs;
    state.items = [];
    const output = document.createDocumentFragment(), mirror = document.createDocumentFragment();
    paragraphs.forEach((paragraph, p) => {
      let from = 0, to = 0;
      paragraph.sentences.forEach((sentence, number) => {
        const start = paragraph.legs > 1 ? -1 : paragraph.source.indexOf(sentence.source, from), end = paragraph.target.indexOf(sentence.target, to);
        if (end >= 0) {
          output.append(paragraph.target.slice(to, end));
          to = end + sentence.target.length;
        }
        const index = state.items.length;
        const item = { paragraph, number, sentence, target: el("span", { class: "s", onclick: guard(() => index !== state.current && open(index)) }, sentence.target), source: el("span", { class: "s" }, start < 0 ? "" : sentence.source) };
        if (end >= 0) output.append(item.target);
        if (start >= 0) {
          mirror.append(paragraph.source.slice(from, start), item.source);
          from = start + sentence.source.length;
        }
        if (!sentence.copied) state.items.push(item);
      });
      output.append(paragraph.target.slice(to), p < paragraphs.length - 1 ? "\n" : "");
      mirror.append(paragraph.source.slice(from), "\n");
    });
    $("output").replaceChildren(output);
    $("mirror").replaceChildren(mirror);
    $("examples").hidden = true;
    $("alternatives").hidden = true;
    const first = paragraphs.find((paragraph) => paragraph.id);
    $("detected").textContent = first?.detected ? `detected: ${name(first.detected.language)}` : "";
    for (const id of ["copy", "link", "curl", "report", "others"]) $(id).hidden = !state.items.length;
    $("inside").hidden = !state.items.length;
    if (!state.items.length) $("facts").textContent = "Copied: the model has nothing to translate in this text.";
    sentences();
  }
  function sentences() {
    const strip = $("sentences");
    strip.hidden = state.items.length < 2;
    strip.replaceChildren(...state.items.slice(0, 400).map((item, i) => {
      const average = item.sentence.hypotheses[0] ? mean(item.sentence.hypotheses[0].token_scores) : 0;
      return el("button", { type: "button", "aria-pressed": i === state.current, title: `${item.sentence.source}\n${chance(average)} per piece`, onclick: guard(() => open(i)) }, `${i + 1} ${item.sentence.source}`);
    }));
  }
  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / (numbers.length || 1);
  const name = (code) => languages.find((language) => language.code === code)?.name || code;

  // -- attention ----------------------------------------------------------------------------------------------------
  const address = (item, extra = {}) => ({ id: item.paragraph.id, sentence: item.number, leg: item.paragraph.legs - 1 || null, ...(state.options.masked_heads ? { masked_heads: state.options.masked_heads } : {}), ...extra });
  const pair = (item, translation, extra = {}) => ({ q: item.sentence.source, translation, ...direction(item), ...extra });
  const direction = (item) => { const leg = item.paragraph.route[item.paragraph.legs - 1]; return { source: leg.source, target: leg.target }; };
  async function attentionOf(item) {
    if (!results.has(item)) {
      const wanted = { figures: true, numbers: "uint16", format: "json", ...(state.options.masked_heads ? {} : { alignment: "combined" }) };
      const found = ask("/attention?" + query(address(item, wanted))).catch((error) => {
        // Without a record in the history, the pair of texts gives the same answer.
        if (/no longer kept|no history|No translation has/.test(error.message)) return ask("/attention?" + query(pair(item, item.sentence.target, wanted)));
        throw error;
      }).then(Views.unpack);
      results.set(item, found);
      found.catch(() => results.delete(item));
    }
    return results.get(item);
  }
  async function open(index) {
    const item = state.items[index];
    if (!item) return;
    state.current = index;
    document.querySelectorAll(".s.current").forEach((node) => node.classList.remove("current"));
    if (state.items.length > 1) [item.source, item.target].forEach((node) => {
      node.classList.add("current");
      const sheet = node.closest(".sheet"), box = node.getBoundingClientRect(), frame = sheet?.getBoundingClientRect();
      if (frame && (box.top < frame.top || box.bottom > frame.bottom)) sheet.scrollTop += box.top - frame.top - 40;
    });
    [...$("sentences").children].forEach((node, i) => node.setAttribute("aria-pressed", i === index));
    const found = await attentionOf(item);
    if (state.items[state.current] !== item) return;
    words(item, found);
    facts(item, found);
    await tab(state.tab);
  }
  function facts(item, found) {
    const total = Decoding.total(found);
    $("facts").textContent = `${state.done.seconds < 0.95 ? Math.round(1000 * state.done.seconds) + " ms" : state.done.seconds.toFixed(1) + " s"} · ${found.model} · log-probability ${total.toFixed(2)} (${percent(Math.exp(total / found.target.scores.length))} per piece)`;
    $("served").textContent = `Model: ${found.model}.`;
  }

  /** Splits the current sentence into word spans on both sides. Pointing at a word highlights the other side by attention. */
  function words(item, found) {
    item.soft = Views.aligned(found);
    item.find = found;
    const fill = (host, side, which) => {
      const parts = [];
      let at = 0;
      item[which] = new Map();
      side.words.forEach((word, i) => {
        if (word.start === word.end || word.start < at) return;
        parts.push(side.text.slice(at, word.start));
        const node = el("span", { class: "w" }, word.text);
        if (which === "targets") {
          const score = Math.min(...word.pieces.map((p) => side.scores[p]));
          if (score < Math.log(0.25)) node.classList.add("unsure");
          node.title = `${chance(word.pieces.reduce((sum, p) => sum + side.scores[p], 0))} · ${word.pieces.map((p) => side.pieces[p]).join(" ")}`;
          node.tabIndex = 0;
          node.setAttribute("role", "button");
          node.addEventListener("pointerenter", () => highlight(item, "target", i));
          node.addEventListener("pointerleave", () => highlight(item));
          node.addEventListener("focus", () => highlight(item, "target", i));
          node.addEventListener("blur", () => highlight(item));
          node.addEventListener("click", () => highlight(item, "target", i));
        } else if (found.alignment.coverage[i] < 0.15 && /\w/.test(word.text)) node.classList.add("missed");
        item[which].set(i, node);
        parts.push(node);
        at = word.end;
      });
      parts.push(side.text.slice(at));
      host.replaceChildren(...parts);
    };
    fill(item.target, found.target, "targets");
    if (item.source.textContent) fill(item.source, found.source, "sources");
    else item.sources = new Map();
    const shown = (kind) => document.querySelector(`#translate .w.${kind}`);
    const key = (kind, text) => (shown(kind) ? [el("span", { class: "w " + kind }, "abc"), ` ${text}  `] : []);
    $("legend").replaceChildren(...key("unsure", "the model was unsure (< 25 %)"), ...key("missed", "hardly looked at: perhaps left out"), "Point at a word: shaded words were looked at, framed ones belong to it.");
  }
  function highlight(item, side, i) {
    const { rows, columns, data } = item.soft;
    const links = item.find.alignment.links;
    const mark = (nodes, weight, chosen, linked) => nodes.forEach((node, j) => {
      const share = side ? weight(j) : 0;
      node.style.background = share > 0.01 ? `rgb(${Views.color("--glow")} / ${Math.min(0.55, share * 0.65).toFixed(3)})` : "";
      node.classList.toggle("on", Boolean(side && chosen(j)));
      node.classList.toggle("linked", Boolean(side && linked(j)));
    });
    const column = side === "source" ? Math.max(...Array.from({ length: rows }, (_, t) => data[t * columns + i]), 1e-6) : 1;
    mark(item.sources, (j) => (side === "target" ? data[i * columns + j] : 0), (j) => side === "source" && j === i, (j) => side === "target" && links.some(([s, t]) => s === j && t === i));
    mark(item.targets, (j) => (side === "source" ? data[j * columns + i] / Math.max(column, 0.5) : 0), (j) => side === "target" && j === i, (j) => side === "source" && links.some(([s, t]) => s === i && t === j));
  }
  /** Finds the source word under the pointer by the mirror behind the text area, which has a span per word. */
  function pointAtSource(event) {
    const item = state.items[state.current];
    if (!item?.sources || $("text").value !== state.done?.text) return;
    for (const [i, node] of item.sources) for (const box of node.getClientRects())
      if (event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom) return highlight(item, "source", i);
    highlight(item);
  }

  // -- tabs ---------------------------------------------------------------------------------------------------------
  const TABS = ["attention", "decoding", "whynot", "heads", "works"];
  async function tab(wanted, focus) {
    state.tab = wanted;
    for (const each of TABS) {
      $("tab-" + each).setAttribute("aria-selected", each === wanted);
      $("tab-" + each).tabIndex = each === wanted ? 0 : -1;
      $("panel-" + each).hidden = each !== wanted;
    }
    const strip = $("tab-" + wanted).parentElement;
    strip.scrollLeft = $("tab-" + wanted).offsetLeft - strip.offsetLeft - 24; // a phone has room for three of the five tabs
    if (focus) $("tab-" + wanted).focus();
    remember();
    const item = state.items[state.current];
    if (!item) return;
    const host = $("panel-" + wanted);
    await { attention, decoding, whynot, heads, works }[wanted](host, item, await attentionOf(item));
  }
  function attention(host, item, found) {
    const onPoint = ({ kind, level }, queryAt, keyAt) => {
      if (kind !== "alignment" && (kind !== "cross" || level !== "word")) return;
      if (queryAt !== null) highlight(item, "target", queryAt);
      else if (keyAt !== null) highlight(item, "source", keyAt);
      else highlight(item);
    };
    const json = (asked) => el("button", { type: "button", class: "quiet", onclick: () => source("GET", "/attention?" + query(address(item, asked))) }, "JSON & curl");
    const tools = (view) => {
      if (view.kind === "alignment") return [json({ alignment: found.alignment.method, kind: "cross", level: "word", head: "mean" })];
      const asked = { kind: view.kind, level: view.level, ...(view.view === "map" ? { layer: view.layer } : {}), ...(view.head === "rollout" ? { rollout: true } : view.view === "map" ? { head: view.head } : {}) };
      const picture = (format) => {
        const path = "/attention?" + query(address(item, { ...asked, format })), file = `attention.${format}`;
        const fetched = (event) => { event.preventDefault(); guard(download)(path, file); };
        return el("a", { href: path, class: "note", onclick: fetched }, format.toUpperCase());
      };
      return [picture("svg"), picture("png"), json(asked)];
    };
    Views.panel(host, found, state.panel, { onPoint, changed: remember, tools });
  }
  async function decoding(host, item) {
    const beam = state.beam || Math.max(2, Number($("beam").value));
    const body = { q: item.sentence.source, ...direction(item), beam_size: beam, ...(state.options.masked_heads ? state.options : {}) };
    const panel = el("div");
    host.replaceChildren(el("div", { class: "controls" }, el("label", { class: "note" }, "Beam width ", Views.select("Beam width of the trace", [1, 2, 3, 4, 6, 8].map((n) => [n, String(n)]), beam, guard((n) => { state.beam = n; return tab("decoding"); }))), el("span", { class: "grow" }),
      el("button", { type: "button", class: "quiet", onclick: () => source("POST", "/trace", body) }, "JSON & curl")), panel);
    if (item.trace?.beam !== beam) item.trace = { beam, found: await ask("/trace", { body }) };
    Decoding.show(panel, item.trace.found);
    if (beam !== Number(state.done.beam)) panel.prepend(el("p", { class: "note" }, `The translation above was made with beam width ${state.done.beam}; this search has ${beam} and may find another.`));
  }
  function whynot(host, item, found) {
    const field = el("textarea", { id: "asked", rows: "2", "aria-label": "Your translation", maxlength: "2000", dir: "auto", onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      compare();
    } }, item.asked || found.target.text);
    const panel = el("div");
    const compare = guard(async () => {
      item.asked = field.value.trim();
      if (!item.asked) return;
      showError(null);
      Decoding.compare(panel, found, Views.unpack(await ask("/attention?" + query(pair(item, item.asked, { figures: true, numbers: "uint16", format: "json" })))));
    });
    const form = el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); compare(); } }, el("button", { class: "primary" }, "Compare"),
      el("button", { type: "button", class: "quiet", onclick: () => source("POST", "/score", pair(item, field.value)) }, "JSON & curl"));
    host.replaceChildren(el("p", {}, "Write the translation that you expected. The model computes the probability of each of its pieces."), el("p", {}, el("span", { class: "note" }, found.source.text)), field, el("p"), form, panel);
    if (item.asked) compare();
  }
  function heads(host, item, found) {
    const kind = state.maskKind || "cross", grid = el("div"), panel = el("div");
    const key = (layer, head) => `${kind}.${layer}.${head}`;
    const count = el("b");
    const showCount = () => (count.textContent = `${state.masked.size} ${state.masked.size === 1 ? "head" : "heads"} off`);
    const all = (off) => {
      const [layers, per] = found.maps[kind].shape;
      for (let layer = 0; layer < layers; layer++) for (let head = 0; head < per; head++) state.masked[off ? "add" : "delete"](key(layer, head));
      heads(host, item, found);
    };
    const translateAgain = guard(async () => {
      showError(null);
      const masked_heads = [...state.masked].sort().join(",");
      const [unmasked, other, score] = await Promise.all([
        ask("/translate", { body: { q: item.sentence.source, ...direction(item), beam_size: Number($("beam").value) } }),
        ask("/translate", { body: { q: item.sentence.source, ...direction(item), beam_size: Number($("beam").value), masked_heads } }),
        ask("/score", { body: pair(item, found.target.text, { masked_heads }) })]);
      const before = Decoding.total(found), change = score.scores.score - before;
      panel.replaceChildren(el("div", { class: "card" }, el("h3", {}, "With ", count.textContent), el("p", { class: "big diff" }, ...diff(unmasked.translatedText, other.translatedText)),
        el("p", {}, "The translation from before now has log-probability ", el("b", {}, score.scores.score.toFixed(2)), ` instead of ${before.toFixed(2)}: `, el("b", { class: change < 0 ? "down" : "up" }, (change >= 0 ? "+" : "") + change.toFixed(2)), "."),
        el("div", { class: "row" }, el("button", { type: "button", class: "quiet", onclick: () => source("POST", "/translate", { q: item.sentence.source, ...direction(item), masked_heads }) }, "JSON & curl"))));
    });
    host.replaceChildren(el("p", {}, "Choose heads to switch off: their output becomes zero. Then translate again and compare the translations."),
      el("div", { class: "controls" }, Views.segmented("Heads of", [["cross", "Cross"], ["encoder", "Encoder"], ["decoder", "Decoder"]], kind, (value) => { state.maskKind = value; heads(host, item, found); }),
        el("button", { type: "button", onclick: () => all(true) }, "All of these off"), el("button", { type: "button", onclick: () => { state.masked.clear(); heads(host, item, found); } }, "All on"), count, el("span", { class: "grow" }),
        el("button", { type: "button", class: "primary", id: "again", onclick: translateAgain }, "Translate again")), panel, grid);
    Views.model(grid, found, kind, { state: (layer, head) => ({ pressed: state.masked.has(key(layer, head)) }), choose: (layer, head, button) => {
      const id = key(layer, head), off = !state.masked.has(id);
      state.masked[off ? "add" : "delete"](id);
      button.setAttribute("aria-pressed", off);
      showCount();
    } });
    showCount();
  }
  async function works(host, item, found) {
    const { source: from, target: to } = direction(item);
    if (model?.direction !== from + to) model = { direction: from + to, legs: (await ask("/model?" + query({ source: from, target: to }))).legs };
    const vectors = (kind, layer, head) => ask("/attention?" + query(address(item, { kind, layer, head, vectors: `${kind}.${layer}.${head}`, format: "json" })));
    HowItWorks.show(host, model.legs[0], found, vectors);
  }

  /** Returns the words of both texts, with removed and added ones marked, by longest common subsequence. */
  function diff(before, after) {
    const a = before.match(/\S+\s*/g) || [], b = after.match(/\S+\s*/g) || [];
    const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    const parts = [];
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) parts.push(a[i++]), j++;
      else if (j < b.length && (i >= a.length || best[i][j + 1] > best[i + 1][j])) parts.push(el("ins", {}, b[j++]));
      else parts.push(el("del", {}, a[i++]));
    }
    return parts;
  }

  // -- JSON, curl, permalinks ---------------------------------------------------------------------------------------
  const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  function source(method, path, body) {
    const url = new URL(path, location.href).href;
    const command = method === "GET" ? `curl -H 'Accept: application/json' ${quoted(url)}` : `curl ${quoted(url)} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
    $("dialog-title").textContent = "The same from the command line";
    $("dialog-body").textContent = command;
    $("dialog-open").hidden = method !== "GET";
    $("dialog-open").href = method === "GET" ? url + "&format=json" : "#";
    $("dialog").showModal();
  }
  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = el("textarea", {}, text);
      (document.querySelector("dialog[open]") || document.body).append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = before), 1200);
  }
  /** Returns the view as a URL fragment. Browsers do not send fragments, so the text does not reach server logs. */
  function permalink() {
    const { kind, layer, head, level, view } = state.panel;
    return "#" + query({ q: state.done.text, source: state.done.from, target: state.done.to, beam: state.done.beam, s: state.current || null, tab: state.tab, kind, layer, head, level, view });
  }
  function remember() {
    if (state.done) history.replaceState(null, "", permalink());
  }
  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1) || location.search);
    const set = (id, value) => value && [...$(id).options].some((option) => option.value === value) && ($(id).value = value);
    set("from", wanted.get("source"));
    targets();
    set("to", wanted.get("target"));
    set("beam", wanted.get("beam"));
    if (TABS.includes(wanted.get("tab"))) state.tab = wanted.get("tab");
    const among = (value, list, fallback) => (list.includes(value) ? value : fallback);
    const head = wanted.get("head");
    state.panel = { kind: among(wanted.get("kind"), ["cross", "encoder", "decoder", "alignment"], "cross"), level: among(wanted.get("level"), ["word", "piece"], "word"), view: among(wanted.get("view"), ["map", "model", "figures"], "map"),
      layer: /^\d{1,3}$/.test(wanted.get("layer")) ? Number(wanted.get("layer")) : null, head: /^\d{1,3}$/.test(head) ? Number(head) : among(head, ["mean", "max", "rollout"], "mean") };
    state.wantedSentence = /^\d{1,4}$/.test(wanted.get("s")) ? Number(wanted.get("s")) : undefined;
    if (wanted.get("q")) {
      $("text").value = wanted.get("q").slice(0, 20000);
      resizeInput();
      return translate();
    }
    return null;
  }

  // -- the page itself ----------------------------------------------------------------------------------------------
  function targets() {
    const before = $("to").value, from = languages.find((language) => language.code === $("from").value);
    const codes = (from ? from.targets : languages.map((language) => language.code)).filter((code) => code !== $("from").value);
    $("to").replaceChildren(...codes.map((code) => el("option", { value: code }, name(code))));
    if (codes.includes(before)) $("to").value = before;
  }
  function resizeInput() {
    $("text").style.height = "auto";
    $("text").style.height = $("text").scrollHeight + 2 + "px";
  }
  function theme(next) {
    document.documentElement.dataset.theme = next;
    Views.repaint();
  }
  async function begin() {
    const saved = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    theme(saved || (dark.matches ? "dark" : "light"));
    dark.addEventListener("change", () => !saved && theme(dark.matches ? "dark" : "light"));
    $("theme").onclick = () => {
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* localStorage may be unavailable in private windows */ }
    };
    let timer = 0;
    const translateSoon = () => { clearTimeout(timer); timer = setTimeout(guard(translate), 450); };
    $("text").addEventListener("input", () => { resizeInput(); $("mirror").replaceChildren(); $("text").value.length < 1500 ? translateSoon() : clearTimeout(timer); });
    $("text").addEventListener("pointermove", pointAtSource);
    $("text").addEventListener("pointerdown", pointAtSource);
    $("text").addEventListener("pointerleave", () => state.items[state.current]?.soft && highlight(state.items[state.current]));
    $("text").addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && guard(translate)());
    $("translate").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); guard(translate)(); });
    $("from").addEventListener("change", () => { targets(); guard(translate)(); });
    $("to").addEventListener("change", guard(translate));
    $("beam").addEventListener("change", guard(translate));
    $("swap").onclick = guard(() => {
      const from = $("from").value === "auto" ? state.paragraphs.find((p) => p.detected)?.detected.language : $("from").value, text = $("output").textContent;
      if (!from || ![...$("from").options].some((option) => option.value === $("to").value)) return;
      $("from").value = $("to").value;
      targets();
      $("to").value = from;
      if (text.trim()) $("text").value = text;
      resizeInput();
      return translate();
    });
    $("copy").onclick = () => copy($("output").textContent, $("copy"));
    $("link").onclick = () => copy(new URL(permalink(), location.href).href, $("link"));
    $("curl").onclick = () => source("POST", "/translate", { q: state.done.text, source: state.done.from, target: state.done.to });
    $("report").onclick = guard(async () => {
      await download("/attention?" + query(address(state.items[state.current], { format: "html" })), "attention.html");
    });
    $("others").onclick = guard(async () => {
      const item = state.items[state.current];
      const { alternatives } = await ask("/translate", { body: { q: item.sentence.source, ...direction(item), alternatives: 4 } });
      $("alternatives").hidden = false;
      $("alternatives").replaceChildren(...alternatives.map((text) => el("li", {}, el("button", { type: "button", title: "Compare with the translation above", onclick: guard(() => { item.asked = text; return tab("whynot"); }) }, text))));
    });
    $("dialog-close").onclick = () => $("dialog").close();
    $("dialog-copy").onclick = () => copy($("dialog-body").textContent, $("dialog-copy"));
    document.querySelector(".tabs").addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) guard(tab)(TABS[(TABS.indexOf(state.tab) + move + TABS.length) % TABS.length], true);
    });
    TABS.forEach((each) => ($("tab-" + each).onclick = guard(() => tab(each))));
    $("examples").append(el("span", { class: "note" }, "Try"), ...EXAMPLES.map((text) => el("button", { type: "button", onclick: guard(() => { $("from").value = [...$("from").options].some((o) => o.value === "en") ? "en" : "auto"; targets(); $("text").value = text; resizeInput(); return translate(); }) }, text)));
    languages = await ask("/languages");
    $("from").append(el("option", { value: "auto" }, "Detect language"), ...languages.filter((l) => l.targets.some((t) => t !== l.code)).map((l) => el("option", { value: l.code }, l.name)));
    if (languages.some((l) => l.code === "en")) $("from").value = "en";
    targets();
    await restore();
  }
  guard(begin)();
})();

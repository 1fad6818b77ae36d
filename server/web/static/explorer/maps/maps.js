// Attention maps of one answer of GET /attention: unpacking, selection of layers and heads, words, rollout.
import { say } from "../../common/sentences.js";

/** Decodes an answer of GET /attention?numbers=uint16: adds `maps[kind]` = {shape, data}. */
export function unpack(result) {
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
export function sides(result, kind) {
  const { source, target, decoder_input: input } = result;
  return { cross: [target, source], encoder: [source, source], decoder: [target, input] }[kind];
}
export const slice = (map, layer, head) => {
  const [, heads, rows, columns] = map.shape;
  const at = (layer * heads + head) * rows * columns;
  return { rows, columns, data: map.data.subarray(at, at + rows * columns) };
};
function combine(map, layer, how) {
  const heads = map.shape[1],
    first = slice(map, layer, 0);
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
export function rollout(result, kind, layer) {
  const { encoder, decoder, cross } = result.maps;
  const S = encoder.shape[2],
    T = decoder.shape[2];
  let source = identity(S);
  const depth = kind === "encoder" ? layer + 1 : encoder.shape[0];
  for (let l = 0; l < depth; l++) source = average(source, product(combine(encoder, l, "mean").data, source, S, S, S));
  if (kind === "encoder") return { rows: S, columns: S, data: source };
  let written = identity(T),
    read = new Float32Array(T * S);
  for (let l = 0; l <= layer; l++) {
    const own = combine(decoder, l, "mean").data;
    written = average(written, product(own, written, T, T, T)).map((w) => 0.5 * w);
    read = average(
      average(read, product(own, read, T, T, S)),
      product(combine(cross, l, "mean").data, source, T, S, S),
    );
  }
  return kind === "decoder" ? { rows: T, columns: T, data: written } : { rows: T, columns: S, data: read };
}
/** Returns weights between words: summed over the pieces of a key, averaged over the pieces of a query. */
function byWord(map, queries, keys) {
  const data = new Float32Array(queries.length * keys.length);
  const word = new Int32Array(map.columns);
  keys.forEach((key, j) => key.pieces.forEach((k) => (word[k] = j)));
  queries.forEach((query, i) =>
    query.pieces.forEach((q) => {
      for (let k = 0; k < map.columns; k++)
        data[i * keys.length + word[k]] += map.data[q * map.columns + k] / query.pieces.length;
    }),
  );
  return { rows: queries.length, columns: keys.length, data };
}
/** Returns one map with its labels. `head` is a number, "mean", "max" or "rollout"; `level` "word" or "piece". Without
 * `special`, rows and columns of special tokens (tags, start, end of sentence) are left out; `rows` and `columns` of the
 * map are numbered by `queryAt` and `keyAt` in the whole map. */
export function pick(result, kind, layer, head, level, special = true) {
  const raw = result.maps[kind];
  layer = Math.min(layer, raw.shape[0] - 1);
  const map =
    head === "rollout"
      ? rollout(result, kind, layer)
      : typeof head === "number"
        ? slice(raw, layer, Math.min(head, raw.shape[1] - 1))
        : combine(raw, layer, head);
  const [queries, keys] = sides(result, kind);
  const whole =
    level === "word"
      ? {
          ...byWord(map, queries.words, keys.words),
          queries: queries.words.map((w) => w.text),
          keys: keys.words.map((w) => w.text),
        }
      : { ...map, queries: queries.pieces, keys: keys.pieces };
  return chosen(whole, places(queries, level, special), places(keys, level, special));
}
/** Returns the numbers of the words or pieces that are shown. */
function places(side, level, special) {
  const all = [...(level === "word" ? side.words : side.pieces).keys()];
  if (special) return all;
  const inside = new Set(side.words.filter((word) => word.start < word.end).flatMap((word) => word.pieces));
  const kept = all.filter((i) => (level === "word" ? side.words[i].start < side.words[i].end : inside.has(i)));
  return kept.length ? kept : all;
}
/** Returns the map with only these rows and columns. */
export function chosen(map, queryAt, keyAt) {
  const data = new Float32Array(queryAt.length * keyAt.length);
  queryAt.forEach((q, i) => keyAt.forEach((k, j) => (data[i * keyAt.length + j] = map.data[q * map.columns + k])));
  return {
    rows: queryAt.length,
    columns: keyAt.length,
    data,
    queries: queryAt.map((q) => map.queries[q]),
    keys: keyAt.map((k) => map.keys[k]),
    queryAt,
    keyAt,
  };
}
/** Returns the kinds of maps with their names: those that a result has, or all. */
export const kinds = (result) =>
  [
    ["cross", say("Cross")],
    ["encoder", say("Encoder")],
    ["decoder", say("Decoder")],
  ].filter(([kind]) => !result || result.maps[kind]);
/** Returns the head of cross-attention that decides most for the source words: that with the largest weights on them. */
export function best(result) {
  const raw = result.maps.cross,
    layer = result.alignment.shift ? raw.shape[0] - 1 : result.alignment.layer,
    sums = Array.from({ length: raw.shape[1] }, (_, head) => {
      const { rows, columns, data } = pick(result, "cross", layer, head, "word", false);
      const peaks = Array.from({ length: rows }, (_, q) => Math.max(...data.subarray(q * columns, (q + 1) * columns)));
      return peaks.reduce((sum, peak) => sum + peak, 0);
    });
  return { layer, head: sums.indexOf(Math.max(...sums)) };
}
/** Returns the soft word alignment (target words x source words). */
export const aligned = ({ alignment: { weights } }) => ({
  rows: weights.length,
  columns: weights[0].length,
  data: Float32Array.from(weights.flat()),
});

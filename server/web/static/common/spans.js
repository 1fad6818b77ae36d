// Positions in texts. The server counts characters as code points, strings count UTF-16 units; and the text that the
// model wrote differs from the served one where addresses, names or emoji were masked.

const isWord = (character) => character !== undefined && /[\p{L}\p{M}\p{N}]/u.test(character);
const fold = (characters) => characters.map((character) => character.toLowerCase());
const CELLS = 4_000_000;

/** Returns a function from a span [start, end) of `model`, in code points, to the span of `served` with the same
 * characters, in UTF-16 units, or to null if `served` does not contain them. */
export function spanMapper(model, served) {
  const from = [...model],
    to = [...served],
    units = [0];
  for (const character of to) units.push(units[units.length - 1] + character.length);
  const places = model === served ? from.map((_, i) => i) : aligned(fold(from), fold(to));
  return (start, end) => {
    const found = places.slice(start, end).filter((place) => place >= 0);
    if (!found.length || 2 * found.length < end - start) return null;
    const first = found[0],
      last = found[found.length - 1];
    return last - first < 2 * (end - start) ? [units[first], units[last + 1]] : null;
  };
}

/** Returns for each character of `from` its place in `to`, or -1. `to` is `from` with insertions and few deletions. */
function aligned(from, to) {
  const [head, tail] = shared(from, to),
    n = from.length - head - tail,
    m = to.length - head - tail;
  const places = from.map((_, i) => (i < head ? i : i >= from.length - tail ? i - from.length + to.length : -1));
  if (n && m && n * m <= CELLS) fill(places, from.slice(head, head + n), to.slice(head, head + m), head);
  return places;
}
/** Returns the lengths of the common beginning and of the common end, cut at spaces. */
function shared(from, to) {
  const most = Math.min(from.length, to.length);
  let head = 0,
    tail = 0;
  while (head < most && from[head] === to[head]) head++;
  while (head > 0 && head < Math.max(from.length, to.length) && from[head - 1] !== " ") head--;
  while (tail < most - head && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail++;
  while (tail > 0 && from[from.length - tail] !== " ") tail--;
  return [head, tail];
}

/** Aligns with affine gap costs, so that an inserted string is one gap, which preferably begins and ends between words. */
function fill(places, from, to, offset) {
  const n = from.length,
    m = to.length,
    width = m + 1;
  const OPEN = 3,
    SPLIT = 2,
    INSERT = 0.01,
    DELETE = 1;
  const split = to.map((_, j) => (isWord(to[j - 1]) && isWord(to[j]) ? SPLIT : 0)).concat(0);
  const trace = new Uint8Array((n + 1) * width);
  let match = new Float64Array(width).fill(Infinity),
    insert = match.slice(),
    remove = match.slice();
  match[0] = 0;
  for (let j = 1; j <= m; j++) {
    insert[j] = OPEN + INSERT * j;
    trace[j] = j > 1 ? 1 << 2 : 0;
  }
  for (let i = 1; i <= n; i++) {
    const matched = new Float64Array(width).fill(Infinity),
      inserted = matched.slice(),
      removed = matched.slice();
    for (let j = 0; j <= m; j++) {
      let step = 0;
      if (j && from[i - 1] === to[j - 1]) {
        const [cost, state] = least(match[j - 1], insert[j - 1] + split[j - 1], remove[j - 1]);
        matched[j] = cost;
        step |= state;
      }
      if (j) {
        const [cost, state] = least(
          matched[j - 1] + OPEN + split[j - 1] + INSERT,
          inserted[j - 1] + INSERT,
          removed[j - 1] + OPEN + INSERT,
        );
        inserted[j] = cost;
        step |= state << 2;
      }
      const [cost, state] = least(match[j] + OPEN + DELETE, insert[j] + OPEN + DELETE, remove[j] + DELETE);
      removed[j] = cost;
      trace[i * width + j] = step | (state << 4);
    }
    [match, insert, remove] = [matched, inserted, removed];
  }
  let [, state] = least(match[m], insert[m], remove[m]);
  for (let i = n, j = m; i > 0 || j > 0; ) {
    const step = trace[i * width + j];
    if (state === 0) {
      places[offset + i - 1] = offset + j - 1;
      state = step & 3;
      i--, j--;
    } else if (state === 1) {
      state = (step >> 2) & 3;
      j--;
    } else {
      state = (step >> 4) & 3;
      i--;
    }
  }
}
const least = (a, b, c) => (a <= b && a <= c ? [a, 0] : b <= c ? [b, 1] : [c, 2]);

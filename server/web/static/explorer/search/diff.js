// The difference between two texts, word by word.
import { el } from "../../common/dom.js";

/** Returns the places [i, j] of a longest common subsequence of two lists. */
export function common(a, b) {
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1)),
    found = [];
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) found.push([i++, j++]);
    else if (best[i][j + 1] > best[i + 1][j]) j++;
    else i++;
  }
  return found;
}
/** Returns the words of both texts, with removed and added ones marked. */
export function diff(before, after) {
  const a = before.match(/\S+/g) || [],
    b = after.match(/\S+/g) || [],
    parts = [];
  let i = 0,
    j = 0;
  for (const [x, y] of [...common(a, b), [a.length, b.length]]) {
    while (i < x) parts.push(el("del", a[i++]), " ");
    while (j < y) parts.push(el("ins", b[j++]), " ");
    if (x < a.length) parts.push(`${a[i++]} `), j++;
  }
  return parts;
}

// The difference between two texts, word by word.
import { el } from "../common/dom.js";

/** Returns the words of both texts, with removed and added ones marked, by longest common subsequence. */
export function diff(before, after) {
  const a = before.match(/\S+/g) || [], b = after.match(/\S+/g) || [];
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const parts = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) parts.push(`${a[i++]} `), j++;
    else if (j < b.length && (i >= a.length || best[i][j + 1] > best[i + 1][j])) parts.push(el("ins", {}, b[j++]), " ");
    else parts.push(el("del", {}, a[i++]), " ");
  }
  return parts;
}

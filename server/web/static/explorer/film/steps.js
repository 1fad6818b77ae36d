// The steps of the film: the words of both sides, the weights between them, and what the model almost wrote.
import { say } from "../../common/sentences.js";
import { aligned, pick } from "../maps/maps.js";

const RUNNERS_UP = 3,
  FAINT = 0.03;

/** Returns the weights between the words of a sentence: of one head of the cross-attention, or of the layer that
 * aligns words. */
export const weights = (found, head) =>
  head ? pick(found, "cross", head.layer, head.head, "word", true) : aligned(found);

/** Returns {sources, targets}: the words without special tokens, each {index, text, before}. `before` is the text between
 * the word before it and it. A target also has `looks`, pairs of a place in `sources` and a weight, and `runnersUp`. */
export function steps(found, map = weights(found)) {
  const sources = written(found.source),
    targets = written(found.target);
  const looks = ({ index }) =>
    sources
      .map((source, place) => [place, map.data[index * map.columns + source.index]])
      .filter(([, weight]) => weight >= FAINT);
  return {
    sources,
    targets: targets.map((word) => ({ ...word, looks: looks(word), runnersUp: runnersUp(found, word) })),
  };
}
function written({ text, words }) {
  const characters = [...text],
    found = [];
  let at = 0;
  words.forEach((word, index) => {
    if (word.start >= word.end) return;
    found.push({ index, text: word.text, before: characters.slice(at, word.start).join(""), pieces: word.pieces });
    at = word.end;
  });
  return found;
}
/** Returns the likeliest pieces that the model did not write in a word, best first: {text, chance, prefix}. `chance` is the
 * product over the word's pieces before it and itself, as `chanceOf` counts a word. A translation that begins with the pieces of
 * `prefix` has this runner-up; it is null at the end of the sentence. */
export function runnersUp({ target: { pieces, candidates, scores, words } }, word, most = RUNNERS_UP) {
  const before = (p) => word.pieces.filter((other) => other < p).reduce((sum, other) => sum + scores[other], 0);
  const begun = (p, piece) => {
    // A piece without a space before it continues a word: the same one, or the one before it.
    const goesOn = p === word.pieces[0] && pieces[p].startsWith("▁") && /^\p{L}/u.test(piece);
    const of = goesOn ? words.find((other) => other.pieces.includes(p - 1)) || word : word;
    return of.pieces.filter((other) => other < p).map((other) => pieces[other]);
  };
  const found = word.pieces.flatMap((p) =>
    candidates[p]
      .filter(([piece]) => piece !== pieces[p] && !/^<(0x..|unk|s|pad)>$/.test(piece))
      .map(([piece, score]) => ({
        text: piece === "</s>" ? "■ " + say("end") : readable([...begun(p, piece), piece]),
        chance: Math.exp(before(p) + score),
        prefix: piece === "</s>" ? null : [...pieces.slice(0, p), piece],
      })),
  );
  return found
    .filter(({ text }) => text)
    .sort((a, b) => b.chance - a.chance)
    .slice(0, most);
}
const readable = (pieces) => pieces.join("").replaceAll("▁", " ").trim();
/** Returns the probability of a word: the product over its pieces. */
export const chanceOf = (found, { pieces }) => Math.exp(pieces.reduce((sum, p) => sum + found.target.scores[p], 0));

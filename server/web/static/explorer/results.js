// The attention of sentences, requested once.
import { ask, query } from "../common/server.js";
import { unpack } from "./maps/maps.js";
import { address, direction, pair } from "./state.js";

export const WANTED = { figures: true, numbers: "uint16", format: "json" };
const results = new Map();
/** Returns what `request(parameters)` returns for a sentence as it was served. */
export async function served(item, request) {
  try {
    return await request(address(item));
  } catch (error) {
    if (!isForgotten(error)) throw error;
    return request(pair(item, item.sentence.target)); // the record is gone; the pair of texts gives the same answer
  }
}
/** Returns the attention of a sentence as it was served. */
export async function attentionOf(item) {
  if (!results.has(item)) {
    const found = served(item, (which) => ask("/attention?" + query({ ...which, ...WANTED, alignment: "combined" })))
      .then(unpack)
      .then(async (answer) => Object.assign(answer, { roles: (await modelOf(item)).roles }));
    results.set(item, found);
    found.catch(() => results.delete(item));
  }
  return results.get(item);
}
const models = new Map();
/** Returns the entry of GET /model for the leg of a sentence. */
export function modelOf(item) {
  const asked = query(direction(item));
  if (!models.has(asked)) {
    models.set(
      asked,
      ask("/model?" + asked).then(({ legs }) => legs[0]),
    );
    models.get(asked).catch(() => models.delete(asked));
  }
  return models.get(asked);
}
/** Returns the attention of a sentence that is decoded again: `version` is {fork: [pieces]}, {hypothesis, beam} or
 * {off: "cross.0.1,..."}. */
export async function attentionOfVersion(item, { fork = [], hypothesis, beam, off }) {
  const text = { q: item.read, ...direction(item) },
    width = beam || item.route.beam_size;
  const choice = off
    ? { masked_heads: off, beam_size: width }
    : fork.length
      ? { prefix: fork }
      : { hypothesis, beam_size: width };
  const request = (which) => ask("/attention?" + query({ ...which, ...choice, ...WANTED }));
  const found = off
    ? request(text)
    : request(address(item)).catch((error) => {
        if (isForgotten(error)) return request(text);
        throw error;
      });
  return unpack(await found);
}
const isForgotten = (error) => /no longer kept|no history|No translation has/.test(error.message);
export const forget = () => results.clear();

// What heads and layers are worth: by how much the loss rises when they are switched off, as the import measured it.
import { decimal } from "../../common/dom.js";
import { say } from "../../common/sentences.js";

const LITTLE = 0.02,
  MUCH = 0.1;
const nats = (rise) => decimal(rise, 2);
/** Returns by how many nats a piece the loss rises without a head; undefined if that was not measured. */
export const rise = (result, kind, layer, head) => result.roles?.losses?.heads[kind]?.[layer]?.[head];
/** Returns whether a head is known to matter. */
export const alive = (result, kind, layer, head) => rise(result, kind, layer, head) >= LITTLE;
/** Returns what the frames of heads that matter mean, or nothing. */
export const legend = (result) => (result.roles?.losses ? say("Strong frames: heads that matter.") : "");
/** Returns a sentence about what a head is worth, or nothing. */
export function worth(result, kind, layer, head) {
  const cost = rise(result, kind, layer, head);
  if (cost === undefined) return "";
  const sentence =
    cost < LITTLE
      ? "Switching this head off costs {0} nats a piece: it hardly matters."
      : cost < MUCH
        ? "Switching this head off costs {0} nats a piece: it matters a little."
        : "Switching this head off costs {0} nats a piece: it matters.";
  return say(sentence, nats(cost));
}
/** Returns a sentence about the layer that is worth most and all others, or nothing. */
export function worthOfLayers({ roles }, kind) {
  const layers = roles?.losses?.layers[kind];
  if (!layers || layers.length < 2) return "";
  const most = Math.max(...layers);
  return say(
    "Without attention in layer {0} a piece costs {1} nats more, without that in the {2} other layers together {3} (over {4} sentences).",
    layers.indexOf(most),
    nats(most),
    layers.length - 1,
    nats(roles.losses.others[kind]),
    roles.losses.sentences,
  );
}

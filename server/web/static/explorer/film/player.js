// Plays the film: moves a position over the words, once per frame.
import { HOLD } from "./stage.js";

const SLOWEST = 0.75,
  FASTEST = 0.2,
  WHOLE = 8;
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Returns {play, pause, seek, position, playing}. `words` are the target words, `end` the last position. `show(position)`
 * is called at every change, `changed(playing)` when it starts or stops. Without motion, it goes from word to word. */
export function player(words, end, { show, changed }) {
  const usual = Math.min(SLOWEST, Math.max(FASTEST, WHOLE / words.length));
  const seconds = words.map(({ text }) => usual * (/[\p{L}\p{N}]/u.test(text) ? 1 : 0.5));
  let position = 0,
    frame = 0,
    before = 0;
  /** Returns the position at which the present word is complete. */
  const whole = (at) => (at >= words.length ? end : Math.max(0, Math.ceil(at) - 1) + HOLD);
  function tick(now) {
    const passed = Math.min(0.1, (now - before) / 1000);
    before = now;
    position = Math.min(end, position + passed / (seconds[Math.floor(position)] || 0.8));
    show(still() ? whole(position) : position);
    frame = position < end ? requestAnimationFrame(tick) : 0;
    if (!frame) changed(false);
  }
  const pause = () => {
    if (!frame) return;
    cancelAnimationFrame(frame);
    frame = 0;
    changed(false);
  };
  return {
    play() {
      if (frame) return;
      if (position >= end) position = 0;
      before = performance.now();
      frame = requestAnimationFrame(tick);
      changed(true);
    },
    pause,
    seek(to) {
      pause();
      position = Math.min(end, Math.max(0, to));
      show(position);
    },
    get position() {
      return position;
    },
    get playing() {
      return frame !== 0;
    },
  };
}

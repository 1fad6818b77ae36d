// The lesson: its chapters for a sentence.
import { ask, query } from "../common/server.js";
import { howItWorks } from "./paper/how_it_works.js";
import { modelOf, served } from "./results.js";
import { direction, remember, state } from "./state.js";

let studying = new AbortController(); // of GET /encoder
/** Draws the chapters for a sentence into the panel "How it works". */
export async function works(host, item, found) {
  const tensors = (parameters) =>
    served(item, async (which) => {
      const path = "/attention/tensors?" + query({ ...which, ...parameters });
      return { ...(await ask(path)), path };
    });
  const study = async () => {
    studying.abort();
    studying = new AbortController();
    const answer = await ask("/encoder?" + query({ q: item.read, ...direction(item) }), studying);
    return { ...answer, source: { ...answer.source, text: item.sentence.source } };
  };
  const model = await modelOf(item);
  if (item === state.items[state.current])
    howItWorks(host, model, found, {
      tensors,
      study,
      places: (n) => ask("/positions?" + query({ ...direction(item), n })),
      english: english(model),
      getter,
      chosen: state.works,
      changed: () => remember(),
    });
}
/** Returns the function that gets a model by its name and returns the models for English, or null where this page may not. */
const getter = async () => ((await ask("/frontend/settings")).manageModels ? get : null);
async function get(name, bar) {
  await ask("/admin/models", { body: { name } });
  for (;;) {
    const { pulls } = await ask("/ready"),
      pull = pulls.find((each) => each.name === name);
    if (pull?.state === "failed") throw new Error(pull.error);
    if (!pull) break;
    if (pull.total) Object.assign(bar, { max: pull.total, value: pull.bytes });
    await new Promise((done) => setTimeout(done, 1000));
  }
  state.languages = await ask("/languages");
  return english({});
}
/** Returns a direction from English for each model that has one, [{name, source, target}]; that of `model` is the first. */
function english(model) {
  const targets = Object.entries(state.languages.find(({ code }) => code === "en")?.models ?? {}),
    all = targets.map(([target, name]) => ({ name, source: "en", target }));
  return [...(model.source === "en" ? [model] : []), ...all].filter(
    ({ name }, i, list) => list.findIndex((other) => other.name === name) === i,
  );
}

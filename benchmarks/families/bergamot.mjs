// Translates with Bergamot, the engine of Firefox. Reads one JSON object from stdin: `package` (the folder of
// @browsermt/bergamot-translator), `model`, `vocabs`, `shortlist`, `config`, `texts`, `html`, `batch` (texts in a call), `repeat`.
// Writes the targets and the processor seconds of each run.
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

const request = JSON.parse(readFileSync(0, "utf-8"));
// The worker is CommonJS, and its package says that it is not: node runs it only outside the package.
const folder = mkdtempSync(join(tmpdir(), "bergamot-"));
cpSync(join(request.package, "worker"), folder, { recursive: true });
const worker = new Worker(join(folder, "translator-worker.js"));
const waiting = new Map();
let calls = 0;
worker.on("message", ({ id, result, error }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error.message));
  else resolve(result);
});

function call(name, ...args) {
  const id = ++calls;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, name, args });
  });
}

function bytes(file) {
  const data = readFileSync(file);
  return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
}

await call("initialize", {});
const vocabs = request.vocabs.map(bytes);
const shortlist = request.shortlist ? bytes(request.shortlist) : new ArrayBuffer(0);
await call("loadTranslationModel", { from: "en", to: "de" }, { model: bytes(request.model), vocabs, shortlist, config: request.config });
const texts = request.texts.map((text) => ({ text, html: request.html, qualityScores: request.html }));
const models = [{ from: "en", to: "de" }];
let targets = [];
const seconds = [];
for (let run = 0; run < (request.repeat ?? 1); run++) {
  const started = process.cpuUsage();
  const batch = request.batch ?? texts.length;
  targets = [];
  for (let i = 0; i < texts.length; i += batch) {
    targets.push(...(await call("translate", { models, texts: texts.slice(i, i + batch) })));
  }
  const used = process.cpuUsage(started);
  seconds.push((used.user + used.system) / 1e6);
}
rmSync(folder, { recursive: true });
// process.exit does not wait for a pipe, which holds only 64 KiB.
process.stdout.write(`${JSON.stringify({ targets: targets.map(({ target }) => target.text), seconds })}\n`, () => process.exit(0));

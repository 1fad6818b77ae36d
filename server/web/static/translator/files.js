// Translation of files: chosen or dropped, one after another, with progress and a download.
import { $, el, textButton } from "../common/dom.js";
import { failure, key, otherKey, unreachable, withKey } from "../common/server.js";
import { explained, said, say } from "./messages.js";

let queue = Promise.resolve();
const rows = new Map(); // the rows of the list with the functions that write their texts

/** Accepts files of the formats (".txt", ...). `languages()` returns the parameters of a translation. */
export function acceptFiles(formats, languages) {
  $("file").accept = formats.join(",");
  $("choose").onclick = () => $("file").click();
  const take = (files) => {
    document.querySelectorAll("#files .failed").forEach(drop);
    [...files].forEach((file) => add(file, formats, languages()));
  };
  $("file").onchange = () => {
    take($("file").files);
    $("file").value = "";
  };
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  for (const name of ["dragenter", "dragover"])
    addEventListener(name, (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      $("translate").classList.add("drop");
    });
  addEventListener("dragleave", (event) => event.relatedTarget || $("translate").classList.remove("drop"));
  addEventListener("drop", (event) => {
    $("translate").classList.remove("drop");
    if (!holdsFiles(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}

/** Writes the texts of all rows in the language of the interface. */
export const drawFiles = () => rows.forEach((draw) => draw());

/** Adds a file to the list and translates it after those before it. */
function add(file, formats, languages) {
  const bar = el("progress", { max: "1", value: "0", "aria-label": file.name }),
    state = el("span.note");
  const cancel = el("button.quiet", { type: "button" }),
    row = el("li", el("b", file.name), bar, state, cancel);
  const close = textButton("✕", () => remove(row), "quiet");
  let share = null,
    result = null; // what was sent of the file; a function that returns the content of the ended row
  const draw = () => {
    cancel.textContent = say("cancel");
    state.textContent = share === null ? "" : share < 1 ? say("uploading") : say("working");
    close.title = say("close");
    close.setAttribute("aria-label", `${say("close")}: ${file.name}`);
    if (result) row.replaceChildren(result(), close);
  };
  const end = (content) => {
    result = content;
    row.classList.add("ended");
    draw();
    $("status").textContent = row.firstChild.textContent;
  };
  const fail = (error) => {
    row.classList.add("failed");
    end(() => {
      const [sentence, ...detail] = explained(error);
      return el("span.bad", say("failed", file.name, sentence), ...detail);
    });
  };
  const progress = (sent) => {
    share = sent;
    if (share < 1) bar.value = share;
    else bar.removeAttribute("value");
    draw();
  };
  rows.set(row, draw);
  draw();
  $("files").hidden = false;
  $("files").prepend(row);
  if (!formats.some((suffix) => file.name.toLowerCase().endsWith(suffix)))
    return fail(said("format", formats.join(" ")));
  const controller = new AbortController();
  cancel.onclick = () => {
    controller.abort();
    remove(row);
  };
  queue = queue
    .then(() => controller.signal.aborted || send(file, languages, controller.signal, progress))
    .then(
      (url) => url && url !== true && end(() => link(url)),
      (error) => controller.signal.aborted || fail(error),
    );
  return queue;
}
function drop(row) {
  row.remove();
  rows.delete(row);
}
/** Removes a row. The focus goes to the button for files. */
function remove(row) {
  drop(row);
  $("files").hidden = !$("files").children.length;
  $("choose").focus();
}
const nameOf = (url) => decodeURIComponent(url.pathname.split("/").pop());
/** The address may name the server as it calls itself; the file is fetched from the server of this page. */
const link = (url) => el("a", { href: url.pathname, download: nameOf(url) }, say("download", nameOf(url)));

/** Sends a file and returns the URL of its translation. `report` gets the share that was sent. */
function send(file, choices, signal, report) {
  const used = key(),
    form = new FormData(),
    request = new XMLHttpRequest(); // fetch does not report the progress of an upload
  form.append("file", file, file.name);
  for (const [name, value] of Object.entries(choices))
    if (value) form.append(name, typeof value === "string" ? value : JSON.stringify(value));
  return new Promise((resolve, reject) => {
    request.open("POST", "./translate_file");
    for (const [name, value] of Object.entries(withKey({ Accept: "application/json" })))
      request.setRequestHeader(name, value);
    request.responseType = "json";
    report(0);
    request.upload.onprogress = (event) => event.lengthComputable && report(event.loaded / event.total);
    request.upload.onload = () => report(1);
    const answered = () => {
      if (request.status === 200 && request.response) return new URL(request.response.translatedFileUrl, location.href);
      if (request.status === 403 && otherKey(used)) return send(file, choices, signal, report);
      throw failure(request.status, request.response, request.getResponseHeader("Retry-After"));
    };
    request.onload = () => Promise.resolve().then(answered).then(resolve, reject); // the queue waits for one of the two
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new DOMException("", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

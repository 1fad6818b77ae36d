// The dialog with the command line of a request, and the buttons that copy a text.
import { say } from "../common/sentences.js";
import { copyText } from "../common/server.js";
import { $ } from "./state.js";

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
/** Shows the curl command of a request. */
export function commandDialog(method, path, body) {
  const url = new URL(`.${path}`, location.href).href;
  const command =
    method === "GET"
      ? `curl -H 'Accept: application/json' ${quoted(url)}`
      : `curl ${quoted(url)} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
  $("dialog-title").textContent = say("The same from the command line");
  $("dialog-body").textContent = command;
  $("dialog-open").hidden = method !== "GET";
  $("dialog-open").href = method === "GET" ? url + (path.startsWith("/attention?") ? "&format=json" : "") : "#";
  $("dialog").showModal();
}
/** Shows the name of a tensor, its shape and the request that returns it. */
export function tensorDialog(name, { axes, shape, formula }, path) {
  commandDialog("GET", path.includes("names=") ? path : `${path}&names=${name}`);
  $("dialog-title").textContent = `${name} (${shape.join(", ")})`;
  $("dialog-body").textContent =
    `${name}  ${axes}  (${shape.join(", ")})\n= ${formula}\n\n${$("dialog-body").textContent}`;
}
/** Copies a text and says so on the button. */
export async function copyFrom(text, button) {
  await copyText(text);
  const before = button.dataset.label ?? (button.dataset.label = button.textContent);
  button.textContent = say("Copied");
  setTimeout(() => (button.textContent = before), 1200);
}
export function dialogButtons() {
  $("dialog-close").onclick = () => $("dialog").close();
  $("dialog-copy").onclick = () => copyFrom($("dialog-body").textContent, $("dialog-copy"));
}

// What makes pages nicer to use; everything can be read and done without it.

import "./confirms.js";
import "./shell.js";
import { localise } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";
function copyIcon() {
  const icon = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  icon.setAttribute("class", "icon");
  use.setAttribute("href", new URL("icons.svg#copy", import.meta.url));
  icon.append(use);
  return icon;
}

// Where an id or a command can be copied is a button for it; of an id it gives all digits.
function offerCopies(root) {
  if (!navigator.clipboard) return; // not offered on plain http but to this machine
  for (const part of root.querySelectorAll("[data-copied]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.append(copyIcon());
    const what = part.dataset.copiedOf ? "the text" : part.dataset.copied || part.textContent;
    button.setAttribute("aria-label", `Copy ${what}`.slice(0, 60));
    part.after(button);
  }
}

// A page as it is shown: with what scripts add to it.
export function dress(root) {
  localise(root);
  offerCopies(root);
}
dress(document);

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (button === null) return;
  const part = button.previousElementSibling;
  const block = document.getElementById(part.dataset.copiedOf);
  const text = block?.querySelector(".raw pre, pre")?.textContent;
  await navigator.clipboard.writeText(text ?? (part.dataset.copied || part.textContent));
  document.querySelector("[data-said]").textContent = "Copied";
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), 1_500);
});

const markAll = document.querySelector("[data-mark-all]");
if (markAll !== null) {
  markAll.hidden = false;
  markAll.addEventListener("change", () => {
    for (const box of markAll.form.querySelectorAll("[data-row] input[type=checkbox]")) box.checked = markAll.checked;
  });
}

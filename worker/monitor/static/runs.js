// The list of runs: how many are selected, two of them beside each other, and searches that go on.
import { dress } from "./monitor.js";

const bar = document.querySelector(".selection");
const compare = document.querySelector("[data-compare]");
const chosen = () => [...document.querySelectorAll("[data-row] input:checked")].map((box) => box.value);

function tell() {
  const ids = chosen();
  bar.querySelector("[data-selected]").textContent = `${ids.length.toLocaleString("en-US")} selected`;
  compare.hidden = ids.length !== 2;
}

if (bar !== null) {
  document.addEventListener("change", tell);
  compare.addEventListener("click", () => {
    const [b, a] = chosen(); // the newer one stands first
    location.href = new URL(`../../compare?a=${a}&b=${b}`, import.meta.url);
  });
  tell();
}

// What no index knows is searched for piece by piece, until there is enough to look at.
const ENOUGH = 50;
const line = document.querySelector("[data-searching]");
const shown = () => document.querySelectorAll("[data-row]").length;
let isStopped = false;

function tellSearched(runs, backTo) {
  const at = new Date(backTo).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  line.querySelector("span").textContent = `${runs.toLocaleString("en-US")} runs back to ${at}`;
}

function beginLine() {
  const bar = document.createElement("progress");
  const stop = document.createElement("button");
  bar.setAttribute("aria-label", "Searching");
  stop.type = "button";
  stop.textContent = "Stop";
  stop.addEventListener("click", () => (isStopped = true));
  line.append(bar, " ", document.createElement("span"), " ", stop);
  line.hidden = false;
}

function add(fresh) {
  const known = new Set([...document.querySelectorAll("[data-row]")].map((row) => row.dataset.row));
  const rows = [...fresh.querySelectorAll("[data-row]")].filter((row) => !known.has(row.dataset.row));
  document.querySelector(".runs tbody").append(...rows);
  const none = document.querySelector("[data-none]");
  if (none !== null) none.hidden = shown() > 0;
}

async function searchOn() {
  let runs = 0;
  for (;;) {
    const pages = document.querySelector(".pages");
    runs += Number(pages.dataset.runs);
    if (pages.dataset.backTo) tellSearched(runs, pages.dataset.backTo);
    if (isStopped || !("goesOn" in pages.dataset) || shown() >= ENOUGH) return;
    const answer = await fetch(pages.querySelector("a[rel=next]").href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    dress(fresh);
    add(fresh);
    pages.replaceWith(fresh.querySelector(".pages"));
  }
}

if (line !== null) {
  beginLine();
  searchOn()
    .catch(() => {})
    .finally(() => {
      for (const part of line.querySelectorAll("progress, button")) part.remove();
      const none = document.querySelector("[data-none]");
      if (none !== null && !document.querySelector(".pages a[rel=next]")) none.textContent = "No run matches.";
    });
}

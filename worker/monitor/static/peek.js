// A run beside the list: Space or ▸ opens it, j and k go on to the next one, Esc closes it.
import { dress } from "./monitor.js";

const WAIT_MS = 150; // for who goes on quickly
const panel = document.querySelector("[data-peek]");
const body = panel.querySelector("[data-peek-body]");
const wide = window.matchMedia("(min-width: 1024px)");
let wait = null;
let asking = null;
let row = null; // whose run is shown

const linkOf = (of) => of.querySelector(".row-link");

// What stands on the run's page at other addresses than here.
function settle(part, address) {
  for (const link of part.querySelectorAll("a[href^='?'], a[href^='#']")) link.href = new URL(link.getAttribute("href"), address);
  for (const form of part.querySelectorAll("form:not([action])")) form.action = address;
  for (const named of part.querySelectorAll("[data-part]")) named.removeAttribute("data-part");
}

async function fill(address) {
  asking?.abort();
  asking = new AbortController();
  const answer = await fetch(`${address}/events`, { headers: { Accept: "text/html" }, signal: asking.signal });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  dress(fresh);
  const parts = [...fresh.querySelectorAll("main > .run-head, main > .tabs, main > #part")];
  for (const part of parts) settle(part, address);
  for (const part of parts) part.removeAttribute("id");
  body.replaceChildren(...parts);
  body.scrollTop = 0;
}

function show(next) {
  row?.classList.remove("is-peeked");
  row = next;
  row.classList.add("is-peeked");
  panel.hidden = false;
  document.body.classList.add("has-peek");
  const address = linkOf(row).href;
  panel.querySelector("a").href = address;
  clearTimeout(wait);
  wait = setTimeout(() => fill(address).catch(() => {}), WAIT_MS);
}

function close() {
  const link = linkOf(row);
  row.classList.remove("is-peeked");
  row = null;
  panel.hidden = true;
  document.body.classList.remove("has-peek");
  body.replaceChildren();
  link.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest(".peek-open");
  if (button !== null) {
    const next = button.closest("[data-row]");
    linkOf(next).focus();
    if (next === row) close();
    else show(next);
  } else if (event.target.closest("[data-peek-close]")) {
    close();
  }
});
document.addEventListener("focusin", (event) => {
  const next = event.target.closest("[data-row]");
  if (row !== null && next !== null && next !== row) show(next);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && row !== null && !document.querySelector("dialog[open]")) close();
  if (event.key !== " " || !event.target.matches(".row-link") || !wide.matches) return;
  event.preventDefault();
  const next = event.target.closest("[data-row]");
  if (next === row) close();
  else show(next);
});

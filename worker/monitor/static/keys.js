// Keyboard shortcuts. They can be switched off, and are ignored while typing.
import { open as openFind } from "./find.js";

const OFF = "sleipnir-keys"; // "off" in the browser's storage
const GO_MS = 1_500; // for the letter after `g`
const help = document.querySelector("[data-keys-help]");
const enabled = help.querySelector("[data-keys-enabled]");
let going = 0; // until when

const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.querySelector("a"));
const rowHere = () => document.activeElement.closest("[data-row]");
const follow = (selector) => document.querySelector(selector)?.click();

function step(by) {
  const all = rows();
  if (all.length === 0) return;
  const here = all.indexOf(rowHere());
  const row = all[here === -1 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by))];
  row.querySelector("a").focus();
  row.scrollIntoView({ block: "nearest" });
}

function tick() {
  const box = rowHere()?.querySelector("input[type=checkbox]");
  if (box) box.click();
}

function expand() {
  const all = [...document.querySelectorAll("main details:not(.drop)")];
  const open = all.some((each) => !each.open);
  for (const each of all) each.open = open;
}

// Pages by the first letter of their names in the rail.
function go(letter) {
  const pages = [...document.querySelectorAll(".rail nav a")];
  pages.find((page) => page.textContent.trim().toLowerCase().startsWith(letter))?.click();
}

const ACTS = {
  "/": openFind,
  j: () => step(1),
  k: () => step(-1),
  x: tick,
  "[": () => follow(".steps a[rel=prev]"),
  "]": () => follow(".steps a[rel=next]"),
  f: () => follow(".banner a, a.reason"),
  e: expand,
  "?": () => help.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  if (localStorage.getItem(OFF) === "off") return;
  const isGoing = going > event.timeStamp;
  going = 0;
  if (isGoing) return go(event.key);
  if (event.key === "g") going = event.timeStamp + GO_MS;
  const act = ACTS[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

enabled.checked = localStorage.getItem(OFF) !== "off";
enabled.addEventListener("change", () => localStorage.setItem(OFF, enabled.checked ? "on" : "off"));
for (const button of document.querySelectorAll("[data-keys]")) {
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}

// What is chosen in the rail, and remembered by this browser.
import { isUtc, localise, useUtc } from "./times.js";

const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");

const theme = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
const SWITCHES = {
  "[data-theme-switch]": {
    text: () => `Theme: ${theme()}`,
    turn() {
      root.dataset.theme = theme() === "dark" ? "light" : "dark";
      localStorage.setItem("flower-theme", root.dataset.theme);
    },
  },
  "[data-density-switch]": {
    text: () => (root.dataset.rows ? "Rows: roomy" : "Rows: compact"),
    turn: () => keep("rows", "roomy"),
  },
  "[data-zone-switch]": {
    text: () => (isUtc() ? "Times: UTC" : "Times: local"),
    turn() {
      useUtc(!isUtc());
      localise(document);
    },
  },
  "[data-fold]": { turn: () => keep("rail", "folded") },
};

// A choice that is there or not.
function keep(name, value) {
  if (root.dataset[name]) {
    delete root.dataset[name];
    localStorage.removeItem(`sleipnir-${name}`);
  } else {
    root.dataset[name] = value;
    localStorage.setItem(`sleipnir-${name}`, value);
  }
}

for (const [selector, { text, turn }] of Object.entries(SWITCHES)) {
  const button = document.querySelector(selector);
  if (button === null) continue;
  const tell = () => {
    if (text) button.textContent = text();
    else button.setAttribute("aria-pressed", String(Boolean(root.dataset.rail)));
  };
  button.hidden = false;
  tell();
  button.addEventListener("click", () => {
    turn();
    tell();
  });
}

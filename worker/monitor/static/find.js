// Finds whatever has a name, and does what the page can do: `/`, Ctrl-K or the box at the top.

const dialog = document.querySelector("[data-find]");
const input = dialog.querySelector("input");
const list = dialog.querySelector("ul");
const WAIT_MS = 60; // for the next letter
const MOST_ACTS = 6;
const ICONS = {
  page: "house",
  agent: "bot",
  batch: "layers",
  evaluation: "list",
  item: "layers",
  label: "list",
  limit: "gauge",
  run: "play",
  act: "terminal",
};
const sprite = dialog.querySelector("use").getAttribute("href").split("#")[0];
let wait = null;
let asking = null; // for the text as it is now
let shown = [];
let chosen = -1;

const site = (path) => new URL(`../..${path}`, import.meta.url);

// What the page can do.
function actsOf(text) {
  const parts = document.querySelectorAll("main :is(.btn, button:not(.copy)), main .menu :is(a, button)");
  const named = [...parts].map((part) => ({ part, name: part.textContent.trim().replace(/\s+/g, " ") }));
  const isThere = (part) => (part.closest("details:not([open])") ?? part).checkVisibility(); // menus are opened
  const found = named.filter(({ part, name }) => name.toLowerCase().includes(text) && !part.disabled && isThere(part));
  const once = new Map(found.map((each) => [each.name, each]));
  return [...once.values()].slice(0, MOST_ACTS).map(({ part, name }) => ({ kind: "act", name, part }));
}

function icon(kind) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${sprite}#${ICONS[kind]}`);
  svg.append(use);
  return svg;
}

function option(each, place) {
  const row = document.createElement("li");
  row.id = `found-${place}`;
  row.setAttribute("role", "option");
  const name = document.createElement("bdi");
  name.textContent = each.name;
  const kind = document.createElement("span");
  kind.className = "quiet";
  kind.textContent = each.about ?? each.kind;
  row.append(icon(each.kind), name, kind);
  row.addEventListener("click", () => go(each));
  row.addEventListener("pointermove", () => choose(place));
  return row;
}

// A page is opened. A part that changes something gets the focus only: pressing it is the reader's.
function go(each) {
  if (each.path !== undefined) {
    location.href = site(each.path);
    return;
  }
  dialog.close();
  const menu = each.part.matches("summary") ? null : each.part.closest("details");
  if (menu !== null) menu.open = true;
  each.part.focus();
  each.part.scrollIntoView({ block: "nearest" });
  if (each.part.matches("a, summary, [type=button]")) each.part.click();
}

function show(found) {
  shown = found;
  list.replaceChildren(...found.map(option));
  choose(found.length > 0 ? 0 : -1);
}

function choose(place) {
  chosen = place;
  for (const [at, row] of [...list.children].entries()) row.setAttribute("aria-selected", String(at === place));
  if (place < 0) {
    input.removeAttribute("aria-activedescendant");
    return;
  }
  input.setAttribute("aria-activedescendant", `found-${place}`);
  list.children[place].scrollIntoView({ block: "nearest" });
}

async function ask() {
  const text = input.value.trim();
  if (!text) return;
  asking?.abort();
  asking = new AbortController();
  const answer = await fetch(site(`/api/v1/find?q=${encodeURIComponent(text)}`), { signal: asking.signal });
  const { found } = answer.ok ? await answer.json() : { found: [] };
  if (input.value.trim() === text) show([...found, ...actsOf(text.toLowerCase())]);
}

export function open() {
  if (dialog.open) return;
  dialog.showModal();
  input.select();
}

input.addEventListener("input", () => {
  clearTimeout(wait);
  show([]); // until it is known what is found, Enter searches texts
  const text = input.value.trim();
  dialog.querySelector("[data-find-text]").textContent = text && ` for “${text}”`;
  wait = setTimeout(() => ask().catch(() => {}), WAIT_MS);
});
input.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by !== undefined && shown.length > 0) {
    event.preventDefault();
    choose((chosen + by + shown.length) % shown.length);
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    go(shown[chosen]);
  }
});
dialog.addEventListener("close", () => input.blur()); // keys are for the page again
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
document.querySelector("[data-find-open]").addEventListener("click", open);
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  open();
});

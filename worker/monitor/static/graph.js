// The drawing of a run: searched, coloured, followed, and kept as the run stands.
import { look, mark } from "./live.js";
import { boxOf, bring, drawing, element, fit, frame, listen, movedMs, nodes, open, refresh as refreshView, zoom } from "./view.js";

const AGAIN_MS = 2_000; // until a drawing that is being laid out is asked for again
const QUIET_MS = 10_000; // after the reader has moved the drawing, nothing else moves it
const NEW_MS = 600;
const BELOW_PX = 60; // room that the page needs below the drawing
const LEAST_PX = 416;

// The drawing and the panel fill what the page has left of the window.
function stretch() {
  if (frame.matches(".is-alone")) return;
  const top = frame.getBoundingClientRect().top + scrollY;
  document.documentElement.style.setProperty("--graph-height", `${Math.max(LEAST_PX, innerHeight - top - BELOW_PX)}px`);
}

const tool = (name) => document.querySelector(`[data-tool="${name}"]`);

// A node in a row has no box of its own: its page shows the row's.
function find(name) {
  const found = nodes().find((node) => node.dataset.node === name);
  if (found === undefined) return [...document.querySelectorAll(".nodes a")].find((each) => each.textContent === name)?.click();
  bring(found, 1);
  found.focus({ preventScroll: true });
}

// Costs or times instead of states: the more, the darker.
function heat() {
  const mode = tool("mode")?.value ?? "state";
  const most = Math.max(...nodes().map((node) => Number(node.dataset[mode] ?? 0)), 0);
  drawing().classList.toggle("is-heat", mode !== "state");
  if (mode === "state") return;
  for (const node of nodes()) {
    const value = Number(node.dataset[mode]);
    node.style.setProperty("--heat", `${most ? Math.round((60 * value) / most) : 0}%`);
    node.querySelector(".now").textContent = node.dataset[`${mode}Text`];
  }
}

// ---- what happens meanwhile

function paint(states) {
  for (const node of nodes()) {
    if (!(node.dataset.node in states)) continue;
    const [state, text, visits, share] = states[node.dataset.node];
    const ring = node.parentNode.querySelector(".ring");
    const line = node.querySelector(".now");
    if (node.classList.contains(`is-${state}`) && line.textContent === text && visitsOf(node) === Math.max(1, visits) && !share) continue;
    for (const each of [node, ring]) if (each !== null) setState(each, state);
    if (share !== undefined) ring?.querySelector(".share").setAttribute("stroke-dasharray", `${share} 100`);
    line.textContent = text;
    countVisits(node, visits);
  }
  refresh();
}

function setState(node, state) {
  for (const name of [...node.classList]) if (name.startsWith("is-") && name !== "is-chosen") node.classList.remove(name);
  node.classList.add(`is-${state}`);
}

const visitsOf = (node) => Number(node.querySelector(".times")?.textContent.replace(/\D/g, "") ?? 1);

function countVisits(node, visits) {
  node.querySelector(".badge")?.remove();
  const old = node.querySelector(".times");
  old?.previousSibling.remove(); // the blank before it
  old?.remove();
  if (visits < 2) return;
  const text = `×${visits.toLocaleString("en")}`;
  const width = 10 + 7 * text.length;
  const left = boxOf(node).width - width + 6;
  const line = node.querySelector("text");
  line.before(element("rect", { class: "badge", x: left, y: -9, width, height: 18, rx: 9 }));
  line.append(" ", element("tspan", { class: "times", x: left + width / 2, y: 4 }, text));
}

// How often each arrow was taken, by the nodes at its ends.
function take(taken) {
  const ids = new Map(nodes().map((node) => [node.id.slice(2), node.dataset.node]));
  for (const arrow of frame.querySelectorAll(".arrow")) {
    const count = taken.get(arrow.dataset.ends.split(" ").map((number) => ids.get(number)).join("\n")) ?? 0;
    arrow.dataset.taken = count;
    arrow.classList.remove("is-taken", "wide-1", "wide-2", "wide-3", "wide-4");
    if (count) arrow.classList.add("is-taken", `wide-${Math.min(String(count).length, 4)}`);
  }
}

// An arrow that was taken since the last look lights up once.
let known = null;
function tellTaken() {
  const taken = new Map([...frame.querySelectorAll(".arrow")].map((arrow) => [arrow.dataset.ends + arrow.classList[1], arrow]));
  for (const [name, arrow] of taken) {
    if (known !== null && Number(arrow.dataset.taken) === known.get(name) + 1) {
      arrow.classList.add("is-new");
      setTimeout(() => arrow.classList.remove("is-new"), NEW_MS);
    }
  }
  known = new Map([...taken].map(([name, arrow]) => [name, Number(arrow.dataset.taken)]));
}

function follow() {
  if (!tool("follow")?.checked || movedMs() < QUIET_MS) return;
  const active = frame.querySelector("a.is-running, a.is-waiting, a.is-queued");
  if (active !== null) bring(active);
}

// ---- other steps and nodes are shown in place

const panel = () => document.querySelector(".node-panel");

async function openHere(link, url) {
  const isNode = link.matches("a.node");
  history.pushState(null, "", url);
  await look().catch(() => location.reload());
  if (isNode && link === document.activeElement) panel()?.querySelector("h2")?.focus();
}

function listenToLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-part] a[href]");
    if (link === null || link.matches("[data-turn]") || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const url = new URL(link.getAttribute("href"), location.href);
    if (url.origin + url.pathname !== location.origin + location.pathname || url.hash) return;
    event.preventDefault();
    openHere(link, url);
  });
  window.addEventListener("popstate", () => look().catch(() => {}));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel()?.contains(document.activeElement)) frame.querySelector("a.is-chosen")?.focus();
  });
}

function addTools() {
  const acts = { in: () => zoom(1.25), out: () => zoom(0.8), fit };
  for (const [name, act] of Object.entries(acts)) tool(name).addEventListener("click", act);
  tool("full").addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : frame.requestFullscreen()));
  if (tool("follow") !== null) addToolsOfRuns();
  tool("find").addEventListener("change", () => find(tool("find").value));
  frame.addEventListener("scaled", ({ detail }) => (tool("scale").textContent = `${Math.round(100 * detail)} %`));
}

function addToolsOfRuns() {
  tool("follow").checked = localStorage.getItem("sleipnir-follow") === "yes";
  tool("follow").addEventListener("change", () => {
    localStorage.setItem("sleipnir-follow", tool("follow").checked ? "yes" : "no");
    follow();
  });
  tool("mode").addEventListener("change", () => (tool("mode").value === "state" ? look() : heat()));
}

// Names that can be found; also of nodes that have no box of their own.
function listNames() {
  const names = new Set([...nodes().map((node) => node.dataset.node), ...[...document.querySelectorAll(".nodes a")].map((link) => link.textContent)]);
  document.getElementById("graph-ids").replaceChildren(...[...names].map((name) => new Option("", name)));
}

function refresh() {
  tool("full").hidden = !document.fullscreenEnabled;
  stretch();
  refreshView();
  heat();
  tellTaken();
  follow();
}

if (frame !== null && drawing() !== null) {
  addTools();
  listNames();
  refresh();
  open(frame.querySelector("a.is-chosen, a.is-failed, a.is-waiting, a.is-running") ?? nodes()[0]);
  listen();
  listenToLinks();
  window.addEventListener("resize", stretch);
  // Its part of the page may say why there is no drawing any more.
  mark.addEventListener("nodes", ({ detail }) => new URLSearchParams(location.search).has("step") || paint(detail));
  frame.addEventListener("step", ({ detail: { states, taken } }) => {
    take(taken);
    paint(states);
  });
  mark.addEventListener("fresh", () => {
    if (!frame.isConnected) return;
    listNames();
    refresh();
  });
} else if (document.querySelector("[data-again]") !== null) {
  setTimeout(() => location.reload(), AGAIN_MS);
}

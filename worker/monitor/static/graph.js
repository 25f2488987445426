// The drawing of a run: moved, enlarged, searched, coloured, and played step by step.
import { look, mark } from "./live.js";

const SMALLEST = 0.05; // px of the screen per unit of the drawing
const LARGEST = 4;
const MANY = 60; // nodes; more get a map of the whole
const DRAG_PX = 4; // less is a click
const PLAY_MS = 30_000; // at most so long from the first step to the last one
const AGAIN_MS = 2_000; // until a drawing that is being laid out is asked for again
const frame = document.querySelector("[data-graph]");
const drawing = () => frame.querySelector("svg.graph");
const nodes = () => [...frame.querySelectorAll("a.node")];
const params = () => new URLSearchParams(location.search);

let whole; // x, y, width, height of all of it, in units of the drawing
let view; // x, y of the upper left corner, and the scale

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function show() {
  const [width, height] = [frame.clientWidth / view.scale, frame.clientHeight / view.scale];
  // A margin of half a view all around: nothing gets lost.
  view.x = clamp(view.x, whole.x - width / 2, whole.x + whole.width - width / 2);
  view.y = clamp(view.y, whole.y - height / 2, whole.y + whole.height - height / 2);
  drawing().setAttribute("viewBox", `${view.x} ${view.y} ${width} ${height}`);
  const here = frame.querySelector(".minimap .here");
  if (here === null) return;
  for (const [name, value] of Object.entries({ x: view.x, y: view.y, width, height })) here.setAttribute(name, value);
}

function fit() {
  const scale = Math.min(frame.clientWidth / whole.width, frame.clientHeight / whole.height, 1);
  view = { scale: clamp(scale, SMALLEST, LARGEST) };
  centre(whole.x + whole.width / 2, whole.y + whole.height / 2);
}

// What is at a point of the frame stays there.
function zoom(factor, x = frame.clientWidth / 2, y = frame.clientHeight / 2) {
  const scale = clamp(view.scale * factor, SMALLEST, LARGEST);
  view.x += x / view.scale - x / scale;
  view.y += y / view.scale - y / scale;
  view.scale = scale;
  show();
}

function move(x, y) {
  view.x -= x / view.scale;
  view.y -= y / view.scale;
  show();
}

function centre(x, y) {
  view.x = x - frame.clientWidth / view.scale / 2;
  view.y = y - frame.clientHeight / view.scale / 2;
  show();
}

function bring(node, least = 0) {
  const [box, width, height] = [node.getBBox(), frame.clientWidth / view.scale, frame.clientHeight / view.scale];
  const isSeen = box.x >= view.x && box.y >= view.y && box.x + box.width <= view.x + width && box.y + box.height <= view.y + height;
  view.scale = Math.max(view.scale, least);
  if (least || !isSeen) centre(box.x + box.width / 2, box.y + box.height / 2);
}

// ---- pointers: one moves, two pinch

const pointers = new Map();
let dragged = 0;

function places() {
  const { left, top } = frame.getBoundingClientRect();
  return [...pointers.values()].map(([x, y]) => [x - left, y - top]);
}

function spread([[ax, ay], [bx, by]]) {
  return { size: Math.hypot(ax - bx, ay - by) || 1, x: (ax + bx) / 2, y: (ay + by) / 2 };
}

function press(event) {
  if (event.button !== 0 || event.target.closest(".minimap")) return;
  if (pointers.size === 0) dragged = 0;
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
}

function drag(event) {
  const before = pointers.get(event.pointerId);
  if (before === undefined) return;
  const old = places();
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  if (pointers.size === 2) {
    const [from, to] = [spread(old), spread(places())];
    move(to.x - from.x, to.y - from.y);
    zoom(to.size / from.size, to.x, to.y);
    dragged = DRAG_PX;
  } else if (pointers.size === 1) {
    const [x, y] = [event.clientX - before[0], event.clientY - before[1]];
    dragged += Math.hypot(x, y);
    if (dragged >= DRAG_PX && !frame.hasPointerCapture(event.pointerId)) frame.setPointerCapture(event.pointerId);
    move(x, y);
  }
}

function listen() {
  frame.addEventListener("pointerdown", press);
  frame.addEventListener("pointermove", drag);
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, (event) => pointers.delete(event.pointerId));
  frame.addEventListener("dragstart", (event) => event.preventDefault());
  frame.addEventListener("click", (event) => dragged >= DRAG_PX && event.preventDefault(), true);
  frame.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = frame.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - left, event.clientY - top);
  }, { passive: false });
  frame.addEventListener("focusin", (event) => {
    const node = event.target.closest("a.node");
    if (node?.matches(":focus-visible")) bring(node);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    ({ "+": () => zoom(1.25), "-": () => zoom(0.8), 0: fit })[event.key]?.();
  });
  new ResizeObserver(show).observe(frame);
}

// ---- a map of the whole

function element(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawMinimap() {
  frame.querySelector(".minimap")?.remove();
  if (nodes().length <= MANY) return;
  const { x, y, width, height } = whole;
  const map = element("svg", { class: "minimap", viewBox: `${x} ${y} ${width} ${height}`, "aria-hidden": "true" });
  for (const node of nodes()) {
    const box = node.getBBox();
    const state = [...node.classList].filter((each) => each.startsWith("is-")).join(" ");
    map.append(element("rect", { class: state, x: box.x, y: box.y, width: box.width, height: box.height }));
  }
  map.append(element("rect", { class: "here" }));
  const go = (event) => {
    if (event.buttons !== 1) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    centre(at.x, at.y);
  };
  map.addEventListener("pointerdown", go);
  map.addEventListener("pointermove", go);
  frame.append(map);
}

// ---- tools

// A node in a row has no box of its own: its page shows the row's.
function find(name) {
  const found = nodes().find((node) => node.dataset.node === name);
  if (found === undefined) return [...document.querySelectorAll(".nodes a")].find((each) => each.textContent === name)?.click();
  bring(found, 0.8);
  found.focus({ preventScroll: true });
}

let tools;
const tool = (name) => tools.querySelector(`[data-tool="${name}"]`);

// Costs or times instead of states: the more, the darker.
function heat() {
  const mode = tool("mode").value;
  const most = Math.max(...nodes().map((node) => Number(node.dataset[mode] ?? 0)), 0);
  drawing().classList.toggle("is-heat", mode !== "state");
  if (mode === "state") return;
  for (const node of nodes()) {
    const value = Number(node.dataset[mode]);
    node.style.setProperty("--heat", `${most ? Math.round((60 * value) / most) : 0}%`);
    node.querySelector(".now").textContent = node.dataset[`${mode}Text`];
  }
}

function follow() {
  if (!tool("follow").checked) return;
  const active = frame.querySelector("a.is-running, a.is-waiting, a.is-queued");
  if (active !== null) bring(active);
}

// ---- other steps and nodes are shown in place

// The last step is shown as it is now.
function setStep(step) {
  const query = params();
  if (step < Number(frame.dataset.steps)) query.set("step", step);
  else query.delete("step");
  history.replaceState(null, "", `?${query}`);
}

let wanted = null;
let isStepping = false;
async function showStep(step) {
  wanted = step;
  if (isStepping) return;
  isStepping = true;
  while (wanted !== null) {
    setStep(wanted);
    wanted = null;
    await look().catch(() => {});
  }
  isStepping = false;
}

function refreshStep() {
  const [slider, shown] = [tool("step"), params().get("step")];
  slider.max = frame.dataset.steps;
  if (wanted === null) slider.value = shown ?? slider.max;
  tool("shown").textContent = shown === null ? tool("shown").dataset.now : `${shown} / ${slider.max}`;
}

const panel = () => document.querySelector(".panel");

async function openHere(link, url) {
  const isNode = link.matches("a.node");
  history.pushState(null, "", url);
  await look().catch(() => location.reload());
  if (isNode && link === document.activeElement) panel().querySelector("h2")?.focus();
}

function listenToLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-part] a[href]");
    if (link === null || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const url = new URL(link.getAttribute("href"), location.href);
    if (url.origin + url.pathname !== location.origin + location.pathname || url.hash) return;
    event.preventDefault();
    openHere(link, url);
  });
  window.addEventListener("popstate", () => look().catch(() => {}));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel().contains(document.activeElement)) frame.querySelector("a.is-chosen")?.focus();
  });
}

let playing = null;
async function play() {
  const button = tool("play");
  const last = Number(frame.dataset.steps);
  const stop = () => {
    playing = null;
    button.textContent = button.dataset.play;
  };
  if (playing !== null) return stop();
  const mine = (playing = {});
  button.textContent = button.dataset.stop;
  const shown = params().get("step");
  let step = shown === null || Number(shown) >= last ? 0 : Number(shown);
  for (; playing === mine; step += 1) {
    setStep(step);
    const began = performance.now();
    await look().catch(stop);
    if (step >= last) return stop();
    const pause = clamp(PLAY_MS / last, 100, 1_000) - (performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, pause)));
  }
}

function addTools() {
  frame.closest("[data-part]").before(document.querySelector("template[data-graph-tools]").content.cloneNode(true));
  tools = document.querySelector(".graph-tools");
  const acts = { in: () => zoom(1.25), out: () => zoom(0.8), fit, play };
  for (const [name, act] of Object.entries(acts)) tool(name).addEventListener("click", act);
  tool("play").hidden = Number(frame.dataset.steps) === 0;
  tool("step").addEventListener("input", () => showStep(Number(tool("step").value)));
  tool("follow").checked = localStorage.getItem("sleipnir-follow") === "yes";
  tool("follow").addEventListener("change", () => {
    localStorage.setItem("sleipnir-follow", tool("follow").checked ? "yes" : "no");
    follow();
  });
  tool("mode").addEventListener("change", () => (tool("mode").value === "state" ? look() : heat()));
  tool("find").addEventListener("change", () => find(tool("find").value));
}

// The drawing was replaced or recoloured: show the same part of it as before.
function refresh() {
  const [x, y, width, height] = drawing().dataset.whole.split(" ").map(Number);
  whole = { x, y, width, height };
  refreshStep();
  frame.classList.add("is-movable");
  frame.style.height = `${Math.min(whole.height, 0.75 * innerHeight)}px`;
  heat();
  drawMinimap();
  show();
  follow();
}

if (frame !== null && drawing() !== null) {
  view = { x: 0, y: 0, scale: 1 };
  addTools();
  refresh();
  fit();
  const first = frame.querySelector("a.is-chosen, a.is-running, a.is-waiting") ?? nodes()[0];
  if (view.scale < 0.4) bring(first, 0.8); // else too small to be read
  listen();
  listenToLinks();
  // Its part of the page may say why there is no drawing any more.
  mark.addEventListener("fresh", () => frame.isConnected && refresh());
} else if (document.querySelector("[data-again]") !== null) {
  setTimeout(() => location.reload(), AGAIN_MS);
}

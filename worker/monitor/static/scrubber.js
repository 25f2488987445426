// The steps of a run: the drawing shows any of them at once, from a record of them all.
import { look, mark } from "./live.js";
import { frame } from "./view.js";

const REST_MS = 300; // until all the rest of the page shows the step, too
const STEP_MS = 800; // when it is played, at 1×
const KINDS = ["again", "asked", "failed"]; // the last ones are seen best
const place = document.querySelector("[data-scrubber]");
const tool = (name) => document.querySelector(`[data-tool="${name}"]`);
const params = () => new URLSearchParams(location.search);
const lastStep = () => Number(frame.dataset.steps);
export const shownStep = () => (params().has("step") ? Number(params().get("step")) : lastStep());

// ---- the record

let record = null; // {nodes, steps, marks}
let reading = null;

async function read() {
  const found = record ?? { nodes: [], steps: [], marks: { failed: [], asked: [], again: [] } };
  let from = found.steps.length ? found.steps.at(-1).step + 1 : 0;
  while (from !== null) {
    const answer = await fetch(`${place.dataset.scrubber}?from=${from}`);
    if (!answer.ok) return found;
    const more = await answer.json();
    found.nodes = more.nodes;
    found.steps.push(...more.steps);
    for (const kind of KINDS) found.marks[kind].push(...more.marks[kind]);
    from = more.next;
  }
  return found;
}

async function load() {
  if (record !== null && record.steps.at(-1)?.step >= lastStep()) return;
  reading ??= read().finally(() => (reading = null));
  record = await reading;
  drawMarks();
}

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

let marks = null;
function drawMarks() {
  marks?.remove();
  const last = Math.max(1, lastStep());
  marks = svg("svg", { class: "marks", viewBox: `0 0 ${last} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const kind of KINDS) {
    marks.append(svg("path", { class: `mark-${kind}`, d: record.marks[kind].map((step) => `M${step} 1v8`).join("") }));
  }
  place.append(marks);
}

// ---- what of it a drawing shows

// All of the first steps together, up to one.
function sumUpTo(step) {
  const sum = { visits: new Map(), failed: new Set(), taken: new Map(), next: new Set() };
  for (const each of record.steps) {
    if (each.step > step) break;
    for (const node of each.ran) sum.visits.set(node, (sum.visits.get(node) ?? 0) + 1);
    for (const node of each.failed) sum.failed.add(node);
    for (const route of each.taken) sum.taken.set(route.join(" "), (sum.taken.get(route.join(" ")) ?? 0) + 1);
    sum.next = new Set(each.next);
  }
  return sum;
}

function stateOf(node, sum) {
  if (sum.next.has(node)) return "running";
  if (!sum.visits.has(node)) return "untouched";
  return sum.failed.has(node) ? "tolerated" : "done";
}

const LINES = { running: "◐ running", untouched: "", tolerated: "✕ failed, continued", done: "✓ done" };

function paint(step) {
  const sum = sumUpTo(step);
  const states = {};
  record.nodes.forEach((id, node) => {
    const state = stateOf(node, sum);
    states[id] = [state, LINES[state], sum.visits.get(node) ?? 0];
  });
  const taken = new Map();
  for (const [route, count] of sum.taken) taken.set(route.split(" ").map((node) => record.nodes[node]).join("\n"), count);
  frame.dispatchEvent(new CustomEvent("step", { detail: { states, taken } }));
}

// ---- choosing one

function tell(step) {
  tool("step").value = step;
  const text = step < lastStep() ? `after step ${step.toLocaleString("en")} of ${lastStep().toLocaleString("en")}` : "now";
  tool("step").setAttribute("aria-valuetext", text);
  tool("shown").textContent = text;
}

// The last step is shown as it is now.
function setAddress(step) {
  const query = params();
  if (step < lastStep()) query.set("step", step);
  else query.delete("step");
  history.replaceState(null, "", `?${query}`);
}

let resting = null;
async function show(step, rests = true) {
  setAddress(step);
  tell(step);
  clearTimeout(resting);
  await load().catch(() => {});
  if (record !== null && shownStep() === step) paint(step);
  if (rests) resting = setTimeout(() => look().catch(() => {}), REST_MS);
}

// ---- playing

let playing = null;
function stop() {
  clearInterval(playing);
  playing = null;
  tool("play").textContent = tool("play").dataset.play;
  show(shownStep());
}

function play() {
  if (playing !== null) return stop();
  if (shownStep() >= lastStep()) show(0, false);
  tool("play").textContent = tool("play").dataset.stop;
  const next = () => (shownStep() >= lastStep() ? stop() : show(shownStep() + 1, false));
  playing = setInterval(next, STEP_MS / Number(tool("speed").value));
}

function refresh() {
  const [step, has] = [shownStep(), lastStep() > 0];
  tool("step").max = lastStep();
  place.hidden = !has;
  for (const name of ["play", "speed"]) tool(name).hidden = !has;
  tool("play").textContent = tool("play").dataset[playing === null ? "play" : "stop"];
  tell(step);
  if (marks !== null) place.append(marks);
}

if (place !== null && frame !== null) {
  tool("step").addEventListener("input", () => show(Number(tool("step").value)));
  tool("play").addEventListener("click", play);
  tool("speed").addEventListener("change", () => {
    if (playing === null) return;
    stop();
    play();
  });
  // Links lead to other steps without scripts; `[` and `]` follow them.
  place.parentNode.addEventListener("click", (event) => {
    const by = { prev: -1, next: 1, last: Infinity }[event.target.closest("a")?.rel];
    if (by === undefined || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(Math.min(lastStep(), Math.max(0, shownStep() + by)));
  });
  mark.addEventListener("fresh", refresh);
  refresh();
  if (lastStep() > 0) load().catch(() => {});
}

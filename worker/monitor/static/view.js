// What of a drawing is seen: it is moved, enlarged, and shown in less detail from afar.
export const frame = document.querySelector("[data-graph]");
export const drawing = () => frame.querySelector("svg.graph");
export const nodes = () => [...frame.querySelectorAll("a.node")];

const SMALLEST = 0.05; // px of the screen per unit of the drawing
const LARGEST = 4;
const LARGEST_FIT = 1.5;
const READABLE = 12 / 13; // names have 13 units
const SMALL = 0.7; // below, names alone
const TINY = 0.4; // below, coloured blocks
const MANY = 25; // nodes; as many get a map of the whole
const DRAG_PX = 4; // less is a click
const FEWEST_FOLDED = 4;

let whole; // x, y, width, height of all of it, in units of the drawing
let view = { x: 0, y: 0, scale: 1 };
let movedAt = -Infinity; // when the reader moved it
export const movedMs = () => performance.now() - movedAt;

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

export function boxOf(node) {
  const { e: x, f: y } = node.parentNode.transform.baseVal[0].matrix;
  const [width, height] = ["width", "height"].map((name) => Number(node.querySelector(".shape").getAttribute(name)));
  return { x, y, width, height };
}

export function element(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function show() {
  const [width, height] = [frame.clientWidth / view.scale, frame.clientHeight / view.scale];
  // A margin of half a view all around: nothing gets lost.
  view.x = clamp(view.x, whole.x - width / 2, whole.x + whole.width - width / 2);
  view.y = clamp(view.y, whole.y - height / 2, whole.y + whole.height - height / 2);
  const svg = drawing();
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${width} ${height}`);
  svg.classList.toggle("is-small", view.scale < SMALL);
  svg.classList.toggle("is-tiny", view.scale < TINY);
  foldRows(svg);
  frame.dispatchEvent(new CustomEvent("scaled", { detail: view.scale }));
  const here = frame.querySelector(".minimap .here");
  if (here === null) return;
  for (const [name, value] of Object.entries({ x: view.x, y: view.y, width, height })) here.setAttribute(name, value);
}

export function fit() {
  const scale = Math.min(frame.clientWidth / whole.width, frame.clientHeight / whole.height, LARGEST_FIT);
  view.scale = clamp(scale, SMALLEST, LARGEST);
  centre(whole.x + whole.width / 2, whole.y + whole.height / 2);
}

// All of it if names can be read then, else what matters, so that it is moved along one axis only.
export function open(node) {
  fit();
  if (view.scale >= READABLE) return;
  view.scale = 1;
  const box = boxOf(node);
  const across = within(box.x + box.width / 2, frame.clientWidth, whole.x, whole.width);
  centre(across, within(box.y + box.height / 2, frame.clientHeight, whole.y, whole.height));
}

// The middle of what is seen of a length, near a point, without a blank at its ends.
function within(at, seen, start, length) {
  return length <= seen ? start + length / 2 : clamp(at, start + seen / 2, start + length - seen / 2);
}

// What is at a point of the frame stays there.
export function zoom(factor, x = frame.clientWidth / 2, y = frame.clientHeight / 2) {
  const scale = clamp(view.scale * factor, SMALLEST, LARGEST);
  view.x += x / view.scale - x / scale;
  view.y += y / view.scale - y / scale;
  view.scale = scale;
  show();
}

function move(x, y) {
  movedAt = performance.now();
  view.x -= x / view.scale;
  view.y -= y / view.scale;
  show();
}

function centre(x, y) {
  view.x = x - frame.clientWidth / view.scale / 2;
  view.y = y - frame.clientHeight / view.scale / 2;
  show();
}

export function bring(node, least = 0) {
  const [box, width, height] = [boxOf(node), frame.clientWidth / view.scale, frame.clientHeight / view.scale];
  const isSeen = box.x >= view.x && box.y >= view.y && box.x + box.width <= view.x + width && box.y + box.height <= view.y + height;
  view.scale = Math.max(view.scale, least);
  if (least || !isSeen) centre(box.x + box.width / 2, box.y + box.height / 2);
}

// ---- from afar, nodes in a row that are done, or not begun, are one block

const STILL = ["done", "untouched"];
const stillOf = (node) => STILL.find((state) => node.classList.contains(`is-${state}`) && !node.classList.contains("is-chosen"));

function foldRows(svg) {
  const isSmall = view.scale < SMALL;
  if (!isSmall && !svg.classList.contains("is-folded")) return;
  for (const old of svg.querySelectorAll(".fold")) old.remove();
  for (const node of svg.querySelectorAll(".is-covered")) node.classList.remove("is-covered");
  svg.classList.toggle("is-folded", isSmall);
  if (!isSmall) return;
  for (const row of JSON.parse(svg.dataset.rows ?? "[]")) {
    let number = 0; // each is told by how much more it is
    foldRow(svg, row.map((more) => svg.querySelector(`#n-${(number += more)}`)));
  }
}

function foldRow(svg, row) {
  let part = [];
  for (const node of [...row, null]) {
    if (node !== null && stillOf(node) && (part.length === 0 || stillOf(node) === stillOf(part[0]))) {
      part.push(node);
      continue;
    }
    if (part.length >= FEWEST_FOLDED) cover(svg, part);
    part = node !== null && stillOf(node) ? [node] : [];
  }
}

function cover(svg, part) {
  const boxes = part.map(boxOf);
  const [x, y] = ["x", "y"].map((axis) => Math.min(...boxes.map((box) => box[axis])));
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  const state = stillOf(part[0]);
  const size = 13 / view.scale;
  const middle = (y + bottom) / 2 + size / 3;
  // In the block if it is high enough, else above it.
  const text = element("text", { x: (x + right) / 2, y: size < bottom - y ? middle : y - size / 2, "text-anchor": "middle", "font-size": size }, `${state === "done" ? "✓" : "…"} ${part.length} nodes`);
  const rect = element("rect", { x, y, width: right - x, height: bottom - y, rx: 8 });
  const title = element("title", {}, part.map((node) => node.dataset.node).join(", "));
  const fold = element("g", { class: `fold is-${state}` }, title, rect, text);
  fold.addEventListener("click", () => bring(part[0], 1));
  for (const node of part) node.parentNode.classList.add("is-covered");
  svg.append(fold);
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
  if (event.button !== 0 || event.target.closest(".minimap, .graph-tools")) return;
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

export function listen() {
  frame.addEventListener("pointerdown", press);
  frame.addEventListener("pointermove", drag);
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, (event) => pointers.delete(event.pointerId));
  frame.addEventListener("dragstart", (event) => event.preventDefault());
  frame.addEventListener("click", (event) => dragged >= DRAG_PX && event.preventDefault(), true);
  frame.addEventListener("wheel", (event) => {
    // In the middle of a page, the wheel scrolls the page.
    if (frame.matches(".is-alone:not(:fullscreen)") && !event.ctrlKey) return;
    event.preventDefault();
    movedAt = performance.now();
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

const stateOf = (node) => [...node.classList].filter((each) => each.startsWith("is-")).join(" ");

function drawMinimap() {
  const all = nodes();
  const old = frame.querySelector(".minimap");
  if (old !== null && old.childElementCount === all.length + 1) {
    all.forEach((node, number) => old.children[number].setAttribute("class", stateOf(node)));
    return;
  }
  old?.remove();
  if (all.length < MANY) return;
  const { x, y, width, height } = whole;
  const map = element("svg", { class: "minimap", viewBox: `${x} ${y} ${width} ${height}`, "aria-hidden": "true" });
  for (const node of all) map.append(element("rect", { class: stateOf(node), ...boxOf(node) }));
  map.append(element("rect", { class: "here" }));
  const go = (event) => {
    if (event.buttons !== 1) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    movedAt = performance.now();
    centre(at.x, at.y);
  };
  map.addEventListener("pointerdown", go);
  map.addEventListener("pointermove", go);
  frame.append(map);
}

// The drawing was replaced or recoloured: show the same part of it as before.
export function refresh() {
  const [x, y, width, height] = drawing().dataset.whole.split(" ").map(Number);
  whole = { x, y, width, height };
  frame.classList.add("is-movable");
  drawMinimap();
  show();
}

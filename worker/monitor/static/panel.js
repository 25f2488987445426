// The panel of a node: as wide as its reader likes.
import { mark } from "./live.js";

const [LEAST, MOST, STEP] = [360, 480, 20]; // px
const STORED = "sleipnir-panel";
const panel = () => document.querySelector("[data-panel]");
const grip = document.createElement("div");

function setWidth(px) {
  const width = Math.min(MOST, Math.max(LEAST, Math.round(px)));
  document.documentElement.style.setProperty("--panel-width", `${width}px`);
  grip.setAttribute("aria-valuenow", width);
  localStorage.setItem(STORED, width);
}
const width = () => Number(grip.getAttribute("aria-valuenow"));

function refresh() {
  if (panel() !== null && grip.parentNode !== panel().parentNode) panel().before(grip);
  if (panel() === null) grip.remove();
}

const attributes = { role: "separator", "aria-orientation": "vertical", "aria-label": "Width of the panel", "aria-valuemin": LEAST, "aria-valuemax": MOST };
for (const [name, value] of Object.entries(attributes)) grip.setAttribute(name, value);
grip.className = "panel-grip";
grip.tabIndex = 0;
grip.addEventListener("pointerdown", (event) => grip.setPointerCapture(event.pointerId));
grip.addEventListener("pointermove", (event) => {
  if (grip.hasPointerCapture(event.pointerId)) setWidth(panel().getBoundingClientRect().right - event.clientX);
});
grip.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  setWidth(width() + by);
});
setWidth(Number(localStorage.getItem(STORED)) || 400);
mark.addEventListener("fresh", refresh);
refresh();

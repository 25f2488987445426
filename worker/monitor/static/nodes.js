// Drawings are one stop of the Tab key: from there, arrow keys lead from node to node.
import { mark } from "./live.js";

const WAYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
const drawing = () => document.querySelector("svg.graph");
const nodes = () => [...drawing().querySelectorAll("a.node")];
let stop = null; // the node that had the focus last

function refresh() {
  if (drawing() === null) return;
  const all = nodes();
  const here = all.find((node) => node.dataset.node === stop) ?? drawing().querySelector("a.node.is-chosen") ?? all[0];
  // Rings, too: what they lead to is in the panel of their node.
  for (const link of drawing().querySelectorAll("a")) link.setAttribute("tabindex", link === here ? 0 : -1);
}

function middle(node) {
  const { x, y, width, height } = node.getBBox();
  return [x + width / 2, y + height / 2];
}

// The nearest node in a direction; one that lies aside seems twice as far.
function nextOf(node, [right, down]) {
  const [x, y] = middle(node);
  let [found, least] = [null, Infinity];
  for (const other of nodes()) {
    const [dx, dy] = middle(other).map((at, axis) => at - [x, y][axis]);
    const ahead = dx * right + dy * down;
    const distance = ahead + 2 * Math.abs(dx * down + dy * right);
    if (ahead >= 1 && distance < least) [found, least] = [other, distance];
  }
  return found;
}

document.addEventListener("focusin", (event) => {
  const node = event.target.closest("svg.graph a.node");
  if (node === null) return;
  stop = node.dataset.node;
  refresh();
});
document.addEventListener("keydown", (event) => {
  const node = event.target.closest("svg.graph a.node");
  const way = WAYS[event.key];
  if (node === null || way === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  event.preventDefault();
  nextOf(node, way)?.focus();
});
mark.addEventListener("fresh", refresh);
refresh();

// Drawings are one stop of the Tab key: from there, arrow keys lead along the edges.
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
  const { e: x, f: y } = node.parentNode.transform.baseVal[0].matrix;
  const { width, height } = node.querySelector(".shape").getBBox();
  return [x + width / 2, y + height / 2];
}

const numberOf = (node) => node.id.slice(2);
const arrowsOf = (node) => [...drawing().querySelectorAll(".arrow")].filter((arrow) => arrow.dataset.ends.split(" ").includes(numberOf(node)));
const neighbours = (node) => arrowsOf(node)
  .flatMap((arrow) => arrow.dataset.ends.split(" "))
  .map((number) => drawing().querySelector(`#n-${number}`))
  .filter((other) => other !== null && other !== node);

// The nearest node in a direction, if possible one that an arrow leads to or comes from; one that
// lies aside seems twice as far.
function nextOf(node, way) {
  return nearest(node, way, neighbours(node)) ?? nearest(node, way, nodes());
}

function nearest(node, [right, down], others) {
  const [x, y] = middle(node);
  let [found, least] = [null, Infinity];
  for (const other of others) {
    const [dx, dy] = middle(other).map((at, axis) => at - [x, y][axis]);
    const ahead = dx * right + dy * down;
    const aside = Math.abs(dx * down + dy * right);
    if (ahead >= 1 && ahead >= aside / 4 && ahead + 2 * aside < least) [found, least] = [other, ahead + 2 * aside];
  }
  return found;
}

// The arrows of a node stand out while the pointer is on it, or the focus.
function trace(node) {
  if (drawing() === null) return;
  for (const arrow of drawing().querySelectorAll(".arrow.is-traced")) arrow.classList.remove("is-traced");
  drawing().classList.toggle("is-traced", node !== null);
  if (node !== null) for (const arrow of arrowsOf(node)) arrow.classList.add("is-traced");
}

const nodeOf = (event) => event.target.closest("svg.graph a.node");
document.addEventListener("focusin", (event) => {
  const node = nodeOf(event);
  if (node === null) return;
  stop = node.dataset.node;
  refresh();
  if (node.matches(":focus-visible")) trace(node);
});
document.addEventListener("focusout", (event) => nodeOf(event) && trace(null));
document.addEventListener("pointerover", (event) => nodeOf(event) && trace(nodeOf(event)));
document.addEventListener("pointerout", (event) => nodeOf(event) && trace(null));
document.addEventListener("keydown", (event) => {
  const node = nodeOf(event);
  const way = WAYS[event.key];
  if (node === null || way === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  event.preventDefault();
  nextOf(node, way)?.focus();
});
mark.addEventListener("fresh", refresh);
refresh();

// Charts over time: a crosshair with the numbers of the table, by pointer or arrow keys, and a drag
// over some times that leads to what happened then. Listens on the document: charts are replaced.
import { localise } from "./times.js";

let from = null; // where a drag began
let chosen = null; // { chart, at }: the time under the crosshair

const rowsOf = (chart) => chart.querySelectorAll(".as-table tbody tr");
const drawnOf = (target) => target.closest?.("[data-chart] .drawn") ?? null;

function timeAt(drawn, event) {
  const { left, width } = drawn.getBoundingClientRect();
  const count = rowsOf(drawn.closest("[data-chart]")).length;
  return Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * count)));
}

function element(tag, style, ...content) {
  const made = document.createElement(tag);
  made.className = style;
  made.append(...content);
  return made;
}

function part(drawn, name) {
  const found = drawn.querySelector(`.${name}`) ?? element("div", name);
  if (name === "readout") found.setAttribute("role", "status");
  drawn.append(found);
  return found;
}

function line(label, value, style = "") {
  const name = element("span", "", label);
  if (style) name.prepend(element("i", `swatch ${style}`));
  return element("p", "", name, element("b", "", value));
}

function show(drawn, at, since = at) {
  const chart = drawn.closest("[data-chart]");
  const rows = rowsOf(chart);
  const [first, last] = [Math.min(at, since), Math.max(at, since)];
  const cross = part(drawn, "cross");
  cross.style.left = `${(100 * first) / rows.length}%`;
  cross.style.width = `${(100 * (last - first + 1)) / rows.length}%`;
  const readout = part(drawn, "readout");
  const when = element("p", "when", rows[first].querySelector("time").cloneNode(true));
  if (last > first) when.append("to", rows[last].querySelector("time").cloneNode(true));
  const heads = [...chart.querySelectorAll(".as-table th.n")];
  const swatches = [...chart.querySelectorAll(".legend .swatch")];
  const cells = [...rows[at].querySelectorAll("td.n")];
  const lines = cells.map((cell, n) =>
    line(heads[n].textContent, cell.textContent, swatches[n]?.classList[1]),
  );
  const isStacked = chart.querySelector(".line") === null;
  readout.replaceChildren(when, ...(last > first ? [] : isStacked ? lines.reverse() : lines));
  localise(readout);
  const isRight = at > rows.length / 2;
  readout.style.left = isRight ? "" : `calc(${(100 * (at + 1)) / rows.length}% + 8px)`;
  readout.style.right = isRight ? `calc(${(100 * (rows.length - at)) / rows.length}% + 8px)` : "";
  chosen = { chart, at };
}

function hide() {
  for (const each of document.querySelectorAll(".drawn > :is(.cross, .readout)")) each.remove();
  chosen = null;
}

// To what happened between two times, both included.
function open(chart, first, last) {
  const rows = rowsOf(chart);
  if (!chart.dataset.address) return;
  const since = rows[Math.min(first, last)].querySelector("time").dateTime;
  const after = rows[Math.max(first, last) + 1];
  const until = after ? after.querySelector("time").dateTime : chart.dataset.until;
  const address = chart.dataset.address.replace("{since}", since).replace("{until}", until);
  location.assign(address);
}

document.addEventListener("pointermove", (event) => {
  const drawn = from?.drawn ?? drawnOf(event.target);
  if (drawn === null) {
    if (chosen !== null && document.activeElement !== chosen.chart.querySelector(".drawn")) hide();
    return;
  }
  if (chosen !== null && chosen.chart !== drawn.closest("[data-chart]")) hide();
  show(drawn, timeAt(drawn, event), from?.at);
});
document.addEventListener("pointerdown", (event) => {
  const drawn = drawnOf(event.target);
  if (drawn === null || event.button !== 0 || event.pointerType === "touch") return;
  from = { drawn, at: timeAt(drawn, event) };
});
document.addEventListener("pointerup", (event) => {
  const began = from;
  from = null;
  if (began !== null) open(began.drawn.closest("[data-chart]"), began.at, timeAt(began.drawn, event));
});
document.addEventListener("keydown", (event) => {
  const drawn = drawnOf(event.target);
  if (drawn === null) return;
  const chart = drawn.closest("[data-chart]");
  const last = rowsOf(chart).length - 1;
  const at = chosen?.chart === chart ? chosen.at : last;
  const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
  if (event.key in moves) {
    show(drawn, Math.min(last, Math.max(0, moves[event.key])));
    event.preventDefault();
  } else if (event.key === "Enter" && chosen !== null) open(chart, at, at);
  else if (event.key === "Escape") {
    from = null;
    hide();
  }
});
document.addEventListener("focusout", (event) => drawnOf(event.target) === null || hide());

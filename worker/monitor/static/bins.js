// Histograms: what a column stands for, under the pointer or by arrow keys, is read out beside it.
// Listens on the document: charts are replaced.

const plotOf = (target) => target.closest?.("[data-bins]") ?? null;
const columnsOf = (plot) => [...plot.querySelectorAll("g")];

// The browser's own tooltip would come a second later, and say the same.
function told(column) {
  const title = column.querySelector("title");
  if (title !== null) {
    column.dataset.told = title.textContent;
    title.remove();
  }
  return column.dataset.told;
}

function hide() {
  for (const each of document.querySelectorAll("[data-bins] > .readout")) each.remove();
  for (const each of document.querySelectorAll("[data-bins] .is-read")) each.classList.remove("is-read");
}

function show(plot, column) {
  hide();
  column.classList.add("is-read");
  const readout = document.createElement("div");
  readout.className = "readout";
  readout.setAttribute("role", "status");
  readout.textContent = told(column);
  plot.append(readout);
  const [of, around] = [column.getBoundingClientRect(), plot.getBoundingClientRect()];
  const isRight = of.left - around.left > around.width / 2;
  if (isRight) readout.style.right = `${around.right - of.left + 8}px`;
  else readout.style.left = `${of.right - around.left + 8}px`;
}

document.addEventListener("pointermove", (event) => {
  const plot = plotOf(event.target);
  const column = event.target.closest?.("[data-bins] g") ?? null;
  if (column !== null && !column.classList.contains("is-read")) show(plot, column);
  else if (plot === null && plotOf(document.activeElement) === null) hide();
});
document.addEventListener("keydown", (event) => {
  const plot = plotOf(event.target);
  if (plot === null) return;
  const columns = columnsOf(plot);
  const last = columns.length - 1;
  const found = columns.findIndex((each) => each.classList.contains("is-read"));
  const at = found < 0 ? last : found;
  const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
  if (event.key in moves) {
    show(plot, columns[Math.min(last, Math.max(0, found < 0 ? at : moves[event.key]))]);
    event.preventDefault();
  } else if (event.key === "Escape") hide();
});
document.addEventListener("focusin", (event) => {
  const plot = plotOf(event.target);
  if (plot !== null && plot.querySelector(".is-read") === null) show(plot, columnsOf(plot).at(-1));
});
document.addEventListener("focusout", (event) => plotOf(event.target) === null || hide());

// What makes pages nicer to use; everything can be read and done without it.

// Instants in the reader's zone; the exact one stays in the title.
export function localise(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.textContent = at.toLocaleString();
  }
}
localise(document);

const switcher = document.querySelector("[data-theme-switch]");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
switcher.hidden = false;
switcher.addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("flower-theme", root.dataset.theme);
});

const markAll = document.querySelector("[data-mark-all]");
if (markAll !== null) {
  markAll.hidden = false;
  markAll.addEventListener("change", () => {
    for (const box of markAll.form.querySelectorAll("[data-row] input[type=checkbox]")) box.checked = markAll.checked;
  });
}

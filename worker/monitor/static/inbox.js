// Questions are answered by keys, and how many are selected is told.
const OFF = "sleipnir-keys"; // as for all keys

for (const option of document.querySelectorAll("button[data-key]")) {
  const key = document.createElement("kbd");
  key.textContent = option.dataset.key;
  option.prepend(key);
  option.setAttribute("aria-keyshortcuts", option.dataset.key);
}

document.addEventListener("keydown", (event) => {
  // A key that was meant for the page before must not answer what this one asks.
  if (!event.isTrusted || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!/^[1-9]$/.test(event.key) || event.target.closest("input, textarea, select, dialog")) return;
  if (localStorage.getItem(OFF) === "off") return;
  document.querySelector(`button[data-key="${event.key}"]:enabled`)?.click();
});

const form = document.querySelector("form.alike");
const told = form?.querySelector("[data-marked]");
form?.addEventListener("change", () => {
  const marked = form.querySelectorAll("[name=question]:checked").length;
  const all = form.querySelectorAll("[name=question]").length;
  if (told) told.textContent = marked ? `${marked} of ${all} selected` : "Select to answer together";
});

// How the log looks is remembered, and its end stays in view while it grows.
import { mark } from "./live.js";

for (const box of document.querySelectorAll("[data-remembered]")) {
  const name = `sleipnir-${box.dataset.remembered}`;
  const known = localStorage.getItem(name);
  if (known !== null) box.checked = known === "on";
  box.addEventListener("change", () => localStorage.setItem(name, box.checked ? "on" : "off"));
}

const follow = document.querySelector("[data-follow]");
if (follow !== null) follow.hidden = false;

function toEnd() {
  const log = document.querySelector(".log");
  if (log !== null && document.querySelector("[data-follow] input")?.checked) log.scrollTop = log.scrollHeight;
}
mark.addEventListener("fresh", toEnd);
if (!location.hash) toEnd();

// Who reads a text as it was written does so with all texts, until they switch back.
import { mark } from "./live.js";

const RAW = "sleipnir-raw";

function showAll() {
  const isRaw = localStorage.getItem(RAW) === "on";
  for (const each of document.querySelectorAll("details.raw")) each.open = isRaw;
}

document.addEventListener("click", (event) => {
  const summary = event.target.closest("details.raw > summary");
  if (summary === null) return;
  event.preventDefault();
  localStorage.setItem(RAW, summary.parentElement.open ? "off" : "on");
  showAll();
});
mark.addEventListener("fresh", showAll);
showAll();

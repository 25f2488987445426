// Long texts are shown whole where they stand, and whoever reads them raw does so everywhere.
import { dress } from "./monitor.js";

// The whole text is on the page that its link leads to.
async function showWhole(link) {
  const said = link.closest(".said");
  const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
  const found = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(said.id);
  if (!found) return location.assign(link.href);
  dress(found);
  said.replaceChildren(...found.childNodes);
  said.tabIndex = -1;
  said.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-whole]");
  const isLive = document.body.dataset.topics.includes("run:"); // the next look would cut it again
  if (link === null || isLive || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  showWhole(link).catch(() => location.assign(link.href));
});

// While a run goes on, its page stays on the tab that it has opened on.
const part = document.querySelector("[data-opened]");
if (part !== null && location.pathname !== part.dataset.opened) {
  history.replaceState(null, "", part.dataset.opened + location.search + location.hash);
}

// What an act would do is asked on the page that it is about; without scripts, on a page of its own.

async function ask(link) {
  const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const asked = fresh.querySelector("[data-asked]");
  if (!answer.ok || asked === null) return location.assign(link.href);
  const dialog = document.createElement("dialog");
  dialog.className = "act-dialog";
  dialog.setAttribute("aria-label", asked.getAttribute("aria-label"));
  dialog.append(asked);
  dialog.addEventListener("click", (event) => {
    const back = event.target.closest("[data-back]");
    if (back !== null) event.preventDefault();
    if (back !== null || event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    link.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const menu = document.querySelector("details.run-more[open]");
  if (menu !== null && !menu.contains(event.target)) menu.open = false;
  const link = event.target.closest?.("a[data-act]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  link.closest("details.run-more")?.removeAttribute("open");
  ask(link).catch(() => location.assign(link.href));
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" ? document.querySelector("details.run-more[open]") : null;
  if (menu === null) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

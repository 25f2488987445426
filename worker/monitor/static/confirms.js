// What a form would do to many is asked in a dialog; without scripts, on a page of its own.
const ASKING = ':is(form[action*="/bulk"], form[action$="/limits"], form[action$="/fleet"], form.alike):not(:has([name="confirmed"]))';

// The question of a page that a form has led to, with addresses that are right on this page.
async function questionOf(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.getAttribute("action") ?? "", {
    method: "POST",
    body,
    headers: { Accept: "text/html" },
  });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const asked = fresh.querySelector("main .confirm");
  for (const each of asked?.querySelectorAll("form") ?? []) {
    each.action = new URL(each.getAttribute("action") ?? "", answer.url);
  }
  if (!answer.ok || asked === null) location.assign(answer.url);
  return asked;
}

async function ask(form, button) {
  const asked = await questionOf(form, button);
  if (asked === null) return;
  const dialog = document.createElement("dialog");
  dialog.className = "confirm-dialog";
  dialog.setAttribute("aria-label", asked.querySelector("h2").textContent.trim());
  for (const problem of asked.parentElement.querySelectorAll(":scope > .problem")) asked.prepend(problem);
  dialog.append(asked);
  dialog.addEventListener("click", (event) => {
    const back = event.target.closest("a");
    if (back?.textContent === "Back") event.preventDefault();
    if (back?.textContent === "Back" || event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    button?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || form.closest("dialog") || !form.matches(ASKING)) return;
  event.preventDefault();
  ask(form, submitter).catch(() => form.submit());
});

// Notifies of questions and failures while these pages are not visible, if the user asked for it.
const ON = "sleipnir-notices"; // "on" in the browser's storage
const SEEN = "sleipnir-seen"; // when a tab that was looked at heard of something
const SEEN_MS = 2_000;
const WAIT_MS = 300; // for a tab that is looked at to say so
const button = document.querySelector("[data-notices]");
const isPossible = window.isSecureContext && "Notification" in window;
const isOn = () => localStorage.getItem(ON) === "on" && Notification.permission === "granted";

// One for each tag: tabs that hear of the same replace each other's.
export function notify(text, tag, address) {
  if (!isPossible || !isOn()) return;
  if (!document.hidden) {
    localStorage.setItem(SEEN, String(Date.now()));
    return;
  }
  setTimeout(() => {
    if (Date.now() - Number(localStorage.getItem(SEEN)) < SEEN_MS) return;
    const notice = new Notification(text, { tag });
    notice.onclick = () => {
      window.focus();
      location.href = address;
    };
  }, WAIT_MS);
}

if (isPossible) {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(isOn()));
  button.addEventListener("click", async () => {
    const wanted = !isOn() && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(ON, wanted ? "on" : "off");
    button.setAttribute("aria-pressed", String(wanted));
  });
}

// Keys are not lost: those pressed before the scripts of a page are ready, and those pressed while
// the next page is on its way, count on the page that comes.
(() => {
  const KEPT = "sleipnir-early-keys"; // in the tab's storage: keys for the next page
  const GOOD_MS = 5_000; // later nobody expects them to count any more
  const BUSY = "input:not([type=checkbox]), textarea";
  let keys = kept();
  let isReady = false;
  let leaving = null; // a timer, while another page is on its way

  function kept() {
    const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    sessionStorage.removeItem(KEPT);
    return found.filter(({ at }) => Date.now() - at < GOOD_MS).map(({ key }) => key);
  }

  function keepForNext(key) {
    const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    sessionStorage.setItem(KEPT, JSON.stringify([...found, { key, at: Date.now() }]));
  }

  // What the browser does with a key by itself.
  function typed(key, where) {
    if (where.matches(BUSY)) {
      if (key === "Enter") where.form?.requestSubmit();
      else if (key.length === 1) where.setRangeText(key, where.selectionStart, where.selectionEnd, "end");
    } else if (key === "Enter") {
      where.click();
    }
  }

  function replay() {
    while (keys.length > 0 && leaving === null) {
      const key = keys.shift();
      const where = document.activeElement ?? document.body;
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
      if (where.dispatchEvent(event)) typed(key, where);
    }
    for (const key of keys.splice(0)) keepForNext(key);
  }

  function leave() {
    clearTimeout(leaving);
    leaving = setTimeout(stay, GOOD_MS);
  }

  function stay() {
    clearTimeout(leaving);
    leaving = null;
    keys.push(...kept());
    if (isReady) replay();
  }

  document.addEventListener(
    "keydown",
    (event) => {
      if (!event.isTrusted || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
      if (isReady && leaving === null) return;
      // Before anything is ready, the browser itself types into fields.
      if (leaving === null && event.target.matches(BUSY)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (leaving === null) keys.push(event.key);
      else keepForNext(event.key);
    },
    true,
  );
  window.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const to = new URL(link.getAttribute("href"), location.href); // of a drawing's links too
    const isHere = to.pathname + to.search === location.pathname + location.search && to.hash;
    if (!isHere && !link.hasAttribute("download") && !link.target) leave();
  });
  window.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && event.target.method !== "dialog") leave();
  });
  window.addEventListener("beforeunload", leave);
  window.addEventListener("pageshow", (event) => event.persisted && stay());
  document.addEventListener("DOMContentLoaded", () => {
    isReady = true;
    replay();
  });
})();

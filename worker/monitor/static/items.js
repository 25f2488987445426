// Items are chosen in place: in the table, and by the square under the pointer.
import { look } from "./live.js";

const PITCH = 10; // of a square
const ROW = 100; // squares

async function go(address) {
  history.pushState(null, "", address);
  await look().catch(() => location.reload());
}

// The address of the items that a square stands for: of a single one also its details.
function addressAt(wall, event) {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(wall.getScreenCTM().inverse());
  const square = Math.floor(y / PITCH) * ROW + Math.min(ROW - 1, Math.floor(x / PITCH));
  const each = Number(wall.dataset.each);
  const first = Math.min(square * each, Number(wall.dataset.total) - 1);
  const address = new URL(location.href);
  for (const name of ["state", "cause", "after", "item"]) address.searchParams.delete(name);
  if (first > 0) address.searchParams.set("after", first - 1);
  if (each === 1) address.searchParams.set("item", first);
  address.hash = "";
  return address;
}

document.addEventListener("click", async (event) => {
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const wall = event.target.closest(".wall");
  const link = event.target.closest(".items a.btn-small, .items a.whole-row, .causes a.btn-small, .all-items .chip, .items .pages a");
  if (wall === null && link === null) return;
  event.preventDefault();
  const address = wall ? addressAt(wall, event) : new URL(link.href);
  address.hash = "";
  await go(address);
  // What has the focus keeps its content, so it must be a part that is the same for all items.
  if (link?.matches(".whole-row")) document.querySelector(".item [data-close]")?.focus({ preventScroll: true });
});
window.addEventListener("popstate", () => look().catch(() => {}));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.querySelector(".item [data-close]")?.click();
});

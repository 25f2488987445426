// Shows the instant under the pointer; dragging over the rows, or over all of the time, shows that part. What child
// runs did is read when they are opened.
import { look } from "./live.js";

const STEP_PX = 4; // a shorter drag is a click

function part() {
  return document.querySelector("[data-timeline]");
}

// Where a part of the page with times is, and what instant a place in it stands for, ms from the beginning.
function areaOf(target) {
  const timeline = part();
  if (timeline === null || !timeline.contains(target)) return null;
  const overview = target.closest(".timeline-overview");
  const box = overview ?? timeline.querySelector(".timeline-grid");
  if (overview === null && target.closest(".timeline-rows, .timeline-axis") === null) return null;
  const stretches = JSON.parse(overview ? overview.dataset.overview : timeline.dataset.timeline);
  return { host: overview ?? timeline.querySelector(".timeline-rows"), box: box.getBoundingClientRect(), stretches };
}

function instant({ box, stretches }, x) {
  const percent = Math.min(100, Math.max(0, ((x - box.left) / box.width) * 100));
  for (const [begin, end, left, width] of stretches) {
    if (percent <= left + width) return begin + (width ? ((percent - left) / width) * (end - begin) : 0);
  }
  return stretches.at(-1)[1];
}

function text(ms) {
  const s = ms / 1000;
  if (s < 10) return `+${s.toFixed(s < 1 ? 3 : 2)} s`;
  if (s < 60) return `+${s.toFixed(1)} s`;
  const [h, min] = [Math.floor(s / 3600), Math.floor(s / 60) % 60];
  return h ? `+${h} h ${min} min` : `+${min} min ${Math.round(s % 60)} s`;
}

function mark(area, name, left, width) {
  let element = area.host.querySelector(`.${name}`);
  if (element === null) {
    element = document.createElement("div");
    element.className = name;
    element.append(document.createElement("span"));
    area.host.append(element);
  }
  const own = area.host.getBoundingClientRect();
  element.style.left = `${left - own.left}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  return element;
}

const clear = (name) => document.querySelectorAll(`.${name}`).forEach((element) => element.remove());

let begun = null; // a drag

document.addEventListener("pointermove", (event) => {
  const area = begun?.area ?? areaOf(event.target);
  if (area === null || event.clientX < area.box.left || event.clientX > area.box.right) return clear("timeline-cursor");
  mark(area, "timeline-cursor", event.clientX).firstChild.textContent = text(instant(area, event.clientX));
  if (begun === null || Math.abs(event.clientX - begun.x) < STEP_PX) return;
  mark(area, "timeline-drag", Math.min(begun.x, event.clientX), Math.abs(event.clientX - begun.x));
});

document.addEventListener("pointerdown", (event) => {
  const area = event.button === 0 && event.pointerType === "mouse" ? areaOf(event.target) : null;
  if (area === null || event.clientX < area.box.left || event.target.closest("a, summary")) return;
  event.preventDefault();
  begun = { area, x: event.clientX };
});

document.addEventListener("pointerup", (event) => {
  const drag = begun;
  begun = null;
  clear("timeline-drag");
  if (drag === null || Math.abs(event.clientX - drag.x) < STEP_PX) return;
  const ends = [drag.x, event.clientX].map((x) => Math.round(instant(drag.area, x))).sort((a, b) => a - b);
  const address = new URL(location.href);
  address.searchParams.set("from", ends[0]);
  address.searchParams.set("to", Math.max(ends[1], ends[0] + 1));
  location.assign(address);
});

document.addEventListener("click", (event) => {
  const toggle = event.target.closest(".timeline-open");
  if (toggle === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.replaceState(null, "", toggle.href);
  look().catch(() => location.reload());
});

document.addEventListener("dblclick", (event) => {
  const whole = document.querySelector("[data-whole]");
  if (whole !== null && areaOf(event.target) !== null) location.assign(whole.href);
});

// Instants in the reader's zone, by a 24-hour clock; the exact one, with its zone, is in the title.
const DAY_MS = 86_400_000;
const AGES = [
  [60_000, 1_000, "s"],
  [3_600_000, 60_000, "min"],
  [DAY_MS, 3_600_000, "h"],
];
const UTC = "sleipnir-zone"; // "utc" in the browser's storage
export const isUtc = () => localStorage.getItem(UTC) === "utc";
let formats = formatsNow();

function format(options) {
  const zone = isUtc() ? { timeZone: "UTC" } : {};
  return new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...zone, ...options });
}

function formatsNow() {
  const minute = { hour: "2-digit", minute: "2-digit" };
  return {
    clock: format({ ...minute, second: "2-digit" }),
    thisYear: format({ day: "numeric", month: "short", ...minute }),
    anyYear: format({ day: "numeric", month: "short", year: "numeric", ...minute }),
    exact: format({ dateStyle: "medium", timeStyle: "long" }),
    // Of logs.
    "clock-exact": format({ ...minute, second: "2-digit", fractionalSecondDigits: 3 }),
    // Of charts; their days are those of UTC.
    hour: format(minute),
    "hour-exact": format({ day: "numeric", month: "short", ...minute }),
    day: format({ day: "numeric", month: "short", timeZone: "UTC" }),
    "day-exact": format({ weekday: "short", day: "numeric", month: "short", timeZone: "UTC" }),
  };
}

export function useUtc(wanted) {
  localStorage.setItem(UTC, wanted ? "utc" : "local");
  formats = formatsNow();
}

// Of what is less than a day away, how far.
function away(at, now) {
  const distance = Math.abs(now - at);
  const [, unit, word] = AGES.find(([below]) => distance < below);
  const text = `${Math.max(1, Math.floor(distance / unit))} ${word}`;
  return at > now ? `in ${text}` : `${text} ago`;
}

// In lists how long ago; elsewhere also when.
export function timeText(at, now = new Date(), inList = true) {
  if (Math.abs(now - at) < DAY_MS) return inList ? away(at, now) : `${formats.clock.format(at)}, ${away(at, now)}`;
  const { thisYear, anyYear } = formats;
  return (at.getFullYear() === now.getFullYear() ? thisYear : anyYear).format(at).replace(",", "");
}

export function localise(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const form = formats[time.dataset.form];
    const text = form ? form.format(at) : timeText(at, new Date(), time.closest("table, .plain, .rows") !== null);
    if (time.textContent !== text) time.textContent = text;
    time.title = `${formats.exact.format(at)} (${time.dateTime})`;
  }
  const zone = root.querySelector("[data-zone]");
  if (zone !== null) zone.textContent = zone.title = `Times: ${zoneName()}`;
}

function zoneName() {
  const { timeZone } = formats.clock.resolvedOptions();
  const parts = format({ timeZoneName: "shortOffset" }).formatToParts();
  const offset = parts.find(({ type }) => type === "timeZoneName").value;
  return timeZone === "UTC" || timeZone === offset ? timeZone : `${timeZone} (${offset})`;
}

setInterval(() => document.hidden || localise(document), 30_000);

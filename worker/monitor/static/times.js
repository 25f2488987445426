// Instants in the reader's zone, by a 24-hour clock; the exact one, with its zone, is in the title.
const DAY_MS = 86_400_000;
const AGES = [
  [60_000, 1_000, "s"],
  [3_600_000, 60_000, "min"],
  [DAY_MS, 3_600_000, "h"],
];
const format = (options) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options });
const clock = format({ hour: "2-digit", minute: "2-digit" });
const thisYear = format({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const anyYear = format({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const exact = format({ dateStyle: "medium", timeStyle: "long" });

// Of what is less than a day away, how far.
function away(at, now) {
  const distance = Math.abs(now - at);
  const [, unit, word] = AGES.find(([below]) => distance < below);
  const text = `${Math.max(1, Math.floor(distance / unit))} ${word}`;
  return at > now ? `in ${text}` : `${text} ago`;
}

export function timeText(at, now = new Date()) {
  if (Math.abs(now - at) < DAY_MS) return `${clock.format(at)}, ${away(at, now)}`;
  return (at.getFullYear() === now.getFullYear() ? thisYear : anyYear).format(at).replace(",", "");
}

export function localise(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = timeText(at);
    if (time.textContent !== text) time.textContent = text;
    time.title = `${exact.format(at)} (${time.dateTime})`;
  }
  const zone = root.querySelector("[data-zone]");
  if (zone !== null) zone.textContent = `Times are in the zone of this browser, ${zoneName()}.`;
}

function zoneName() {
  const { timeZone } = clock.resolvedOptions();
  const parts = format({ timeZoneName: "shortOffset" }).formatToParts();
  const offset = parts.find(({ type }) => type === "timeZoneName").value;
  return timeZone === offset ? timeZone : `${timeZone} (${offset})`;
}

setInterval(() => document.hidden || localise(document), 30_000);

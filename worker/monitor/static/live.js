// Keeps a page as it would be if it were loaded again; the reader's place in it stays.
/* global Idiomorph */
import { dress } from "./monitor.js";
import { notify } from "./notices.js";

const LEAST_MS = 2_000; // between two looks at the page
const SLOW_MS = 10_000; // between two of a chart, which tell of hours and days
const SHARE = 80; // looks take at most this part of the time, however large the page is
const TELL_MS = 2_000; // in which numbers of the rail and the title may change once
const SAY_MS = 10_000; // between two that are read out
// Tells `fresh` whenever the page shows something new, and `nodes` how those of its run stand.
export const mark = new EventTarget();
const topics = document.body.dataset.topics.split(",").filter(Boolean);
let title = document.title.replace(/^\(\d[\d,]*\) /, ""); // without the count of the inbox
let questions = 0;
const dot = document.querySelector("[data-live]");
let looking = null;
// The site begins above the directory of this file.
const address = (path) => new URL(`../../${path}`, import.meta.url);

function isTyping(part) {
  const fields = "input:not([data-tool]), textarea, select:not([data-tool])";
  return part.contains(document.activeElement) && document.activeElement.matches(fields);
}

// By its id, or by what it says and how many before it say the same.
function namedDetails(part) {
  const counts = new Map();
  const named = [...part.querySelectorAll("details")].map((each) => {
    const text = each.id || (each.querySelector("b") ?? each.querySelector("summary"))?.textContent.trim();
    counts.set(text, (counts.get(text) ?? 0) + 1);
    return [`${text} ${counts.get(text)}`, each];
  });
  return new Map(named);
}

// What the reader has opened or closed stays so.
function keepOpen(part, found) {
  const known = namedDetails(part);
  for (const [name, each] of namedDetails(found)) {
    if (known.has(name)) each.open = known.get(name).open;
  }
}

// What the reader has entered stays, so do the elements: with them focus and scrolling.
const isEntered = (name, node) => !(["value", "checked", "selected"].includes(name) && node.matches("input, textarea, select, option"));
const MERGING = { ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: isEntered } };
function merge(part, found) {
  Idiomorph.morph(part, [...found.childNodes], { morphStyle: "innerHTML", ...MERGING });
}

let drawn = performance.now();
function replaceParts(fresh) {
  const isDue = performance.now() - drawn >= SLOW_MS;
  if (isDue) drawn = performance.now();
  for (const part of document.querySelectorAll(isDue ? "[data-part]" : "[data-part]:not([data-slow])")) {
    const found = fresh.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
    if (found === null || isTyping(part) || found.innerHTML === part.innerHTML) continue;
    keepOpen(part, found);
    merge(part, found);
  }
}

// Of each row as it was served last, so that of a long list only what differs is touched.
const served = new Map();
function takeRows(fresh) {
  const rows = new Map();
  for (const row of fresh.querySelectorAll("[data-row]")) {
    const { row: name } = row.dataset;
    const text = row.outerHTML;
    const isSame = served.get(name) === text;
    served.set(name, text);
    rows.set(name, isSame ? null : row);
    if (isSame && !row.closest("[data-part]")) row.remove();
  }
  return rows;
}

// Of a row of a table only the cells that differ.
function mergeRow(row, found) {
  if (!row.cells || row.cells.length !== found.cells.length) return merge(row, found);
  const fresh = [...found.cells];
  [...row.cells].forEach((cell, at) => {
    if (!cell.isEqualNode(fresh[at])) Idiomorph.morph(cell, fresh[at], MERGING);
  });
}

// Rows of others do not move under the pointer: those that are shown change in place.
function replaceRows(rows) {
  for (const row of document.querySelectorAll("[data-row]")) {
    const found = rows.get(row.dataset.row);
    if (found && !row.isEqualNode(found)) mergeRow(row, found);
    rows.delete(row.dataset.row);
  }
  const news = document.querySelector("[data-news]");
  if (news === null) return;
  news.hidden = rows.size === 0;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = `${rows.size} new: show`;
  news.replaceChildren(link);
}

// The page as it is now, or as its address says by now.
export async function look() {
  looking = null;
  const asked = location.href;
  const answer = await fetch(asked, { headers: { Accept: "text/html" } });
  if (answer.status === 401 || answer.redirected) return tellSignedOut();
  if (!answer.ok) return;
  const text = await answer.text();
  const began = performance.now();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (location.href !== asked) return; // a later look shows the address as it is by now
  const rows = takeRows(fresh);
  dress(fresh);
  replaceParts(fresh);
  if (!isFirst) showQuestions(); // the stream knows sooner than pages do
  replaceRows(rows);
  mark.dispatchEvent(new Event("fresh"));
  rested = performance.now() + Math.max(LEAST_MS, SHARE * (performance.now() - began));
}

let rested = 0;
function lookSoon() {
  if (looking !== null || document.hidden) return;
  const wait = Math.max(LEAST_MS * (0.25 + Math.random() / 2), rested - performance.now());
  looking = setTimeout(() => look().catch(() => {}), wait);
}

// To who cannot see it: what has changed, now and then.
let said = 0;
function say(text) {
  if (performance.now() - said < SAY_MS) return;
  said = performance.now();
  document.querySelector("[data-said]").textContent = text;
}

function entitle() {
  document.title = questions ? `(${questions}) ${title}` : title;
}

function countQuestions(number) {
  const inbox = document.querySelector("[data-inbox]");
  const text = number === 1 ? "1 open question" : `${number} open questions`;
  if (!isFirst) say(text);
  if (!isFirst && number > questions) notify(text, "inbox", inbox.href);
  questions = number;
  telling ??= setTimeout(tellQuestions, Math.max(0, told + TELL_MS - performance.now()));
}

let telling = null;
let told = -TELL_MS;
function tellQuestions() {
  telling = null;
  told = performance.now();
  showQuestions();
  entitle();
}

function showQuestions() {
  const inbox = document.querySelector("[data-inbox]");
  inbox.querySelector("b").textContent = questions.toLocaleString("en-US");
  inbox.querySelector(".count").hidden = questions === 0;
}

// The title of a run's page begins with the sign of its state.
function tellState({ topic, status, glyph, word }) {
  title = title.replace(/^\S+/, glyph);
  entitle();
  if (status === "failed" || status === "timed_out") notify(`${title}: ${word}`, topic, location.href);
}

let isFirst = true;
// What is shown is outdated; updates resume by themselves.
const bar = document.querySelector("[data-away]");
function tellAway(reason) {
  if (reason === null && bar.hidden) return;
  document.body.classList.toggle("is-away", reason !== null);
  if (reason !== null && bar.hidden) {
    bar.textContent = `No updates since ${new Date().toLocaleTimeString("en-GB")}. This page will resume by itself. ${reason}`;
  }
  bar.hidden = reason === null;
}

// Nothing resumes by itself then.
function tellSignedOut() {
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Sign in again";
  bar.replaceChildren("You are no longer signed in: this page is out of date. ", link);
  document.body.classList.add("is-away");
  bar.hidden = false;
  tellLive(false);
}

function tellLive(isLive) {
  const state = isLive ? "on" : "off";
  if (dot.dataset.live === state) return;
  dot.hidden = false;
  dot.dataset.live = state;
  dot.textContent = isLive ? "● live" : "○ not live";
}

function receive({ event, data }) {
  if (event === "signed-out") return tellSignedOut();
  tellLive(event !== "away");
  tellAway(event === "away" ? data.reason : null);
  if (event === "away" || event === "live") return;
  if (event === "resync") return lookSoon();
  if (!topics.includes(data.topic)) return;
  if (data.topic === "inbox") {
    countQuestions(data.questions);
    if (!isFirst && location.pathname === address("inbox").pathname) lookSoon();
    isFirst = false;
    return;
  }
  if (data.word) say(`${document.querySelector("h1")?.textContent.trim().slice(0, 80)}: ${data.word}`);
  if (data.glyph) tellState(data);
  if (data.nodes) mark.dispatchEvent(new CustomEvent("nodes", { detail: data.nodes }));
  lookSoon();
}

if (topics.length > 0) {
  document.addEventListener("visibilitychange", lookSoon); // what was told meanwhile was not looked at
  if (document.querySelector("[data-slow]")) setInterval(lookSoon, SLOW_MS);
  if (window.SharedWorker) {
    const worker = new SharedWorker(document.body.dataset.hub);
    worker.port.onmessage = (message) => receive(message.data);
    worker.port.postMessage(topics);
    window.addEventListener("pagehide", () => worker.port.postMessage("bye"));
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) worker.port.postMessage(topics);
    });
  } else if (!document.hidden) {
    const source = new EventSource(address(`api/v1/stream?topics=${topics.join(",")}`));
    source.onerror = () => receive({ event: "away", data: { reason: "The monitor does not answer" } });
    source.onopen = () => receive({ event: "live" });
    for (const event of ["change", "final", "resync", "away"]) {
      source.addEventListener(event, (frame) => {
        receive({ event, data: JSON.parse(frame.data) });
        if (event === "final") source.close();
      });
    }
  }
}

// One connection for all tabs of a browser: it allows only six to a server.
const ports = new Map(); // port -> the topics of its page
const over = new Set(); // topics that will not change any more
const LONGEST_MS = 30_000;
const LISTS = new Set(["runs", "inbox"]);
const LISTS_MS = 300;
let source = null;
let open = "";
let failures = 0;

function tell(message) {
  for (const port of ports.keys()) port.postMessage(message);
}

// Lists change often, and say only that they have: pages are told now and then, of the last.
const lists = new Map(); // topic -> its last message
function tellSoon(message) {
  if (lists.size === 0) setTimeout(tellLists, LISTS_MS);
  lists.set(message.data.topic, message);
}

function tellLists() {
  for (const message of lists.values()) tell(message);
  lists.clear();
}

// A stream does not say why it was refused.
async function tellWhy() {
  const me = await fetch(new URL("../../api/v1/me", location)).catch(() => null);
  if (me?.status === 401) tell({ event: "signed-out" });
  else tell({ event: "away", data: { reason: "The monitor does not answer" } });
}

function connect() {
  const topics = [...new Set([...ports.values()].flat())].filter((topic) => !over.has(topic));
  const wanted = topics.sort().slice(0, 20).join(",");
  if (wanted === open && source !== null) return;
  source?.close();
  source = null;
  open = wanted;
  if (wanted === "") return;
  const mine = new EventSource(new URL(`../../api/v1/stream?topics=${encodeURIComponent(wanted)}`, location));
  source = mine;
  mine.onopen = () => {
    failures = 0;
    tell({ event: "live" });
  };
  mine.onerror = () => {
    if (source !== mine) return;
    mine.close();
    source = null;
    tellWhy();
    failures += 1;
    const wait = Math.min(LONGEST_MS, 1000 * 2 ** failures);
    setTimeout(connect, wait * (0.5 + Math.random() / 2));
  };
  for (const name of ["change", "final", "resync", "away"]) {
    mine.addEventListener(name, (event) => {
      const data = JSON.parse(event.data);
      if (name === "change" && LISTS.has(data.topic)) tellSoon({ event: name, data });
      else tell({ event: name, data });
      if (name === "final") {
        over.add(data.topic);
        connect();
      }
    });
  }
}

onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (message) => {
    if (message.data === "bye") {
      ports.delete(port);
    } else {
      ports.set(port, message.data);
      // A run that is watched again may have been retried.
      for (const topic of message.data) over.delete(topic);
      if (source !== null && source.readyState === EventSource.OPEN) {
        port.postMessage({ event: "live" });
      }
    }
    connect();
  };
  port.start();
};

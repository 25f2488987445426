// Fields of a form: keys can be filtered, JSON is checked while it is typed, lists have a row for
// each text, and files are dropped on the fields that take their text.

for (const filter of document.querySelectorAll("[data-filter]")) {
  filter.hidden = false;
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const each of filter.parentElement.querySelectorAll("[data-name]")) {
      each.hidden = !each.dataset.name.toLowerCase().includes(wanted);
    }
  });
}

function say(area, problem) {
  area.setCustomValidity(problem);
  area.setAttribute("aria-invalid", String(Boolean(problem)));
  let told = area.parentElement.querySelector("[data-problem]");
  if (!told) {
    told = document.createElement("small");
    told.className = "failure";
    told.dataset.problem = "";
    told.setAttribute("role", "status");
    area.after(told);
  }
  told.textContent = problem;
}

function checkJson(area) {
  let problem = "";
  try {
    JSON.parse(area.value);
  } catch (error) {
    problem = `This is not JSON: ${error.message}`;
  }
  say(area, problem);
}
for (const area of document.querySelectorAll("textarea[data-json]")) {
  area.addEventListener("input", () => checkJson(area));
}

// A list of texts: the field with a text a line stays what is sent.
function rowsOf(area) {
  const rows = document.createElement("div");
  rows.className = "text-rows";
  const add = document.createElement("button");
  add.type = "button";
  add.textContent = "Add";
  const store = () => {
    const texts = [...rows.querySelectorAll("input")].map((each) => each.value);
    area.value = texts.filter((each) => each.trim()).join("\n");
  };
  const append = (text) => {
    const row = document.createElement("div");
    const input = document.createElement("input");
    const remove = document.createElement("button");
    input.value = text;
    remove.type = "button";
    remove.className = "btn-quiet";
    remove.textContent = "Remove";
    const name = () => {
      const place = [...rows.querySelectorAll("input")].indexOf(input) + 1;
      return `${area.labels[0]?.textContent.trim() ?? ""} ${place}`;
    };
    remove.addEventListener("click", () => {
      const next = row.nextElementSibling?.querySelector("input");
      row.remove();
      store();
      (next ?? add).focus();
    });
    row.append(input, remove);
    rows.insertBefore(row, add);
    input.setAttribute("aria-label", name());
    remove.setAttribute("aria-label", `Remove ${name()}`);
    return input;
  };
  rows.append(add);
  for (const text of area.value.split("\n").filter((each) => each.trim())) append(text);
  add.addEventListener("click", () => append("").focus());
  rows.addEventListener("input", store);
  rows.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target === add || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    append("").focus();
  });
  area.hidden = true;
  area.parentElement.querySelector("[data-hint]")?.remove();
  area.before(rows);
}
const MOST_ROWS = 20; // of longer lists, people change the text
for (const area of document.querySelectorAll("textarea[data-texts]")) {
  if (area.value.split("\n").length <= MOST_ROWS) rowsOf(area);
}

const most = Number(document.querySelector("[data-most-bytes]")?.dataset.mostBytes ?? 0);

async function take(area, file) {
  if (file.size > most) {
    const limit = (most / 1048576).toFixed(1);
    say(area, `${file.name} is larger than ${limit} MiB, which a value may have.`);
    return;
  }
  try {
    area.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    say(area, "");
  } catch {
    say(area, `${file.name} is not UTF-8 text.`);
    return;
  }
  if (area.matches("[data-json]")) checkJson(area);
}

function isFile(event) {
  return [...event.dataTransfer.types].includes("Files");
}
for (const target of document.querySelectorAll("[data-drop], [data-drop-file]")) {
  target.addEventListener("dragover", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    target.classList.add("is-target");
  });
  target.addEventListener("dragleave", () => target.classList.remove("is-target"));
  target.addEventListener("drop", (event) => {
    target.classList.remove("is-target");
    if (!isFile(event) || !event.dataTransfer.files.length) return;
    event.preventDefault();
    const input = target.querySelector("input[type=file]");
    if (input) input.files = event.dataTransfer.files;
    else take(target, event.dataTransfer.files[0]);
  });
}

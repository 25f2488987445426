// Fields of a form: keys can be filtered, and JSON is checked while it is typed.

for (const filter of document.querySelectorAll("[data-filter]")) {
  filter.hidden = false;
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const each of filter.parentElement.querySelectorAll("[data-name]")) {
      each.hidden = !each.dataset.name.toLowerCase().includes(wanted);
    }
  });
}

for (const area of document.querySelectorAll("textarea[data-json]")) {
  area.addEventListener("input", () => {
    try {
      JSON.parse(area.value);
      area.setCustomValidity("");
    } catch (error) {
      area.setCustomValidity(`This is not JSON: ${error.message}`);
    }
    area.setAttribute("aria-invalid", String(!area.validity.valid));
  });
}

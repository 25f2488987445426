// Before the page is painted: what was chosen in this browser. Flower's pages share the theme.
(() => {
  const root = document.documentElement;
  root.dataset.scripts = "";
  const chosen = (name, values) => values.find((value) => value === localStorage.getItem(name));
  const theme = chosen("flower-theme", ["dark", "light"]);
  if (theme) root.dataset.theme = theme;
  if (chosen("sleipnir-rail", ["folded"])) root.dataset.rail = "folded";
  if (chosen("sleipnir-rows", ["roomy"])) root.dataset.rows = "roomy";
})();

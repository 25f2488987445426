// Before the page is painted: the theme that was chosen here, or on Flower's pages.
(() => {
  const chosen = localStorage.getItem("flower-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();

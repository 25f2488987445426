// The list of runs: how many are selected, and two of them beside each other.
const bar = document.querySelector(".selection");
const compare = document.querySelector("[data-compare]");
const chosen = () => [...document.querySelectorAll("[data-row] input:checked")].map((box) => box.value);

function tell() {
  const ids = chosen();
  bar.querySelector("[data-selected]").textContent = `${ids.length.toLocaleString("en-US")} selected`;
  compare.hidden = ids.length !== 2;
}

if (bar !== null) {
  document.addEventListener("change", tell);
  compare.addEventListener("click", () => {
    const [b, a] = chosen(); // the newer one stands first
    location.href = new URL(`../../compare?a=${a}&b=${b}`, import.meta.url);
  });
  tell();
}

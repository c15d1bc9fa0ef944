"use strict";
document.getElementById("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});
// A chart reads out the row of its table at the pointer, or where the arrow keys have gone.
for (const chart of document.querySelectorAll(".chart")) {
  const card = chart.closest(".card");
  const rows = card.querySelectorAll("tbody tr");
  const names = [...card.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const said = card.querySelector("output");
  let place = rows.length - 1;
  const say = (index) => {
    place = Math.max(0, Math.min(rows.length - 1, index));
    const cells = [...rows[place].cells].map((cell) => cell.textContent);
    said.textContent = names.map((name, at) => `${name} ${cells[at]}`).join(" · ");
  };
  chart.addEventListener("pointermove", (event) => {
    const box = event.currentTarget.querySelector("svg").getBoundingClientRect();
    const left = (54 / 760) * box.width;
    const wide = box.width - left - (8 / 760) * box.width;
    say(Math.floor(((event.clientX - box.left - left) / wide) * Math.max(24, rows.length)));
  });
  chart.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: rows.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    say(moves[event.key]);
  });
  chart.addEventListener("focus", () => say(place));
}

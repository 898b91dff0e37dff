"use strict";
const box = document.getElementById("filter");
const shown = document.getElementById("shown");
const hits = [...document.querySelectorAll(".hits > li")];
const lines = new Map([...document.querySelectorAll(".flow g")].map((line) => [line.dataset.rank, line]));
const words = new Map(hits.map((hit) => [hit, hit.textContent.toLowerCase()]));

function filter() {
  const wanted = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  for (const hit of hits) {
    const fits = wanted.every((word) => words.get(hit).includes(word));
    hit.hidden = !fits;
    lines.get(hit.dataset.rank)?.classList.toggle("off", !fits);
    left += fits;
  }
  shown.textContent = `${left} of ${hits.length}`;
}

function light(rank, on) {
  lines.get(rank)?.classList.toggle("on", on);
  document.getElementById(`hit-${rank}`)?.classList.toggle("on", on);
}

function step(by) {
  const open = hits.filter((hit) => !hit.hidden);
  if (!open.length) return;
  const at = open.findIndex((hit) => hit.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : open.length - 1) : Math.min(Math.max(at + by, 0), open.length - 1);
  open[next].querySelector("h3 a").focus();
  open[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.activeElement === box) {
    box.value = "";
    filter();
    box.blur();
  } else if (document.activeElement === box) {
    return;
  } else if (event.key === "/") {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
});
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("input", filter);
for (const hit of hits) {
  for (const [name, on] of [["mouseenter", true], ["mouseleave", false], ["focusin", true], ["focusout", false]]) {
    hit.addEventListener(name, () => light(hit.dataset.rank, on));
  }
}
for (const [rank, line] of lines) {
  line.addEventListener("mouseenter", () => light(rank, true));
  line.addEventListener("mouseleave", () => light(rank, false));
  line.addEventListener("click", () => document.querySelector(`#hit-${rank} h3 a`)?.focus());
}

"use strict";
const root = document.documentElement, tip = document.getElementById("tip");
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const made = (name, attributes = {}, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  return element;
};
// The middle is left out: names differ at their ends.
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most / 2 - 4)}\u2026${text.slice(-most / 2 - 3)}` : text);
const count = (n) => Math.round(n).toLocaleString("en");

// Theme: of the system until it is chosen.
const dark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = (name) => (root.dataset.theme = name);
setTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
let beforePrint = null;
addEventListener("beforeprint", () => {
  beforePrint = root.dataset.theme;
  setTheme("light");
  all("main details").forEach((d) => (d.open = true));
});
addEventListener("afterprint", () => setTheme(beforePrint));

// Texts at points, shown at the pointer or the focus.
function showTip(text, x, y) {
  (document.querySelector("dialog[open]") || document.body).append(tip);
  tip.textContent = text;
  tip.style.display = "block";
  tip.style.left = Math.max(6, Math.min(x + 12, innerWidth - tip.offsetWidth - 6)) + "px";
  tip.style.top = (y + 16 + tip.offsetHeight < innerHeight ? y + 16 : y - tip.offsetHeight - 10) + "px";
}
const hideTip = () => (tip.style.display = "none");
document.addEventListener("pointerover", (e) => {
  const at = e.target.closest("[data-tip]");
  if (at) showTip(at.dataset.tip, e.clientX, e.clientY);
});
document.addEventListener("pointerout", (e) => e.target.closest("[data-tip]") && hideTip());
document.addEventListener("focusin", (e) => {
  const at = e.target.closest("circle[data-tip]"), box = at && at.getBoundingClientRect();
  if (at) showTip(at.dataset.tip, box.right, box.bottom);
});
document.addEventListener("focusout", hideTip);

// Width of a name in the font of a drawing.
function widthOf(svg, name) {
  const text = made("text", { class: "name" }, name);
  svg.append(text);
  const width = text.getComputedTextLength();
  text.remove();
  return width;
}

// Heat maps: a row for each resource, a rectangle for each run of equal columns.
function drawHeat(data) {
  const { rows, cycles: [first, last] } = JSON.parse(data.textContent);
  for (const r of rows) r.used = r.used.flatMap(([share, columns]) => Array(columns).fill(share));
  const svg = document.getElementById(data.dataset.heat), row = 20, top = 4;
  const narrow = document.documentElement.clientWidth < 640;
  const names = rows.map((r) => shortened(r.name, narrow ? 22 : 34));
  const left = 14 + Math.max(60, ...names.map((n) => widthOf(svg, n))), wide = narrow ? 330 : 860, width = left + wide + 10, columns = rows.length ? rows[0].used.length : 1;
  const height = top + rows.length * row + 40, x = (n) => left + (wide * n) / columns;
  const cycle = (n) => first + ((last - first) * n) / columns;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.minWidth = narrow ? "0" : Math.min(width, left + 640) + "px";
  rows.forEach((r, line) => {
    const y = top + line * row;
    const name = made("text", { x: left - 8, y: y + 13, class: "name" }, names[line]);
    if (r.opens) { name.dataset.opens = r.opens; name.setAttribute("role", "link"); }
    svg.append(name, made("rect", { x: left, y, width: wide, height: row - 4, class: "back" }));
    for (let a = 0, b; a < columns; a = b) {
      for (b = a + 1; b < columns && r.used[b] === r.used[a]; b++);
      if (!r.used[a]) continue;
      svg.append(made("rect", { x: x(a), y, width: x(b) - x(a), height: row - 4, class: "used", style: `--share:${Math.min(100, Math.max(6, r.used[a]))}%` }));
    }
    const cover = made("rect", { x: left, y, width: wide, height: row - 4, class: "cover" });
    if (r.opens) cover.dataset.opens = r.opens;
    cover.addEventListener("pointermove", (e) => {
      const box = cover.getBoundingClientRect();
      const n = Math.max(0, Math.min(columns - 1, Math.floor(((e.clientX - box.left) / box.width) * columns)));
      showTip(`${r.name}: ${r.used[n]} % in cycles ${count(cycle(n))} to ${count(cycle(n + 1))} (${r.note})`, e.clientX, e.clientY);
    });
    cover.addEventListener("pointerleave", hideTip);
    svg.append(cover);
  });
  for (let n = 0; n <= 4; n++)
    svg.append(made("text", { x: x((columns * n) / 4), y: height - 22, class: n === 4 ? "tick end" : "tick" }, count(cycle((columns * n) / 4))));
  svg.append(made("text", { x: left + wide / 2, y: height - 5, class: "tick" }, "clock cycle"));
}
all("script[data-heat]").forEach(drawHeat);

// The slider over multipliers.
for (const place of all(".slider")) {
  const points = JSON.parse(place.querySelector("script").textContent), range = place.querySelector("input");
  const labels = { cycles: "clock cycles", interval: "interval", lut: "LUTs", ff: "flip-flops", dsp: "multiplier blocks", bram: "block RAMs", fmax: "MHz" };
  const exact = ["cycles", "interval", "bram"];
  const show = () => {
    const p = points[range.value], command = `--multipliers ${p.multipliers}`;
    place.querySelector("output").textContent = p.multipliers;
    place.querySelector("code").textContent = command;
    place.querySelector(".copy").dataset.copy = command;
    place.querySelector(".short").textContent = p.refusal ? `does not fit: ${p.refusal}` : "";
    range.setAttribute("aria-valuetext", `${p.multipliers} multipliers, ${p.cycles} cycles`);
    place.querySelector(".tiles").innerHTML = Object.entries(labels).map(([key, label]) =>
      `<div class="tile"><span>${label}</span><strong>${p[key] === null ? "\u2013" : count(p[key])}</strong><small>${exact.includes(key) ? "exact" : p[key] === null ? "not estimated" : p.estimated ? "estimated" : "at least"}${p.has[key] ? ", of " + count(p.has[key]) : ""}</small></div>`).join("");
  };
  range.addEventListener("input", show);
  show();
}

// Pages of kernels.
const dialog = document.getElementById("kernel");
let pages = [], shown = -1, loading = null;
if (dialog) {
  const packed = Uint8Array.from(atob(document.getElementById("kernels").textContent.trim()), (c) => c.charCodeAt(0));
  loading = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json().then((found) => (pages = found));
}
// In a notebook the page has no address of its own.
const remember = (hash) => location.protocol === "about:" || history.replaceState(null, "", hash);
async function openKernel(number) {
  await loading;
  if (!(number in pages)) return;
  shown = number;
  const content = dialog.querySelector(".content");
  content.innerHTML = pages[number];
  if (!dialog.open) dialog.showModal();
  all("script[data-heat]", content).forEach(drawHeat);
  dialog.scrollTop = 0;
  remember(`#k${number}`);
}
if (dialog) {
  dialog.addEventListener("close", () => remember("#model"));
  dialog.addEventListener("click", (e) => {
    const button = e.target.closest("button");
    if (e.target === dialog || (button && "close" in button.dataset)) dialog.close();
    else if (button && button.dataset.step) openKernel(shown + Number(button.dataset.step));
  });
  dialog.addEventListener("keydown", (e) => {
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") openKernel(shown + (e.key === "ArrowRight" ? 1 : -1));
  });
}

// Anything that opens a kernel or a fold, and buttons that copy.
function opened(target) {
  if (/^k\d+$/.test(target)) return openKernel(Number(target.slice(1)));
  const place = document.getElementById(target);
  if (!place) return;
  place.open = true;
  place.scrollIntoView({ behavior: "smooth" });
}
document.addEventListener("click", (e) => {
  const at = e.target.closest("[data-opens]"), copy = e.target.closest("button[data-copy]");
  const link = e.target.closest("nav a");
  if (at) { e.preventDefault(); hideTip(); opened(at.dataset.opens); }
  if (link) { e.preventDefault(); opened(link.hash.slice(1)); remember(link.hash); }
  if (!copy) return;
  const text = document.createElement("textarea");  // The clipboard of a page from a file works only so.
  text.value = copy.dataset.copy;
  copy.after(text);
  text.select();
  document.execCommand("copy");
  text.remove();
  copy.textContent = "copied";
});
document.addEventListener("keydown", (e) => {
  const at = e.target.closest && e.target.closest("[data-opens]");
  if (at && (e.key === "Enter" || e.key === " ")) { e.preventDefault(); opened(at.dataset.opens); }
});
all(".graph").forEach((place) => new Graph(place));
if (/^#k\d+$/.test(location.hash)) opened(location.hash.slice(1));

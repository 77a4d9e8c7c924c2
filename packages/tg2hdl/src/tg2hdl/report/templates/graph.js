"use strict";
// The graph of the model: dagre lays it out; clicks, keys, wheel and buttons move in it.
class Graph {
  constructor(place) {
    const { nodes, edges } = JSON.parse(place.querySelector("script").textContent);
    this.canvas = place.querySelector(".canvas");
    this.nodes = new Map(nodes.map((n) => [n.id, n]));
    this.layout(nodes, edges);
    this.draw(nodes, edges);
    this.fit(0.55);
    place.addEventListener("click", (e) => {
      const button = e.target.closest("button[data-zoom]");
      if (button) Number(button.dataset.zoom) ? this.zoom(Number(button.dataset.zoom)) : this.fit(0);
    });
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15, e);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.drag();
    addEventListener("resize", () => this.fits && this.fit(this.least));
  }

  layout(nodes, edges) {
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 30, edgesep: 12, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const n of nodes) {
      n.texts = [n.title, n.place, ...n.lines].filter(Boolean).map((t) => shortened(t, 44));
      const width = Math.max(90, 22 + Math.max(7.9 * n.texts[0].length, ...n.texts.slice(1).map((t) => 6.3 * t.length)));
      graph.setNode(n.id, { width, height: 12 + 17 * n.texts.length });
    }
    edges.forEach((e, n) => graph.setEdge(e.from, e.to, { width: 6 * e.text.length, height: 16, labelpos: "c" }, String(n)));
    dagre.layout(graph);
    for (const n of nodes) Object.assign(n, graph.node(n.id), { after: [], before: [] });
    edges.forEach((e, n) => {
      Object.assign(e, graph.edge(e.from, e.to, String(n)));
      this.nodes.get(e.from).after.push(e.to);
      this.nodes.get(e.to).before.push(e.from);
    });
    this.size = { width: graph.graph().width, height: graph.graph().height };
  }

  draw(nodes, edges) {
    this.svg = made("svg", { viewBox: `0 0 ${this.size.width} ${this.size.height}`, role: "group", "aria-label": "graph of the model" });
    for (const e of edges) {
      const points = e.points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`), last = e.points.at(-1), before = e.points.at(-2);
      const angle = (Math.atan2(last.y - before.y, last.x - before.x) * 180) / Math.PI;
      const edge = made("g", { class: "edge", "data-tip": `${e.tensor}: ${e.text}` });
      edge.append(made("polyline", { points: points.join(" ") }));
      edge.append(made("path", { d: "M-8 -4L0 0L-8 4", transform: `translate(${last.x} ${last.y}) rotate(${angle})` }));
      const wide = 5.6 * e.text.length;
      if (e.text) edge.append(made("rect", { x: e.x - wide / 2, y: e.y - 8, width: wide, height: 16 }), made("text", { x: e.x, y: e.y + 4 }, e.text));
      this.svg.append(edge);
    }
    for (const n of nodes) {
      const opens = n.kernel !== undefined;
      const node = made("g", { class: opens ? "layer" : "border", transform: `translate(${n.x - n.width / 2} ${n.y - n.height / 2})`, tabindex: 0, "data-id": n.id, "aria-label": [n.title, n.place, ...n.lines].join(", "), role: opens ? "button" : "img" });
      if (opens) node.dataset.opens = `k${n.kernel}`;
      if (n.texts[0] !== n.title) node.dataset.tip = n.title;
      node.append(made("rect", { width: n.width, height: n.height, rx: 7, style: `--share:${Math.round(55 * Math.sqrt(n.share))}%` }));
      n.texts.forEach((t, line) => node.append(made("text", { x: 11, y: 20 + 17 * line, class: line ? "" : "title" }, t)));
      this.svg.append(node);
    }
    this.canvas.append(this.svg);
  }

  setScale(scale) {
    this.scale = Math.max(0.05, Math.min(3, scale));
    this.svg.style.width = this.size.width * this.scale + "px";
    this.svg.style.height = this.size.height * this.scale + "px";
  }

  // The whole graph, or its width, but not smaller than `least`.
  fit(least) {
    const across = (this.canvas.clientWidth - 2) / this.size.width;
    this.least = least;
    this.setScale(Math.max(least, Math.min(1, across, least ? 1 : (this.canvas.clientHeight - 2) / this.size.height)));
    this.fits = true;
  }

  zoom(factor, pointer) {
    const box = this.canvas.getBoundingClientRect(), before = this.scale;
    const x = pointer ? pointer.clientX - box.left : box.width / 2, y = pointer ? pointer.clientY - box.top : box.height / 2;
    const left = this.canvas.scrollLeft + x, top = this.canvas.scrollTop + y;
    this.setScale(this.scale * factor);
    this.fits = false;
    const ratio = this.scale / before;
    this.canvas.scrollTo(left * ratio - x, top * ratio - y);
  }

  key(e) {
    if (e.key === "+" || e.key === "=") this.zoom(1.25);
    else if (e.key === "-") this.zoom(0.8);
    else if (e.key === "0") this.fit(0);
    else if (!this.move(e.key)) return;
    e.preventDefault();
  }

  // Down and up follow the edges; left and right go to the neighbour of about the same height.
  move(key) {
    const at = this.nodes.get(document.activeElement.dataset?.id);
    if (!at || !key.startsWith("Arrow")) return false;
    const vertical = key === "ArrowDown" ? at.after : key === "ArrowUp" ? at.before : null;
    const side = key === "ArrowRight" ? 1 : -1;
    const found = vertical ? vertical.map((id) => this.nodes.get(id)) : [...this.nodes.values()].filter((n) => (n.x - at.x) * side > 0 && Math.abs(n.y - at.y) < at.height);
    const next = found.sort((a, b) => Math.abs(a.x - at.x) - Math.abs(b.x - at.x))[0];
    if (next) {
      const element = this.svg.querySelector(`[data-id="${CSS.escape(next.id)}"]`);
      element.focus({ preventScroll: true });
      this.canvas.scrollTo(next.x * this.scale - this.canvas.clientWidth / 2, next.y * this.scale - this.canvas.clientHeight / 2);
    }
    return true;
  }

  drag() {
    let from = null;
    this.canvas.addEventListener("pointerdown", (e) => {
      if (e.pointerType === "mouse" && e.button === 0) from = { x: e.clientX + this.canvas.scrollLeft, y: e.clientY + this.canvas.scrollTop, moved: false };
    });
    addEventListener("pointermove", (e) => {
      if (!from) return;
      const x = from.x - e.clientX, y = from.y - e.clientY;
      from.moved ||= Math.abs(x - this.canvas.scrollLeft) + Math.abs(y - this.canvas.scrollTop) > 4;
      if (from.moved) this.canvas.scrollTo(x, y);
    });
    addEventListener("pointerup", () => {
      if (from && from.moved) this.canvas.addEventListener("click", (e) => e.stopPropagation(), { capture: true, once: true });
      from = null;
    });
  }
}

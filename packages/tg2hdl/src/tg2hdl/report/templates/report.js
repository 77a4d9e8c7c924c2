(async () => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  let chosen = null;
  const charts = () => document.querySelectorAll("script[data-chart]");
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function themed() {
    const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line") };
    const look = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", "font.color": color("--text"),
      "font.family": "system-ui, sans-serif", "hoverlabel.bgcolor": color("--panel"),
      "hoverlabel.font.color": color("--text"), "hoverlabel.align": "left",
      "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": color("--quiet"), "modebar.activecolor": color("--accent"),
    };
    for (const name of ["xaxis", "yaxis"])
      for (const [key, value] of Object.entries(axis)) look[`${name}.${key}`] = value;
    return look;
  }

  function setTheme() {
    const dark = printing.matches ? false : chosen === null ? system.matches : chosen === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    const look = themed();
    for (const data of charts()) {
      const place = document.getElementById(data.dataset.chart);
      if (place.data) Plotly.relayout(place, look);
    }
  }

  // Run the plotting library, which is in the page as gzip in base64.
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent.trim()), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(unpacked).text();
  document.head.append(library);
  for (const data of charts()) {
    const figure = JSON.parse(data.textContent);
    const place = document.getElementById(data.dataset.chart);
    Plotly.newPlot(place, figure.data, figure.layout, {
      responsive: true, scrollZoom: true, displaylogo: false,
      displayModeBar: window.innerWidth > 700,  // on a phone it covers the legend
    });
    place.on("plotly_click", (event) => {
      const target = document.getElementById(event.points[0].customdata || "");
      if (!target) return;
      target.open = true;
      target.scrollIntoView({ behavior: "smooth" });
    });
  }
  for (const button of document.querySelectorAll("button[data-copy]"))
    button.addEventListener("click", () => {
      const text = document.createElement("textarea");  // the clipboard of a page from a file works only so
      text.value = button.dataset.copy;
      document.body.append(text);
      text.select();
      document.execCommand("copy");
      text.remove();
      button.textContent = "copied";
    });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    setTheme();
  });
  system.addEventListener("change", setTheme);
  printing.addEventListener("change", setTheme);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  setTheme();
})();

// Draws the charts, colours them for light and dark, and gives their data away.
"use strict";
(() => {
  const { charts, csv, colours, first } = JSON.parse(document.getElementById("data").textContent);
  const media = (query) => window.matchMedia(query);
  const dark = media("(prefers-color-scheme: dark)");
  const hidden = new Set();
  const picked = {};
  let printing = false;

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const theme = () => (dark.matches && !printing ? 1 : 0);
  const colour = (format) => (colours[format] || ["#666", "#bbb"])[theme()];
  const narrow = () => document.documentElement.clientWidth < 600;
  const tones = {
    error: ["#b3261e", "#ff8f86"], bit_stall: ["#0072b2", "#4fb0ea"], overflow: ["#c94f00", "#ff9651"],
    underflow: ["#6448b0", "#b09af2"], kurtosis: ["#008060", "#3fcf9f"], code_saturation: ["#8f6c00", "#e8c33d"],
  };
  const tone = (name) => (tones[name] || ["#4b5563", "#c9ced6"])[theme()];

  // Long names of rows leave no room for the chart on a small screen.
  const shorten = (text) => {
    const most = narrow() ? 16 : 34;
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
  };

  function axis(own, fg, grid) {
    const font = { size: 12, color: fg };
    const title = own && own.title ? { ...own.title, font: { size: 13, color: fg }, standoff: 8 } : undefined;
    return {
      gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickfont: font, automargin: true, exponentformat: "e", ...own, ...(title && { title }),
    };
  }

  function figure(chart) {
    const own = chart.figures.all || chart.figures[picked[chart.id]];
    if (!own) return null;
    const [fg, grid, card] = [css("--fg"), css("--grid"), css("--card")];
    const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: fg };
    const data = own.data.map((trace) => {
      const meta = trace.meta || {};
      const themed = { ...trace };
      if (meta.format !== undefined) {
        themed.line = { ...trace.line, color: colour(meta.format) };
        themed.marker = { ...trace.marker, color: colour(meta.format) };
        themed.visible = !hidden.has(meta.format);
      }
      if (meta.tone) themed.marker = { ...trace.marker, color: tone(meta.tone), line: { width: 1, color: card } };
      if (meta.scale) {
        themed.colorscale = "Cividis";
        themed.colorbar = {
          thickness: 12, outlinewidth: 0, ...trace.colorbar,
          tickfont: font, title: { ...(trace.colorbar || {}).title, font },
        };
        if (narrow()) themed.colorbar = { ...themed.colorbar, orientation: "h", y: 1, yanchor: "bottom", x: 0.5, len: 1, title: undefined };
      }
      return themed;
    });
    const layout = {
      font, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: card, bordercolor: grid, font: { ...font, size: 13 }, align: "left", namelength: -1 },
      hovermode: "closest", dragmode: narrow() ? false : "zoom",
      ...own.layout,
      margin: { l: 48, r: 12, t: 14, b: 44, ...own.layout.margin },
      xaxis: axis(own.layout.xaxis, fg, grid), yaxis: axis(own.layout.yaxis, fg, grid),
    };
    if (layout.annotations) {
      layout.annotations = layout.annotations.map((note) => ({ ...note, font, bgcolor: card, borderpad: 1 }));
    }
    if (layout.legend) layout.legend = { ...layout.legend, font };
    if (layout.yaxis.type === "category") {
      const names = layout.yaxis.categoryarray || data[0].y;
      layout.yaxis.tickvals = names;
      layout.yaxis.ticktext = names.map(shorten);
    }
    if (narrow() && layout.xaxis.nticks) layout.xaxis.nticks = 5;
    return { data, layout };
  }

  const config = { responsive: true, displayModeBar: false, showTips: false, doubleClick: "reset+autosize" };

  function draw(element) {
    const chart = charts[element.dataset.chart];
    const drawn = figure(chart);
    const none = element.parentElement.querySelector(".none");
    element.hidden = !drawn;
    none.hidden = !!drawn;
    if (!drawn) return Promise.resolve();
    return Plotly.react(element, drawn.data, drawn.layout, config).then(() => { element.dataset.drawn = "yes"; });
  }

  const elements = [...document.querySelectorAll(".chart")];

  // One after the other, so that the page answers meanwhile.
  let turn = 0;
  async function drawAll() {
    const own = ++turn;
    for (const element of elements) {
      if (own !== turn) return;
      await draw(element);
      await new Promise((resolve) => setTimeout(resolve));
    }
    document.documentElement.dataset.drawn = String(elements.filter((element) => element.hidden || element.dataset.drawn).length);
  }

  function paintKey() {
    document.querySelectorAll(".key button").forEach((button) => {
      button.style.setProperty("--c", colour(button.dataset.format));
    });
  }

  document.querySelectorAll(".key button").forEach((button) => {
    button.addEventListener("click", () => {
      const format = button.dataset.format;
      const shows = hidden.delete(format);
      if (!shows) hidden.add(format);
      button.setAttribute("aria-pressed", String(shows));
      drawAll();
    });
  });

  // A run picked in one chart is picked in all that have it.
  const picks = [...document.querySelectorAll("select[data-pick]")];
  picks.forEach((select) => {
    const chart = charts[select.dataset.pick];
    if (chart.figures[first]) select.value = first;
    else select.value = Object.keys(chart.figures)[0];
    picked[select.dataset.pick] = select.value;
    select.addEventListener("change", () => {
      picks.forEach((other) => {
        other.value = select.value;
        picked[other.dataset.pick] = select.value;
        draw(document.querySelector(`.chart[data-chart="${other.dataset.pick}"]`));
      });
      document.querySelectorAll("details[open]").forEach(fill);
    });
  });

  // A chart's points, a row each.
  function* rows(chart) {
    const own = chart.figures.all || chart.figures[picked[chart.id]];
    const picture = own && own.data[0].type === "heatmap";
    yield (picture ? chart.names : ["series", chart.names[0], chart.names[1], ...(chart.names[2] ? [chart.names[2]] : [])]);
    for (const trace of own ? own.data : []) {
      if (picture) {
        for (let i = 0; i < trace.y.length; i++) {
          for (let j = 0; j < trace.x.length; j++) yield [trace.x[j], trace.y[i], trace.z[i][j]];
        }
      } else {
        for (let i = 0; i < trace.x.length; i++) {
          const text = chart.names[2] && trace.text ? [String(trace.text[i]).replaceAll("<br>", "")] : [];
          yield [trace.meta.label, trace.x[i], trace.y[i], ...text];
        }
      }
    }
  }

  const unescape = (cell) => String(cell ?? "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

  function save(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  document.querySelectorAll("button.csv").forEach((button) => {
    button.setAttribute("aria-label", `Data as CSV: ${button.parentElement.querySelector("h3").textContent}`);
    button.addEventListener("click", () => {
      const { table, chart } = button.dataset;
      if (table) return save(table, csv[table]);
      save(chart, [...rows(charts[chart])].map((row) => row.map(unescape).map(quoted).join(",")).join("\n") + "\n");
    });
  });

  const MOST_ROWS = 500;
  function fill(details) {
    const chart = charts[details.dataset.chart];
    const table = document.createElement("table");
    let count = 0;
    for (const row of rows(chart)) {
      if (count > MOST_ROWS) break;
      const line = table.insertRow();
      row.forEach((cell) => {
        const made = document.createElement(count ? "td" : "th");
        made.textContent = unescape(cell);
        line.append(made);
      });
      count++;
    }
    const parts = [table];
    if (count > MOST_ROWS) {
      const more = document.createElement("p");
      more.textContent = `The first ${MOST_ROWS} rows; the CSV has all.`;
      parts.push(more);
    }
    details.querySelector(".scroll").replaceChildren(...parts);
  }
  document.querySelectorAll("details[data-chart]").forEach((details) => {
    details.addEventListener("toggle", () => details.open && fill(details));
  });

  const repaint = () => { paintKey(); drawAll(); };
  dark.addEventListener("change", repaint);
  media("(max-width: 599px)").addEventListener("change", repaint);
  const print = (is) => () => {
    printing = is;
    paintKey();
    elements.forEach((element) => draw(element));
  };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
  repaint();
})();

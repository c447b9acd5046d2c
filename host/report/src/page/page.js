// Shows values, hides, sorts, saves data, and draws charts as the reader chooses.
"use strict";
const page = (() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const made = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  // What a reader chose, so that new content looks the same.
  const hidden = new Set();
  let run = null;
  let singles = false;
  let metric = null;
  let dressed = false;

  function hide() {
    const groups = new Set([...hidden].flatMap((value) => value.split(" ")));
    all(".s[data-g]").forEach((series) => series.classList.toggle("off", groups.has(series.dataset.g)));
    all(".key button").forEach((button) => button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.groups))));
    all(".map[data-g]").forEach((map) => map.classList.toggle("off", groups.has(map.dataset.g)));
    root.classList.toggle("show-singles", singles);
    all(".singles").forEach((box) => { box.checked = singles; });
  }

  const chosen = (id) => document.getElementById(id);
  // Axes and smoothing of curves.
  function place() {
    const smooth = Math.min(0.99, Math.max(0, Number(chosen("smooth").value) || 0));
    axes.apply({ tokens: chosen("tokens").checked ? data().tokens : null, log: chosen("log").checked, smooth });
  }

  // The metric of heat maps.
  function map() {
    const select = document.querySelector(".metric select");
    if (!select) return;
    if (metric && [...select.options].some((option) => option.value === metric)) select.value = metric;
    if (select.value !== select.dataset.drawn) heatMaps.draw(select.closest(".card"), data().maps, select.value);
    select.dataset.drawn = select.value;
  }

  // Colours and lines by keys that the reader chooses.
  function dress() {
    const { looks } = data();
    const [colour, line] = ["colour", "line"].map((id) => document.getElementById(id).value);
    const [colours, lines] = [looks[colour].colours, looks[line]?.lines || []];
    const of = (keys, group) => keys.find((key) => key.groups.split(" ").includes(group));
    all(".s[data-g]").forEach((series) => {
      const [light, dark] = of(colours, series.dataset.g)?.ink || ["#555e68", "#a3adb8"];
      series.style.setProperty("--l", light);
      series.style.setProperty("--d", dark);
      // Intervals are always plain.
      if (series.closest("#card-forest")) return;
      all(".line", series).forEach((path) => path.setAttribute("stroke-dasharray", of(lines, series.dataset.g)?.dash || "none"));
    });
    const bar = document.querySelector(".key");
    const buttons = colours.map((key) => {
      const button = made("button");
      Object.assign(button, { type: "button" });
      button.dataset.groups = key.groups;
      button.style.setProperty("--l", key.ink[0]);
      button.style.setProperty("--d", key.ink[1]);
      button.append(made("i"), key.value);
      return button;
    });
    const shown = made("span", undefined, "lines");
    shown.append(made("b", line), ...lines.map((key) => {
      const item = made("span");
      item.innerHTML = '<svg width="34" height="8" aria-hidden="true"><line x1="1" y1="4" x2="33" y2="4"/></svg>';
      item.querySelector("line").setAttribute("stroke-dasharray", key.dash || "none");
      item.append(key.value);
      return item;
    }));
    bar.replaceChildren(made("b", colour), ...buttons, ...(lines.length ? [shown] : []), bar.querySelector(".tick"));
    bar.setAttribute("aria-label", `Values of ${colour}; press to hide or show`);
    hidden.clear();
    hide();
  }

  // Small multiples: a panel for each value of a key, all on the axes of the whole chart.
  function multiply() {
    all(".panels").forEach((panels) => {
      panels.previousElementSibling.hidden = false;
      panels.remove();
    });
    const values = data().looks[document.getElementById("panels").value]?.colours || [];
    if (values.length < 2) return;
    all(".chart:not([data-run])").filter((chart) => chart.querySelector(".plot:not(.names) .s[data-g]")).forEach((chart) => {
      const panels = made("div", undefined, "panels");
      for (const { value, groups } of values.slice(0, 24)) {
        const panel = made("div", undefined, "chart");
        const plot = chart.querySelector(".plot").cloneNode(true);
        const own = new Set(groups.split(" "));
        all(".s[data-g]", plot).filter((series) => !own.has(series.dataset.g)).forEach((series) => series.remove());
        if (!plot.querySelector(".s[data-g]")) continue;
        plot.style.setProperty("--h", "170px");
        panel.append(made("b", value, "value"), plot);
        panels.append(panel);
      }
      chart.after(panels);
      chart.hidden = true;
    });
  }

  // A run picked in one chart is picked in all that have it.
  function pick() {
    if (run === null) return;
    all(".card").forEach((card) => {
      const drawings = all(".chart[data-run]", card);
      if (!drawings.length) return;
      const own = drawings.find((drawing) => drawing.dataset.run === run);
      drawings.forEach((drawing) => { drawing.hidden = drawing !== own; });
      card.querySelector(".none").hidden = !!own;
      if (own) card.querySelector("select").value = run;
    });
  }

  function search() {
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    all(".card, #content .table").forEach((part) => {
      const text = `${part.id} ${part.querySelector("h3").textContent} ${part.querySelector("figcaption")?.textContent || ""}`.toLowerCase();
      const fits = (text) => words.every((word) => text.includes(word));
      // Names of metrics count too: the first that fits is drawn.
      const metrics = all(".metric option", part).map((option) => option.value);
      const found = fits(text) ? null : metrics.find((name) => fits(name.toLowerCase()));
      if (found) { metric = found; map(); hide(); }
      part.classList.toggle("off", !found && !fits(text));
    });
    all("#content section").forEach((section) => {
      section.classList.toggle("off", words.length > 0 && !section.querySelector(".card:not(.off), .table:not(.off)"));
    });
  }

  const data = () => JSON.parse(document.getElementById("data").textContent);
  function save(file, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const number = (cell) => parseFloat(cell.dataset.value ?? cell.textContent);
  function sort(head) {
    const table = head.closest("table");
    const column = [...head.parentElement.children].indexOf(head);
    const rising = head.getAttribute("aria-sort") !== "ascending";
    all("th", head.parentElement).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    order(table, column, rising);
  }
  function order(table, column, rising) {
    const rows = all("tbody tr", table);
    const key = (row) => row.children[column];
    const compare = (a, b) => {
      const [x, y] = [number(a), number(b)];
      if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
      const by = Number.isNaN(x) ? a.textContent.localeCompare(b.textContent) : x - y;
      return rising ? by : -by;
    };
    rows.sort((a, b) => compare(key(a), key(b)));
    table.tBodies[0].append(...rows);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-csv], button[data-svg], .key button");
    const { csv, svg } = button?.dataset || {};
    if (csv) return save(`${csv}.csv`, "text/csv", data().csv[csv]);
    if (svg) return save(`${svg}.svg`, "image/svg+xml", pictureOf(button.closest(".card")));
    if (button) {
      const { groups } = button.dataset;
      if (!hidden.delete(groups)) hidden.add(groups);
      return hide();
    }
    const head = event.target.closest(".sortable thead th");
    if (head) sort(head);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches(".pick select")) { run = event.target.value; pick(); }
    if (event.target.matches(".metric select")) { metric = event.target.value; map(); hide(); }
    if (event.target.matches("#colour, #line")) { dressed = true; dress(); }
    if (event.target.matches("#tokens, #log, #smooth")) refresh();
    if (event.target.id === "panels") refresh();
    if (event.target.matches(".singles")) { singles = event.target.checked; hide(); }
  });
  document.getElementById("search").addEventListener("input", search);

  // The value under the pointer: of the nearest point of any curve that is shown.
  const tip = document.getElementById("tip");
  const points = new WeakMap();
  function placed(path) {
    const d = path.getAttribute("d");
    if (points.get(path)?.d !== d) {
      const found = [...d.matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(([, x, y]) => [+x, +y]);
      points.set(path, { d, found });
    }
    return points.get(path).found;
  }
  const digits = (value) => String(+value.toPrecision(4));
  function value(axis, place) {
    const [kind, low, high] = axis.split(" ");
    if (kind === "names") return null;
    const share = place / 1000;
    return digits(kind === "log" ? low * (high / low) ** share : +low + (high - low) * share);
  }
  function look(event) {
    const svg = event.target.closest?.(".area")?.querySelector("svg");
    tip.hidden = true;
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const own = svg.closest(".map");
    if (own) {
      const at = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      const [layer, text] = heatMaps.read(own, data().maps, document.querySelector(".metric select").value, at);
      return tell(event, [made("b", own.querySelector(".value").textContent), made("div", layer), made("div", text)]);
    }
    let best = [24, null];
    for (const path of all(".s:not(.off) path.line, .s:not(.off) path.dot", svg)) {
      if (!path.getClientRects().length) continue;
      for (const [x, y] of placed(path)) {
        const far = Math.hypot(box.left + (x / 1000) * box.width - event.clientX, box.top + (y / 1000) * box.height - event.clientY);
        if (far < best[0] - (path.dataset.note ? -1 : 0)) best = [far, path, x, y];
      }
    }
    const [, path, x, y] = best;
    if (!path) return;
    const [xTitle, yTitle] = [svg.dataset.xTitle, svg.dataset.yTitle];
    const [xValue, yValue] = [value(svg.dataset.x, x), value(svg.dataset.y, 1000 - y)];
    const lines = [made("b", path.parentElement.dataset.name)];
    if (path.dataset.note) lines.push(made("div", path.dataset.note));
    else {
      if (xValue !== null) lines.push(made("div", `${xTitle} ${xValue}`));
      if (yValue !== null) lines.push(made("div", `${yTitle} ${yValue}`));
    }
    tell(event, lines);
  }
  function tell(event, lines) {
    tip.replaceChildren(...lines);
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
  }
  document.addEventListener("pointermove", look);
  document.addEventListener("pointerdown", look);

  // Keys of runs that came later can be chosen, too.
  function offer() {
    const { looks, look } = data();
    for (const id of ["colour", "line", "panels"]) {
      const select = chosen(id);
      const empty = all('option[value=""]', select);
      const kept = dressed || id === "panels" ? select.value : look[id] ?? "";
      select.replaceChildren(...empty, ...Object.keys(looks).map((key) => made("option", key)));
      select.value = kept;
      if (select.selectedIndex < 0) select.selectedIndex = 0;
    }
  }

  function refresh() { place(); multiply(); map(); hide(); pick(); search(); }
  // What a reader chose, on new content.
  function renew() {
    offer();
    if (dressed) dress();
    refresh();
  }
  const shown = document.querySelector(".metric select");
  if (shown) shown.dataset.drawn = shown.value;
  refresh();
  root.dataset.drawn = String(all(".chart").length);
  return { all, made, order, renew };
})();

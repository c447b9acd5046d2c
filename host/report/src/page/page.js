// Shows values, hides and sorts, gives data away; on a live page asks for what is new.
"use strict";
(() => {
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

  function hide() {
    const groups = new Set([...hidden].flatMap((value) => value.split(" ")));
    all(".s[data-g]").forEach((series) => series.classList.toggle("off", groups.has(series.dataset.g)));
    all(".key button").forEach((button) => button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.groups))));
    root.classList.toggle("show-singles", singles);
    all(".singles").forEach((box) => { box.checked = singles; });
  }

  // Colours and lines by keys that the reader chooses; a live page asks its server for them.
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
      part.classList.toggle("off", !words.every((word) => text.includes(word)));
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
    if (event.target.matches("#look select")) dress();
    if (event.target.id === "panels") refresh();
    if (event.target.matches(".singles")) { singles = event.target.checked; hide(); }
  });
  document.getElementById("search").addEventListener("input", search);

  // The value under the pointer: of the nearest point of any curve that is shown.
  const tip = document.getElementById("tip");
  const points = new WeakMap();
  function placed(path) {
    if (!points.has(path)) {
      const found = [];
      for (const [, x, y] of path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)) found.push([+x, +y]);
      points.set(path, found);
    }
    return points.get(path);
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
    tip.replaceChildren(...lines);
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
  }
  document.addEventListener("pointermove", look);
  document.addEventListener("pointerdown", look);

  function refresh() { multiply(); hide(); pick(); search(); }
  refresh();
  root.dataset.drawn = String(all(".chart").length);
  if (!root.dataset.live) return;

  // News of a live page. Text of runs is text: no cell is ever markup.
  const table = document.querySelector("#runs-now table");
  const shown = (number, places) => (number === null ? "–" : number.toFixed(places));
  const time = (seconds) => {
    if (seconds === null) return "–";
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
    return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
  };
  const bars = "▁▂▃▄▅▆▇█";
  const spark = (curve) => {
    const [low, high] = [Math.min(...curve), Math.max(...curve)];
    return curve.map((value) => bars[high > low ? Math.round((7 * (value - low)) / (high - low)) : 0]).join("");
  };
  function cell(text, value, name) {
    const element = made("td", text, name);
    if (value !== undefined) element.dataset.value = value ?? "";
    return element;
  }
  function line(now) {
    const row = made("tr");
    const head = made("th", now.name);
    head.title = now.folder;
    const share = now.steps ? now.step / now.steps : null;
    row.append(
      head, cell(now.state), cell(now.steps ? `${now.step} / ${now.steps}` : String(now.step), now.step, "n"),
      cell(share === null ? "–" : `${Math.floor(100 * share)} %`, share, "n"), cell(shown(now.loss, 4), now.loss, "n"),
      cell(spark(now.curve), undefined, "spark"), cell(shown(now.held_out, 4), now.held_out, "n"),
      cell(shown(now.against_twin, 4), now.against_twin, "n"), cell(shown(now.tokens_per_s, 0), now.tokens_per_s, "n"),
      cell(time(now.eta_s), now.eta_s, "n"), cell(String(now.alerts), now.alerts, now.alerts ? "n alarm" : "n"), cell(now.last_alert || ""),
    );
    return row;
  }
  function show(runs) {
    const head = table.querySelector("[aria-sort]");
    table.tBodies[0].replaceChildren(...runs.map(line));
    if (head) order(table, [...head.parentElement.children].indexOf(head), head.getAttribute("aria-sort") === "ascending");
    root.dataset.steps = String(runs.reduce((sum, now) => sum + now.step, 0));
  }
  async function renew() {
    const answer = await fetch(`content${location.search}`);
    if (!answer.ok) return;
    const [x, y] = [scrollX, scrollY];
    // The server escapes what is of runs, and the page's policy runs nothing of it.
    document.getElementById("content").innerHTML = await answer.text();
    refresh();
    scrollTo(x, y);
  }
  const connection = document.getElementById("connection");
  const news = new EventSource("events");
  news.addEventListener("open", () => { connection.textContent = "live"; });
  news.addEventListener("error", () => { connection.textContent = "not connected: the server is gone or restarting"; });
  news.addEventListener("runs", (event) => show(JSON.parse(event.data)));
  let pending = false;
  news.addEventListener("charts", async () => {
    if (pending || document.hidden) return;
    pending = true;
    await renew().catch(() => {});
    pending = false;
  });
})();

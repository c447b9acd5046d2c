// News of a live page. Text of runs is text: no cell is ever markup.
"use strict";
if (document.documentElement.dataset.live) (() => {
  const root = document.documentElement;
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
    const element = page.made("td", text, name);
    if (value !== undefined) element.dataset.value = value ?? "";
    return element;
  }
  function line(now) {
    const row = page.made("tr");
    const head = page.made("th", now.name);
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
    if (head) page.order(table, [...head.parentElement.children].indexOf(head), head.getAttribute("aria-sort") === "ascending");
    root.dataset.steps = String(runs.reduce((sum, now) => sum + now.step, 0));
  }
  async function renew() {
    const answer = await fetch("content");
    if (!answer.ok) return;
    const [x, y] = [scrollX, scrollY];
    // The server escapes what is of runs, and the page's policy runs nothing of it.
    document.getElementById("content").innerHTML = await answer.text();
    const select = document.querySelector(".metric select");
    if (select) select.dataset.drawn = select.value;
    page.renew();
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

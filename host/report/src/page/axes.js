// Axes of curves as a reader chooses them: over tokens, logarithmic losses, smoothed. The page holds curves over steps as they are;
// they are placed again from the values that their places mean.
"use strict";
const axes = (() => {
  const ROOM = 0.03, LABELS = 5;
  const parsed = (text) => {
    const [kind, low, high] = text.split(" ");
    return { kind, low: Number(low), high: Number(high) };
  };
  const value = ({ kind, low, high }, place) => (kind === "log" ? low * (high / low) ** (place / 1000) : low + ((high - low) * place) / 1000);
  const place = ({ kind, low, high }, number) => (kind === "log" ? (1000 * Math.log(number / low)) / Math.log(high / low) : (1000 * (number - low)) / (high - low));

  // An axis that holds the numbers with a little room.
  function over(kind, numbers) {
    const of = kind === "log" ? numbers.filter((number) => number > 0).map(Math.log10) : numbers;
    const [low, high] = of.reduce(([low, high], number) => [Math.min(low, number), Math.max(high, number)], [Infinity, -Infinity]);
    if (!(low < high)) return null;
    const ends = [low - ROOM * (high - low), high + ROOM * (high - low)];
    const [first, last] = kind === "log" ? ends.map((end) => 10 ** end) : ends;
    return { kind, low: first, high: last };
  }

  // Round numbers on an axis, about five of them.
  function ticks({ kind, low, high }) {
    if (kind === "log") {
      const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
      const decades = Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index));
      const times = (factors) => decades.flatMap((power) => factors.map((factor) => factor * power)).filter((number) => number >= low && number <= high);
      const powers = times([1]);
      const stride = Math.ceil(powers.length / LABELS);
      const within = last - first <= 2 || powers.length < 3 ? times([1, 2, 5]) : powers.filter((_, index) => index % stride === 0);
      // Within less than a decade, round numbers of a linear axis are more.
      if (within.length > 2) return within.map((number) => [number, String(Number(number.toPrecision(2)))]);
    }
    const rough = (high - low) / LABELS;
    const magnitude = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * magnitude).find((step) => step >= rough);
    const exponent = (number) => Math.floor(Math.log10(number));
    const digits = Math.max(0, -exponent(step));
    const power = (number) => number.toExponential(Math.max(0, exponent(Math.abs(number)) - exponent(step))).replace(/\.?0*e\+?/, "e");
    const found = [];
    for (let index = Math.ceil(low / step); index * step <= high; index++) {
      const number = index * step;
      found.push([number, Math.abs(number) >= 1e6 ? power(number) : number.toFixed(digits)]);
    }
    return found;
  }

  // Exponential means in the order of steps. Of a band the upper edge comes first, the lower one backwards.
  function smoothed(points, weight, isBand) {
    if (!weight) return points;
    const mean = (points) => {
      let past = null;
      return points.map(([x, y]) => {
        past = past === null ? y : weight * past + (1 - weight) * y;
        return [x, past];
      });
    };
    if (!isBand) return mean(points);
    const half = points.length / 2;
    return [...mean(points.slice(0, half)), ...mean(points.slice(half).reverse()).reverse()];
  }

  const known = new WeakMap();
  // A plot as the page was sent: axes, and the points of each path as values.
  function original(plot) {
    if (known.has(plot)) return known.get(plot);
    const svg = plot.querySelector(".area svg");
    const [x, y] = [parsed(svg.dataset.x), parsed(svg.dataset.y)];
    const paths = [...svg.querySelectorAll(".s path")].map((path) => {
      const found = [...path.getAttribute("d").matchAll(/([ML])(-?[\d.]+) (-?[\d.]+)(h0)?/g)];
      return {
        path,
        group: path.parentElement.dataset.g,
        marks: found.map(([, move, , , end]) => [move, end || ""]),
        points: found.map(([, , px, py]) => [value(x, Number(px)), value(y, 1000 - Number(py))]),
      };
    });
    const labels = [".xs", ".ys", ".axes"].map((part) => plot.querySelector(part)).map((part) => [part, [...part.childNodes]]);
    const all = { svg, x, y, paths, labels, titles: [svg.dataset.xTitle, svg.dataset.yTitle], grid: svg.querySelector(".grid").getAttribute("d") };
    known.set(plot, all);
    return all;
  }

  function label(part, side, made, shared) {
    part.replaceChildren(...shared, ...made.map(([at, text]) => {
      const span = document.createElement("span");
      span.style[side] = `${at}%`;
      span.textContent = text;
      return span;
    }));
  }

  // Places the curves of a plot on the chosen axes. `tokens` has the tokens of a step of each configuration.
  function apply(plot, { tokens, log, smooth }) {
    const { svg, x, y, paths, labels, titles, grid } = original(plot);
    const [isLog, byToken] = [log && titles[1] === "nats per token" && y.kind === "linear", tokens !== null && titles[0] === "step"];
    const scaled = paths.map(({ path, group, points }) => {
      const factor = byToken ? tokens[group] ?? NaN : 1;
      return smoothed(points.map(([px, py]) => [px * factor, py]), titles[0] === "step" ? smooth : 0, path.classList.contains("band"));
    });
    const lines = scaled.filter((_, index) => paths[index].path.classList.contains("line")).flat().filter(([px]) => Number.isFinite(px));
    const [newX, newY] = [byToken && over("linear", lines.map(([px]) => px)), isLog && over("log", lines.map(([, py]) => Math.min(py, y.high)))];
    const [atX, atY] = [newX || x, newY || y];
    const round = (number) => Number(number.toFixed(1));
    paths.forEach(({ path, marks }, index) => {
      const points = scaled[index].map(([px, py]) => [place(atX, px), 1000 - place(atY, Math.max(py, atY.kind === "log" ? Number.MIN_VALUE : -Infinity))]);
      const text = points.map(([px, py], at) => (Number.isFinite(px) && Number.isFinite(py) ? `${marks[at][0]}${round(px)} ${round(py)}${marks[at][1]}` : ""));
      path.setAttribute("d", text.join("") + (path.classList.contains("band") ? "Z" : ""));
    });
    const write = ({ kind, low, high }) => `${kind} ${low} ${high}`;
    Object.assign(svg.dataset, { x: write(atX), y: write(atY), xTitle: byToken ? "tokens" : titles[0] });
    svg.querySelectorAll(".rule").forEach((rule) => rule.classList.toggle("off", byToken));
    labels.forEach(([part, own]) => part.replaceChildren(...own));
    if (!newX && !newY) return svg.querySelector(".grid").setAttribute("d", grid);
    const [marksX, marksY] = [newX || x, newY || y].map(ticks);
    const [across, up] = [marksX.map(([number]) => place(atX, number)), marksY.map(([number]) => place(atY, number))];
    svg.querySelector(".grid").setAttribute("d", [...across.map((at) => `M${round(at)} 0V1000`), ...up.map((at) => `M0 ${round(1000 - at)}H1000`)].join(""));
    const [xs, ys, title] = labels.map(([part]) => part);
    label(xs, "left", marksX.map(([, text], index) => [across[index] / 10, text]), []);
    if (newY) label(ys, "top", marksY.map(([, text], index) => [100 - up[index] / 10, text]), [ys.querySelector("b")]);
    else label(ys, "top", [], [...ys.childNodes]);
    if (byToken) title.textContent = `${titles[1]} over tokens`;
  }

  // Every plot of curves over steps, and of losses.
  const plots = () => [...document.querySelectorAll(".plot")].filter((plot) => {
    const svg = plot.querySelector(".area svg");
    return !plot.closest(".panels") && svg.querySelector(".s[data-g]") && (known.has(plot) || svg.dataset.xTitle === "step" || svg.dataset.yTitle === "nats per token");
  });
  return { apply: (choice) => plots().forEach((plot) => apply(plot, choice)) };
})();

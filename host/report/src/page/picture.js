// A chart as it is shown, as the text of an SVG file: with the colours on the screen, and without what is hidden.
"use strict";
const pictureOf = (card) => {
  const NS = "http://www.w3.org/2000/svg";
  const element = (tag, values = {}, text) => {
    const made = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const page = getComputedStyle(card);
  const label = (x, y, anchor, text, more = {}) => element("text", { x, y, "text-anchor": anchor, ...more }, text);
  const plots = [...card.querySelectorAll(".chart:not([hidden]):not(.off) .plot")];
  const areas = plots.map((plot) => plot.querySelector(".area").getBoundingClientRect());
  const names = plots.flatMap((plot) => [...plot.querySelectorAll(".ys span")]);
  const left = 24 + Math.max(16, ...names.map((name) => name.scrollWidth));
  const width = Math.max(...areas.map((area) => area.width));
  const root = element("svg", { xmlns: NS, width: left + width + 24, "font-family": "system-ui, sans-serif", "font-size": 12, fill: page.color });
  root.append(element("rect", { width: "100%", height: "100%", fill: page.backgroundColor }));
  root.append(label(16, 26, "start", card.querySelector("h3").textContent, { "font-size": 15, "font-weight": 600 }));

  // The marks, each with the look that the style sheet gives it.
  const LOOK = ["fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray", "opacity", "image-rendering", "vector-effect"];
  const copy = (mark) => {
    const look = getComputedStyle(mark);
    if (look.display === "none") return null;
    const made = element(mark.localName);
    for (const name of ["d", "x", "y", "width", "height", "href", "preserveAspectRatio", "viewBox"]) {
      if (mark.hasAttribute(name)) made.setAttribute(name, mark.getAttribute(name));
    }
    if (mark.localName !== "g" && mark.localName !== "svg") LOOK.forEach((name) => made.setAttribute(name, look.getPropertyValue(name)));
    made.append(...[...mark.children].map(copy).filter(Boolean));
    return made;
  };
  const share = (span, side) => parseFloat(span.style[side]) / 100;
  let top = 44;
  plots.forEach((plot, index) => {
    const { height } = areas[index];
    const marks = copy(plot.querySelector(".area svg"));
    for (const [name, value] of Object.entries({ x: left, y: top, width, height })) marks.setAttribute(name, value);
    root.append(marks);
    const panel = plot.parentElement.querySelector(".value");
    if (panel) root.append(label(left, top - 5, "start", panel.textContent, { "font-weight": 600 }));
    for (const span of plot.querySelectorAll(".ys span")) root.append(label(left - 8, top + height * share(span, "top") + 4, "end", span.textContent));
    for (const span of plot.querySelectorAll(".xs span")) root.append(label(left + width * share(span, "left"), top + height + 18, "middle", span.textContent));
    for (const span of plot.querySelectorAll(".area > span")) {
      root.append(label(left + width * share(span, "left"), top + height * share(span, "top") + 4, span.className, span.textContent));
    }
    root.append(label(left + width / 2, top + height + 38, "middle", plot.querySelector(".axes").textContent));
    top += height + 56;
  });

  // What colours mean: the scale of heat maps, and a line for each series.
  const bar = card.querySelector(".scale");
  if (bar) {
    const fill = element("linearGradient", { id: "scale" });
    const stops = bar.querySelector("div").style.background.match(/rgb\([^)]*\)/g) || [];
    stops.forEach((colour, index) => fill.append(element("stop", { offset: index / (stops.length - 1), "stop-color": colour })));
    root.append(fill, element("rect", { x: left, y: top, width, height: 10, fill: "url(#scale)" }));
    root.append(label(left - 8, top + 10, "end", bar.querySelector("i").textContent));
    for (const span of bar.querySelectorAll("span")) root.append(label(left + width * share(span, "left"), top + 24, "middle", span.textContent));
    top += 40;
  }
  const seen = new Set();
  for (const series of card.querySelectorAll(".chart:not([hidden]) .s:not(.off):not(.single)")) {
    const mark = series.querySelector(".line, .dot");
    const { name } = series.dataset;
    if (!mark || seen.has(name)) continue;
    seen.add(name);
    const look = getComputedStyle(mark);
    const dash = mark.getAttribute("stroke-dasharray") || "none";
    root.append(element("path", { d: `M${left} ${top - 4}h28`, stroke: look.stroke, "stroke-width": 3, "stroke-dasharray": dash }));
    root.append(label(left + 36, top, "start", name));
    top += 16;
  }
  root.setAttribute("height", top + 8);
  return new XMLSerializer().serializeToString(root);
};

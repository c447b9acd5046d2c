// Heat maps: draws the metric that a reader selects, from the steps of colour that the page holds.
"use strict";
const heatMaps = (() => {
  const NO_VALUE = 255, LAST = 254;
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  function picture(codes, width, colours) {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = codes.length / width;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    codes.forEach((code, index) => {
      if (code === NO_VALUE) return;
      const place = (code / LAST) * (colours.length - 1);
      const first = Math.min(Math.floor(place), colours.length - 2);
      colours[first].forEach((from, channel) => {
        image.data[4 * index + channel] = Math.round(from + (colours[first + 1][channel] - from) * (place - first));
      });
      image.data[4 * index + 3] = 255;
    });
    context.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  // A map for each configuration that has the metric. Frames are the page's own, with names escaped.
  function draw(card, maps, name) {
    const metric = maps.metrics[name];
    const colours = maps.stops.map((stop) => stop.match(/\d+/g).map(Number));
    card.querySelector(".maps").replaceChildren(...Object.entries(metric.cells).map(([group, cells]) => {
      const map = document.createElement("div");
      map.className = "chart map";
      Object.assign(map.dataset, { chart: "maps", g: group });
      const label = document.createElement("b");
      label.className = "value";
      label.textContent = maps.labels[group];
      const frame = document.createElement("template");
      frame.innerHTML = maps.frames[metric.frame];
      const svg = frame.content.querySelector(".area svg");
      svg.setAttribute("aria-label", `${name}, ${maps.labels[group]}`);
      const image = document.createElementNS(svg.namespaceURI, "image");
      const values = { x: 0, y: 0, width: 1000, height: 1000, preserveAspectRatio: "none", href: picture(bytes(cells), metric.width, colours) };
      for (const [key, value] of Object.entries(values)) image.setAttribute(key, value);
      svg.append(image);
      map.append(label, frame.content);
      return map;
    }));
    const scale = card.querySelector(".scale");
    scale.querySelector("i").textContent = metric.title;
    scale.querySelector("div").replaceChildren(...metric.scale.map(([share, text]) => {
      const mark = document.createElement("span");
      mark.style.left = `${100 * share}%`;
      mark.textContent = text;
      return mark;
    }));
  }

  // The layer and the value below a point of a map, given in shares of its width and height.
  function read(map, maps, name, [x, y]) {
    const { cells, width, range: [low, high], log } = maps.metrics[name];
    const codes = bytes(cells[map.dataset.g]);
    const rows = codes.length / width;
    const [row, column] = [Math.min(rows - 1, Math.floor(y * rows)), Math.min(width - 1, Math.floor(x * width))];
    const code = codes[row * width + column];
    const share = code / LAST;
    const value = log ? low * (high / low) ** share : low + (high - low) * share;
    const names = [...map.querySelectorAll(".ys span")];
    return [names[row]?.textContent ?? "", code === NO_VALUE ? "not recorded" : `about ${Number(value.toPrecision(3))}`];
  }

  return { draw, read };
})();

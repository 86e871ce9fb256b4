"use strict";
// Draws one document with its explanations. All text from the document or the model enters as textContent, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const on = (target, type, act) => target.addEventListener(type, act);
  const STEPS = data.steps, SHOWN = 10, PEAKS = 60;

  const make = (tag, textContent = "", className = "") =>
    Object.assign(document.createElement(tag), { textContent, className });
  const number = (x) => {
    if (x === 0) return "0";
    const size = Math.abs(x);
    const digits = size >= 0.001 && size < 1e5 ? String(Number(size.toPrecision(3))) : size.toExponential(1);
    return (x < 0 ? "−" : "+") + digits;
  };
  // As in sentences.py: never 0 % for something, never 100 % for less than all.
  const percent = (share) => {
    if (share === 0 || share === 1) return 100 * share + " %";
    if (share < 0.0005 || share >= 0.9995) return (share < 0.5 ? "< 0.1" : "> 99.9") + " %";
    return (100 * share).toFixed(share < 0.0995 || share >= 0.995 ? 1 : 0) + " %";
  };
  const visible = (text) => (/^[\p{C}\p{Z}\p{M}]*$/u.test(text) ? [...text].map((c) => "U+" + c.codePointAt(0).toString(16).toUpperCase()).join(" ") : text);
  const count = (n) => n.toLocaleString("en");
  const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");

  // What is shown now: which explanation, words or tokens, how faint words are treated, which word and which peak.
  const view = { explanation: 0, level: "word", gamma: data.gamma, merge: true, word: null, peak: -1 };
  const current = () => data.explanations[view.explanation];
  // Scores of long documents can be tiny: all are shown in units of one power of ten, which the scale names.
  const value = (score) => number(score / 10 ** power).replace("+", current().signed ? "+" : "");
  const times = () => (power ? " × 10" + [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("") : "");
  const units = () => data.units[view.level];
  const word = (i) => data.blocks[units().segment[i]].text.slice(units().start[i], units().end[i]);
  const scores = () => current().scores[view.level];
  let spans = [], keys = [], levels = [], ranks = [], peaks = [], total = 0, power = 0, tipped = null;

  // The document: one paragraph a line (so that each finds its own direction), one span for every part of a unit.
  function drawDocument() {
    const { start, end, segment } = units();
    const root = $("document");
    spans = start.map(() => []);
    keys = start.map((_, i) => word(i).toLowerCase());
    root.replaceChildren();
    data.blocks.forEach((block, number) => {
      const section = make("section");
      if (data.blocks.length > 1) section.append(make("h3", block.name));
      const body = make("div", "", "text");
      let paragraph = null;
      const put = (from, to, unit) => {
        while (from < to) {
          if (!paragraph) {
            paragraph = make("p");
            paragraph.dir = "auto";
            body.append(paragraph);
          }
          const newline = block.text.indexOf("\n", from);
          const stop = newline >= 0 && newline < to ? newline + 1 : to;
          const part = block.text.slice(from, stop);
          if (unit >= 0) {
            const span = make("span", part);
            span.unit = unit;
            spans[unit].push(span);
            paragraph.append(span);
          } else if (from >= block.read) {
            paragraph.append(make("i", part, "unread"));
          } else {
            paragraph.append(part);
          }
          if (stop === newline + 1) paragraph = null;
          from = stop;
        }
      };
      let at = 0;
      for (let i = 0; i < start.length; i++) {
        if (segment[i] !== number) continue;
        put(at, start[i], -1);
        put(start[i], end[i], i);
        at = end[i];
      }
      put(at, block.read, -1);
      put(Math.max(at, block.read), block.text.length, -1);
      section.append(body);
      root.append(section);
    });
  }

  // The same scale as colours.py: clipped where all but 0.5 % of the scores lie, then a power.
  function reference(values) {
    const sorted = values.map(Math.abs).sort((a, b) => a - b);
    if (!sorted.length) return 0;
    return sorted[sorted.length - 1 - Math.floor(data.clipped * sorted.length)] || sorted[sorted.length - 1];
  }
  const hue = (score) => (!current().signed ? "plain" : score < 0 ? "against" : "for");

  function colour() {
    const values = scores(), full = reference(values);
    power = full > 0 && (full < 0.01 || full >= 1000) ? Math.floor(Math.log10(full)) : 0;
    levels = values.map((s) => (full === 0 ? 0 : Math.floor(STEPS * (Math.min(Math.abs(s), full) / full) ** view.gamma + 0.5)));
    total = values.reduce((sum, s) => sum + Math.abs(s), 0);
    const order = values.map((_, i) => i).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]) || a - b);
    order.forEach((unit, place) => (ranks[unit] = place + 1));
    peaks = order.slice(0, Math.min(PEAKS, Math.ceil(order.length / 4))).filter((i) => values[i] !== 0).sort((a, b) => a - b);
    paint();
    drawScale(full);
    drawTops();
    requestAnimationFrame(drawMap);
  }

  function paint() {
    const values = scores();
    for (let i = 0; i < spans.length; i++) {
      let name = levels[i] ? hue(values[i]) + "-" + levels[i] : "";
      if (view.word !== null && keys[i] === view.word) name += " same";
      if (i === view.peak) name += " now";
      for (const span of spans[i]) if (span.className !== name) span.className = name;
    }
  }

  function drawScale(full) {
    const signed = current().signed, ramp = make("div", "", "ramp"), ticks = make("div", "", "ticks");
    for (let step = STEPS; step > 0; step--) ramp.append(make("i", "", (signed ? "for-" : "plain-") + step));
    ramp.append(make("i"));
    for (let step = 1; signed && step <= STEPS; step++) ramp.append(make("i", "", "against-" + step));
    const at = (share) => full * share ** (1 / view.gamma);
    const places = signed ? [[0, 1], [25, 0.5], [50, 0], [75, -0.5], [100, -1]] : [[0, 1], [50, 0.5], [100, 0]];
    for (const [left, share] of places) {
      const tick = make("span", value(Math.sign(share) * Number(at(Math.abs(share)).toPrecision(2))));
      tick.style.left = left + "%";
      ticks.append(tick);
    }
    const ends = make("div", "", "ends");
    ends.append(make("span", signed ? "for" : "matters"), make("span", times()), make("span", signed ? "against" : "does not"));
    $("scale").replaceChildren(ends, ramp, ticks);
    $("scale").setAttribute("aria-label", signed
      ? `Colour scale: blue words speak for the target, orange words against it; full colour from ${value(full)}${times()}.`
      : `Colour scale: the stronger the violet, the more the word matters; full colour from ${value(full)}${times()}.`);
  }

  // Instances of one word added up (`at` is the strongest), or every instance by itself.
  function rows() {
    const values = scores(), found = new Map();
    values.forEach((score, i) => {
      const name = view.merge ? keys[i] : i, row = found.get(name);
      if (!row) return found.set(name, { key: keys[i], text: word(i), score, count: 1, at: i });
      row.score += score;
      row.count += 1;
      if (Math.abs(score) > Math.abs(values[row.at])) row.at = i;
    });
    return [...found.values()];
  }

  function drawTops() {
    const all = rows(), label = current().label;
    $("top-h").textContent = `Strongest ${view.level}s${times()}`;
    const sides = current().signed ? [["for", `For ${label}`, 1], ["against", `Against ${label}`, -1]] : [["plain", `Matter most for ${label}`, 1]];
    const largest = all.reduce((most, row) => Math.max(most, Math.abs(row.score)), 0);
    $("tops").replaceChildren(...sides.map(([name, title, sign]) => {
      const table = make("table"), caption = make("caption"), body = make("tbody");
      caption.append(make("i", "", name + "-" + STEPS), title);
      const best = all.filter((row) => row.score * sign > 0).sort((a, b) => Math.abs(b.score) - Math.abs(a.score) || a.at - b.at);
      for (const row of best.slice(0, SHOWN)) {
        const line = make("tr"), cell = make("td"), button = make("button", visible(row.text));
        button.type = "button";
        button.title = button.textContent;
        button.setAttribute("aria-pressed", String(view.word === row.key));
        on(button, "click", () => choose(row.key, row.at));
        if (row.count > 1) button.append(make("small", "× " + count(row.count)));
        const bar = make("i", "", name + "-" + STEPS);
        bar.style.width = (100 * Math.abs(row.score)) / largest + "%";
        cell.append(button, bar);
        line.append(cell, make("td", value(row.score)));
        body.append(line);
      }
      if (!best.length) {
        const line = make("tr"), cell = make("td", "none", "quiet");
        cell.colSpan = 2;
        line.append(cell);
        body.append(line);
      }
      table.append(caption, body);
      return table;
    }));
  }

  // A strip beside the scroll bar: where in the document the colour is.
  function drawMap() {
    const canvas = $("map"), height = innerHeight, ratio = devicePixelRatio;
    const whole = document.documentElement.scrollHeight, style = getComputedStyle(document.documentElement);
    canvas.width = 18 * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const values = scores(), marks = [];
    for (let i = 0; i < spans.length; i++) {
      if (levels[i] > 2) marks.push([levels[i], hue(values[i]), ((spans[i][0].getBoundingClientRect().top + scrollY) / whole) * height]);
    }
    marks.sort((a, b) => a[0] - b[0]);
    for (const [level, name, y] of marks) {
      pen.fillStyle = style.getPropertyValue(`--${name}-${level}`);
      const half = level / STEPS;
      const x = name === "plain" ? 2 : name === "for" ? 9 - 8 * half : 9;
      pen.fillRect(x, y, (name === "plain" ? 14 : 8) * half, 2);
    }
  }

  function drawPanel() {
    const exp = current(), { prediction } = exp;
    $("said").replaceChildren(prediction.label, make("small", percent(prediction.probability)));
    $("classes").replaceChildren(...(prediction.classes.length > 1 ? prediction.classes : []).map(([label, share]) => {
      const line = make("li", "", label === prediction.label ? "said" : ""), bar = make("div", "", "bar"), fill = make("i");
      fill.style.width = 100 * share + "%";
      bar.append(fill);
      const name = make("span", label);
      name.title = label;
      line.append(name, bar, make("span", percent(share)));
      return line;
    }));
    $("summary").textContent = exp.summary;
    $("target").textContent = `Explained here: ${exp.target}.`;
    $("notices").replaceChildren(...exp.notices.map((sentence) => make("p", sentence, "notice")));
    $("trust").hidden = !exp.checks.length;
    $("checks").replaceChildren(...exp.checks.map((sentence) => make("li", sentence)));
    $("facts").replaceChildren(...exp.facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  }

  // Moving about: peaks in document order, or the instances of the chosen word.
  const stops = () => (view.word === null ? peaks : keys.flatMap((key, i) => (key === view.word ? [i] : [])));

  function go(unit) {
    view.peak = unit;
    paint();
    spans[unit][0].scrollIntoView({ block: "center" });
    showTip(spans[unit][0]);
    announce();
  }

  function step(direction) {
    const list = stops();
    if (!list.length) return;
    let place = list.indexOf(view.peak);
    if (place >= 0) place += direction;
    else place = direction > 0 ? list.findIndex((i) => i > view.peak) : list.findLastIndex((i) => i < view.peak);
    if (place < 0) place = direction > 0 ? 0 : list.length - 1;
    go(list[(place + list.length) % list.length]);
  }

  function choose(key, at) {
    if (view.word === key && view.peak === at) return clear();
    view.word = key;
    drawTops();
    go(at);
  }

  function announce() {
    const list = stops(), place = list.indexOf(view.peak), values = scores();
    $("clear").hidden = view.word === null && view.peak < 0;
    if (view.word !== null) {
      const sum = list.reduce((all, i) => all + values[i], 0);
      $("status").textContent = `“${visible(word(list[0]))}” ${place + 1} of ${count(list.length)}, together ${value(sum)}${times()}`;
    } else if (view.peak >= 0) {
      $("status").textContent = `Peak ${place + 1} of ${list.length}: “${visible(word(view.peak))}” ${value(values[view.peak])}${times()}`;
    } else {
      $("status").textContent = `${plural(peaks.length, "peak")} in ${plural(spans.length, view.level)}. Click one to see all its instances.`;
    }
  }

  function clear() {
    view.word = null;
    view.peak = -1;
    hideTip();
    paint();
    drawTops();
    announce();
  }

  function showTip(span) {
    const tip = $("tip"), unit = span.unit, score = scores()[unit];
    const direction = current().signed && score !== 0 ? ` ${hue(score)} ${current().label}` : "";
    tip.replaceChildren(
      make("b", visible(word(unit))),
      make("div", value(score) + times() + direction),
      make("div", `rank ${count(ranks[unit])} of ${count(spans.length)}` + (total > 0 ? `, ${percent(Math.abs(score) / total)} of the total` : "")),
      make("div", `${view.level} ${count(unit + 1)}, token position ${units().position[unit]}`),
    );
    tip.hidden = false;
    tipped = span;
    placeTip();
  }

  function placeTip() {
    const tip = $("tip"), box = tipped && tipped.getClientRects()[0];
    if (!box) return;
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = Math.max(8, Math.min(box.left + box.width / 2 - width / 2, innerWidth - width - 28)) + "px";
    tip.style.top = (box.top - height - 8 > 60 ? box.top - height - 8 : box.bottom + 8) + "px";
  }

  function hideTip() {
    $("tip").hidden = true;
    tipped = null;
  }

  function radios(root, name, entries, chosen, change) {
    root.replaceChildren(...entries.map(([value, text, hint]) => {
      const label = make("label"), input = make("input");
      Object.assign(input, { type: "radio", name, value, checked: value === chosen });
      on(input, "change", () => change(value));
      label.append(input, make("span", text));
      if (hint) label.title = hint;
      return label;
    }));
  }

  function recolour() {
    hideTip();
    colour();
    announce();
  }

  function redraw() {
    drawDocument();
    view.word = null;
    view.peak = -1;
    recolour();
  }

  $("title").textContent = data.title;
  radios($("methods"), "method", data.explanations.map((exp, i) => [i, exp.name, exp.target]), 0, (i) => {
    view.explanation = i;
    drawPanel();
    recolour();
  });
  radios($("levels"), "level", [["word", "words"], ["token", "tokens"]], "word", (level) => {
    view.level = level;
    redraw();
  });
  // 0 … 100 stands for an exponent from 2 (only the strongest) to 0.28 (everything), the default in between.
  const exponent = (place) => 2 * 0.14 ** (place / 100);
  $("gamma").value = 100 * Math.log(data.gamma / 2) / Math.log(0.14);
  on($("gamma"), "input", () => {
    view.gamma = exponent(Number($("gamma").value));
    colour();
  });
  on($("merge"), "change", () => {
    view.merge = $("merge").checked;
    drawTops();
  });
  on($("next"), "click", () => step(1));
  on($("previous"), "click", () => step(-1));
  on($("clear"), "click", clear);
  const root = $("document");
  on(root, "mouseover", (event) => (event.target.unit !== undefined ? showTip(event.target) : hideTip()));
  on(root, "mouseleave", hideTip);
  on(root, "click", (event) => {
    const unit = event.target.unit;
    if (unit !== undefined && String(getSelection()) === "") choose(keys[unit], unit);
  });
  on(window, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });
  on($("map"), "click", (event) => scrollTo(0, (event.clientY / innerHeight) * document.documentElement.scrollHeight - innerHeight / 2));
  // The jump to a peak is itself a scroll: its tip moves along, any other one goes.
  on(window, "scroll", () => (tipped && tipped.unit === view.peak ? placeTip() : hideTip()));
  on(window, "resize", drawMap);
  on(matchMedia("(prefers-color-scheme: dark)"), "change", drawMap);

  drawPanel();
  redraw();
})();

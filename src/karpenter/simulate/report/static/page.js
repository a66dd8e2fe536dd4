"use strict";
(() => {
  // Everything in the data is text or numbers of a run; it reaches the page as text nodes only.
  const report = JSON.parse(document.getElementById("data").textContent);
  const variants = report.variants;
  const single = variants.length === 1;
  const start = Date.parse(report.scenario.start) / 1000;
  const plots = [];
  let chosen = 0;
  let cursor = null; // seconds since the start

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const svg = (tag, attributes = {}, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const series = (number) => color(`--c${number % 8}`);

  const grouped = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const length = (seconds) => {
    if (seconds < 60) return `${+seconds.toPrecision(3)} s`;
    const whole = Math.round(seconds);
    for (const [large, small, a, b] of [[86400, 3600, "d", "h"], [3600, 60, "h", "min"], [60, 1, "min", "s"]]) {
      if (whole >= large) {
        const rest = Math.floor((whole % large) / small);
        return `${Math.floor(whole / large)} ${a}${rest ? ` ${rest} ${b}` : ""}`;
      }
    }
    return `${whole} s`;
  };
  const written = (value, unit) => {
    if (value === null || value === undefined) return "–";
    if (unit === "dollars") return `$${grouped(value, 2)}`;
    if (unit === "share") return `${grouped(value * 100, 1)} %`;
    if (unit === "seconds") return length(value);
    return Number.isInteger(value) ? grouped(value, 0) : grouped(value, 1);
  };
  const clock = (seconds) => {
    const moment = new Date((start + seconds) * 1000).toISOString();
    const days = report.scenario.until > 86400 ? `${moment.slice(5, 10)} ` : "";
    return days + moment.slice(11, 19);
  };
  const tickText = (moment, step) => {
    const text = new Date(moment * 1000).toISOString();
    return step >= 86400 ? text.slice(5, 10) : step < 60 ? text.slice(11, 19) : moment % 86400 === 0 && report.scenario.until > 86400 ? text.slice(5, 10) : text.slice(11, 16);
  };
  const part = (object, path) => path.split(".").reduce((found, key) => (found ? found[key] : undefined), object);
  const scrolled = (table) => make("div", { class: "scroll", tabindex: "0" }, table);
  const row = (tag, cells) => make("tr", {}, ...cells.map(([text, kind]) => make(tag, kind ? { class: kind } : {}, text)));

  // --- Head

  const broken = variants.reduce(
    (sum, each) => sum + each.expectations.filter((e) => !e.held).length +
      each.invariants.reduce((n, i) => n + i.broken.length, 0), 0);
  const verdict = !report.scenario.complete ? ["cut short", "cut"]
    : broken ? [broken === 1 ? "1 promise broken" : `${broken} promises broken`, "broken"] : ["everything held", "held"];

  const head = () => {
    const scenario = report.scenario;
    const themes = make("button", { type: "button", onclick: () => {
      const root = document.documentElement;
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      drawAll();
    } }, "light / dark");
    const facts = [`${length(scenario.until)} from ${scenario.start.slice(0, 16).replace("T", " ")} UTC`, `seed ${scenario.seed}`,
      `karpenter ${report.version}`, `scenario ${scenario.sha256.slice(0, 12)}`, `demand ${scenario.demandSha256.slice(0, 12)}`];
    return make("header", {}, make("div", {},
      make("div", { class: "top" }, make("h1", {}, scenario.name), themes),
      scenario.description ? make("p", { class: "lead" }, scenario.description) : null,
      make("span", { class: `verdict ${verdict[1]}` }, verdict[0]),
      make("ul", { class: "facts" }, ...facts.map((fact) => make("li", {}, fact)))));
  };

  const CARDS = [["cost.dollarHours", "cost", "dollars"], ["cost.lowerBound.gap", "above the lower bound", "share"],
    ["pods.pendingSeconds.p95", "pending, p95", "seconds"], ["disruption.evictions", "evictions", ""],
    ["nodes.most", "most nodes at once", ""], ["utilisation.cpu.share", "of cpu requested", "share"]];

  const cards = () => make("div", { class: "cards" }, ...CARDS.map(([path, what, unit]) => make("div", { class: "card" },
    make("div", { class: "figure" }, written(part(variants[0], path), unit)), make("div", { class: "what" }, what))));

  const LOWER = /^(cost\.(?!lower)|pods\.(pending|never)|disruption|decisions|nodes\.)/;
  const comparison = () => {
    const table = make("table", { class: "wide-table" },
      make("thead", {}, row("th", [["", ""], ...variants.map((each) => [each.name, "n"])])));
    const body = make("tbody");
    for (const metric of report.comparison.metrics) {
      if (metric.values.every((value) => value.value === null)) continue;
      const cells = metric.values.map((value, number) => {
        const cell = make("td", { class: "n" }, written(value.value, metric.unit));
        if (number && value.difference && (value.ratio === null || Math.abs(value.ratio - 1) >= 5e-4)) {
          const share = metric.unit === "share" ? `${grouped(value.difference * 100, 1)} points`
            : value.ratio === null ? written(value.difference, metric.unit)
            : value.ratio >= 10 ? written(value.difference, metric.unit) : `${grouped((value.ratio - 1) * 100, 1)} %`;
          const judged = LOWER.test(metric.path) ? (value.difference < 0 ? " better" : " worse") : "";
          cell.append(make("span", { class: `diff${judged}` }, (value.difference > 0 ? "+" : "") + share));
        }
        return cell;
      });
      body.append(make("tr", {}, make("td", {}, metric.title), ...cells));
    }
    table.append(body);
    return make("section", {}, make("h2", {}, "Variants side by side"),
      make("p", { class: "lead" }, `Differences are from ${report.comparison.baseline}. No variant beats these in both cost and evictions: ${report.comparison.frontier.join(", ")}.`),
      make("div", { class: "scroll whole", tabindex: "0" }, table), make("div", { class: "plots" }, frontier(), difference()));
  };

  const frontier = () => {
    const points = variants.map((each) => [part(each, "cost.dollarHours"), part(each, "disruption.evictions")]);
    const [width, height, left, bottom] = [560, 260, 60, 40];
    const range = (values) => {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const pad = (high - low || Math.abs(high) || 1) * 0.15;
      return [Math.max(0, low - pad), high + pad];
    };
    const [x0, x1] = range(points.map((p) => p[0]));
    const [y0, y1] = range(points.map((p) => p[1]));
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - 20);
    const y = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - bottom - 20);
    const best = new Set(report.comparison.frontier);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "cost and evictions of each variant" },
      svg("line", { class: "axis", x1: left, y1: height - bottom, x2: width - 10, y2: height - bottom }),
      svg("line", { class: "axis", x1: left, y1: 10, x2: left, y2: height - bottom }));
    const label = (px, py, text, anchor, kind) => {
      const element = svg("text", { x: px, y: py, "text-anchor": anchor, class: kind });
      element.textContent = text;
      drawing.append(element);
    };
    label(left, height - bottom + 18, written(x0, "dollars"), "start", "");
    label(width - 10, height - bottom + 18, written(x1, "dollars"), "end", "");
    label((left + width) / 2, height - 4, "cost", "middle", "");
    label(left - 6, height - bottom, written(Math.round(y0), ""), "end", "");
    label(left - 6, 20, written(Math.round(y1), ""), "end", "");
    label(left + 8, 16, "evictions", "start", "");
    points.map((p, n) => [n, ...p]).filter(([n]) => best.has(variants[n].name)).sort((a, b) => a[1] - b[1])
      .forEach(([, px, py], position, all) => {
        if (position) drawing.append(svg("line", { class: "axis", "stroke-width": 2, x1: x(all[position - 1][1]), y1: y(all[position - 1][2]), x2: x(px), y2: y(py) }));
      });
    points.forEach(([px, py], number) => {
      drawing.append(svg("circle", { class: `s${number % 8}`, cx: x(px), cy: y(py), r: best.has(variants[number].name) ? 7 : 4 }));
      const isRight = x(px) > width * 0.7;
      label(x(px) + (isRight ? -12 : 12), y(py) + 4 + (number % 2 ? 12 : 0), variants[number].name, isRight ? "end" : "start", "name");
    });
    return make("div", { class: "plot" }, make("h3", {}, "Cost and evictions"),
      make("p", { class: "note" }, "Large points: no other variant is as good in both and better in one."), drawing,
      numbers(() => [["variant", "cost", "evictions"], variants.map((each, n) => [each.name, written(points[n][0], "dollars"), written(points[n][1], "")])]));
  };

  // --- Plots

  const numbers = (read) => {
    const details = make("details", {}, make("summary", {}, "the numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const [names, rows] = read();
      details.append(scrolled(make("table", {}, make("thead", {}, row("th", names.map((name, n) => [name, n ? "n" : ""]))),
        make("tbody", {}, ...rows.map((cells) => row("td", cells.map((cell, n) => [cell, n ? "n" : ""])))))));
    });
    return details;
  };

  const marker = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = color("--c7");
    ctx.setLineDash([2, 4]);
    for (const mark of variants[chosen].marks) {
      const px = u.valToPos(start + mark.at, "x", true);
      if (px < bbox.left || px > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(px, bbox.top);
      ctx.lineTo(px, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const KEY = "time";
  let isMoving = false;
  const moveTo = (seconds, source) => {
    if (isMoving) return;
    isMoving = true;
    cursor = seconds;
    for (const plot of plots) {
      if (!plot.u || plot.u === source) continue;
      plot.u.setCursor({ left: plot.u.valToPos(start + seconds, "x"), top: plot.u.bbox.height / devicePixelRatio / 2 }, false, false);
    }
    for (const line of document.querySelectorAll("svg .cursor")) {
      const px = lifeX(seconds);
      line.setAttribute("x1", px);
      line.setAttribute("x2", px);
    }
    const now = document.getElementById("now");
    if (now) now.textContent = clock(seconds);
    isMoving = false;
  };

  class Plot {
    // lines: [{name, values, color, fill, dash, unit}], all on one grid of seconds
    constructor(title, note, times, lines, isWide) {
      Object.assign(this, { title, times, lines: lines.filter((line) => line.values), u: null });
      this.box = make("div", { tabindex: "0", role: "group", "aria-label": `${title}: left and right move the cursor, Escape shows everything` });
      this.element = make("div", { class: isWide ? "plot wide" : "plot" }, make("h3", {}, title),
        make("p", { class: "note" }, note), this.box,
        numbers(() => [["time", ...this.lines.map((line) => line.name)],
          times.map((time, n) => [clock(time), ...this.lines.map((line) => written(line.values[n], line.unit))])]));
      this.box.addEventListener("keydown", (event) => this.pressed(event));
      plots.push(this);
    }

    draw() {
      if (this.u) this.u.destroy();
      this.u = null;
      const width = this.box.clientWidth;
      if (!width) return;
      const axis = { stroke: color("--soft"), grid: { stroke: color("--faint"), width: 1 }, ticks: { stroke: color("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
      const short = (value) => (Math.abs(value) >= 1e9 ? `${+(value / 1e9).toFixed(1)}G` : Math.abs(value) >= 1e4 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(2)}`);
      const unit = this.lines[0]?.unit;
      const label = (value) => (unit === "dollars" ? `$${short(value)}` : unit === "share" ? `${Math.round(value * 100)} %` : short(value));
      const options = {
        width, height: 210,
        tzDate: (moment) => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
        scales: { x: { time: true }, y: { range: (u, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
        axes: [{ ...axis, space: 64, values: (u, ticks, number, space, step) => ticks.map((tick) => tickText(tick, step)) }, { ...axis, size: 56, values: (u, ticks) => ticks.map(label) }],
        cursor: { sync: { key: KEY, setSeries: false }, drag: { x: true, y: false }, points: { size: 6 } },
        legend: { live: true },
        series: [{ label: "time", value: (u, moment) => (moment === null ? "–" : clock(moment - start)) },
          ...this.lines.map((line) => ({ label: line.name, stroke: line.color(), width: line.dash ? 1.5 : 2, dash: line.dash, points: { show: false },
            fill: line.fill ? `${line.color()}22` : undefined, value: (u, value) => written(value, line.unit) }))],
        hooks: {
          draw: [marker],
          setCursor: [(u) => { if (u.cursor.left >= 0 && !isMoving) moveTo(u.posToVal(u.cursor.left, "x") - start, u); }],
          setScale: [(u, key) => { if (key === "x") this.zoomed(u); }],
        },
      };
      this.u = new uPlot(options, [this.times.map((time) => start + time), ...this.lines.map((line) => line.values)], this.box);
    }

    zoomed(u) {
      if (Plot.isZooming || !this.u) return;
      Plot.isZooming = true;
      for (const plot of plots) if (plot.u && plot.u !== u) plot.u.setScale("x", { min: u.scales.x.min, max: u.scales.x.max });
      Plot.isZooming = false;
    }

    pressed(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20 }[event.key];
      if (step) {
        const here = cursor === null ? this.times[0] : cursor;
        let number = this.times.findIndex((time) => time >= here - 1e-6);
        if (number < 0) number = this.times.length - 1;
        number = Math.min(this.times.length - 1, Math.max(0, number + step));
        moveTo(this.times[number], null);
        event.preventDefault();
      } else if (event.key === "Escape") {
        showAll();
      }
    }
  }
  Plot.isZooming = false;

  const showAll = () => {
    for (const plot of plots) if (plot.u) plot.u.setScale("x", { min: start + plot.times[0], max: start + plot.times.at(-1) });
  };
  const drawAll = () => plots.forEach((plot) => plot.draw());
  const line = (name, values, number, more = {}) => ({ name, values, color: () => series(number), unit: "", ...more });
  const summed = (values) => { let sum = 0; return values.map((value) => (sum += value)); };

  const difference = () => {
    const times = variants[0].series.times;
    const hours = (each) => summed(each.series.dollarsHourly.map((value, n) => (value * ((times[n + 1] ?? report.scenario.until) - times[n])) / 3600));
    const base = hours(variants[0]);
    const lines = variants.slice(1).map((each, number) => line(each.name, hours(each).map((value, n) => (n < base.length ? value - base[n] : null)), number + 1, { unit: "dollars" }));
    return new Plot("Cost so far, difference", `dollars more than ${variants[0].name}`, times, lines, false).element;
  };

  const overlays = () => {
    const times = variants[0].series.times;
    const of = (read, unit = "") => variants.map((each, number) => line(each.name, read(each.series), number, { unit }));
    return make("section", {}, make("h2", {}, "All variants on one scale"), make("div", { class: "plots" },
      new Plot("Cost", "dollars per hour", times, of((s) => s.dollarsHourly, "dollars"), false).element,
      new Plot("Nodes", "machines of the cloud", times, of((s) => s.nodes), false).element,
      new Plot("Pods without a place or not ready", "the most in each interval", times, of((s) => s.pending), false).element,
      new Plot("Evictions so far", "pods that ran and had to go", times, of((s) => summed(s.evictions)), false).element));
  };

  const ratio = (a, b) => a.map((value, n) => (b[n] ? value / b[n] : null));
  const own = (variant) => {
    const s = variant.series;
    const kinds = [...Object.entries(s.nodesByPool).map(([name, values]) => [name, values]), ...Object.entries(s.nodesByCapacityType).map(([name, values]) => [name, values])];
    return [
      new Plot("Cost", "dollars per hour; no plan that serves the same pods can cost less than the lower bound", s.times,
        [line("cost", s.dollarsHourly, 0, { unit: "dollars", fill: true }), line("lower bound", s.boundHourly, 2, { unit: "dollars", dash: [5, 4] })], false),
      new Plot("Nodes", "all, and by pool and capacity type", s.times,
        [line("nodes", s.nodes, 0, { fill: true }), ...kinds.slice(0, 7).map(([name, values], number) => line(name, values, number + 1, { dash: [5, 4] }))], false),
      new Plot("Pods", "running; and those without a place or not ready", s.times,
        [line("running", s.running, 2, { fill: true }), line("pending", s.pending, 1)], false),
      new Plot("Evictions", "in each interval", s.times, [line("evictions", s.evictions, 6, { fill: true })], false),
      new Plot("Utilisation", "requests of bound pods over allocatable of Ready nodes", s.times,
        [line("cpu", ratio(s.requested.cpu, s.allocatable.cpu), 0, { unit: "share" }), line("memory", ratio(s.requested.memory, s.allocatable.memory), 3, { unit: "share" })], false),
      new Plot("Price of a node", "dollars per hour, on average of all machines", s.times, [line("price", ratio(s.dollarsHourly, s.nodes), 4, { unit: "dollars" })], false),
    ];
  };

  // --- Lifelines

  const LIFE = { width: 1120, left: 6, right: 6, top: 6 };
  const lifeX = (seconds) => LIFE.left + (Math.min(Math.max(seconds, 0), report.scenario.until) / report.scenario.until) * (LIFE.width - LIFE.left - LIFE.right);

  const lifelines = (variant) => {
    const lives = variant.lifelines;
    const reasons = [...new Set(lives.map((life) => life.reason))].sort();
    const rows = []; // when the last line of each row ends
    const placed = [...lives].sort((a, b) => a.began - b.began).map((life) => {
      const ends = life.ended ?? variant.ended;
      let number = rows.findIndex((until) => until <= life.began);
      if (number < 0) number = rows.push(0) - 1;
      rows[number] = ends;
      return [life, number, ends];
    });
    const pitch = rows.length > 120 ? 3 : rows.length > 40 ? 5 : 9;
    const height = Math.max(40, LIFE.top * 2 + rows.length * pitch + 18);
    const drawing = svg("svg", { viewBox: `0 0 ${LIFE.width} ${height}`, role: "img", "aria-label": "the life of each node" });
    for (const [life, number, ends] of placed) {
      const title = svg("title");
      title.textContent = `${life.name}: ${life.type}, ${life.capacityType}, ${life.zone}; ${clock(life.began)} for ${length(ends - life.began)}; ${life.reason || "still there"}`;
      drawing.append(svg("line", { class: `s${reasons.indexOf(life.reason) % 8}`, "stroke-width": Math.max(2, pitch - 3),
        x1: lifeX(life.began), x2: Math.max(lifeX(ends), lifeX(life.began) + 1), y1: LIFE.top + number * pitch + pitch / 2, y2: LIFE.top + number * pitch + pitch / 2 }, title));
    }
    for (let tick = 0; tick <= 6; tick += 1) {
      const seconds = (report.scenario.until * tick) / 6;
      const text = svg("text", { x: lifeX(seconds), y: height - 4, "text-anchor": tick === 0 ? "start" : tick === 6 ? "end" : "middle" });
      text.textContent = clock(seconds).slice(0, -3);
      drawing.append(text);
    }
    drawing.append(svg("line", { class: "cursor", x1: -5, x2: -5, y1: 0, y2: height - 16 }));
    drawing.addEventListener("mousemove", (event) => {
      const box = drawing.getBoundingClientRect();
      const px = ((event.clientX - box.left) / box.width) * LIFE.width;
      moveTo(Math.min(report.scenario.until, Math.max(0, ((px - LIFE.left) / (LIFE.width - LIFE.left - LIFE.right)) * report.scenario.until)), null);
    });
    const counts = (reason) => variant.nodes.byReason[reason] ?? lives.filter((life) => life.reason === reason).length;
    return make("div", { class: "plot wide" }, make("h3", {}, "Lifelines of nodes"),
      make("p", { class: "note" }, variant.lifelinesLeftOut ? `the ${lives.length} longest; ${variant.lifelinesLeftOut} shorter ones are left out` : "one line each, coloured by how the node ended"),
      make("ul", { class: "legend" }, ...reasons.map((reason, number) => make("li", {}, make("span", { class: `k${number % 8}` }), `${reason || "still there"}: ${counts(reason)}`))),
      drawing,
      numbers(() => [["node", "type", "capacity", "zone", "began", "lived", "ended", "cost"],
        placed.map(([life, , ends]) => [life.name, life.type, life.capacityType, life.zone, clock(life.began), length(ends - life.began), life.reason || "still there", written(life.dollarHours, "dollars")])]));
  };

  // --- Lists

  const MOST_ROWS = 400;
  const decisions = (variant) => {
    const body = make("tbody");
    const count = make("span", { class: "lead", "aria-live": "polite" });
    const known = variant.timeline.map((each) => [each, [clock(each.at), each.kind, each.outcome, each.reason, each.method, each.sentence].join(" ").toLowerCase()]);
    const fill = (text) => {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const found = known.filter(([, all]) => words.every((word) => all.includes(word)));
      body.replaceChildren(...found.slice(0, MOST_ROWS).map(([each]) => {
        const line = make("tr", {});
        const go = make("button", { type: "button", onclick: () => {
          moveTo(each.at, null);
          body.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
          line.classList.add("chosen");
        } }, clock(each.at));
        line.append(make("td", {}, go), make("td", {}, each.kind), make("td", {}, each.reason), make("td", {}, each.method),
          make("td", { class: "text" }, each.sentence), make("td", { class: "n" }, each.savingsHourly === null ? "" : `$${grouped(each.savingsHourly, 4)}/h`));
        return line;
      }));
      count.textContent = found.length > MOST_ROWS ? `${MOST_ROWS} of ${grouped(found.length, 0)} shown` : grouped(found.length, 0);
    };
    const search = make("input", { type: "search", placeholder: "search decisions: a node, a pod, a reason", "aria-label": "search decisions", oninput: () => fill(search.value) });
    fill("");
    return make("section", {}, make("h2", {}, "Decisions"),
      variant.timelineLeftOut ? make("p", { class: "lead" }, `${grouped(variant.timelineLeftOut, 0)} of less weight are left out here; -o json has them all.`) : null,
      make("div", { class: "find" }, search, count),
      scrolled(make("table", { class: "wide-table" }, make("thead", {}, row("th", [["time"], ["kind"], ["reason"], ["method"], ["what was decided"], ["saves", "n"]])), body)));
  };

  const listed = (title, names, rows, empty) => make("section", { class: "list" }, make("h2", {}, title),
    rows.length ? scrolled(make("table", { class: "wide-table" }, make("thead", {}, row("th", names)), make("tbody", {}, ...rows.map((cells) => row("td", cells))))) : make("p", { class: "lead" }, empty));

  const workloads = (variant) => listed("Workloads", [["workload"], ["evictions", "n"], ["work done again", "n"], ["lowest share Ready", "n"]],
    variant.disruption.byWorkload.map((each) => [[each.workload, "text"], [written(each.evictions, ""), "n"], [length(each.lostSeconds), "n"], [written(each.lowestReadyShare, "share"), "n"]]),
    "No workload with replicas, and none that lost a pod.");

  const waiting = (variant) => listed("Pods that still wait", [["pod"], ["for", "n"], ["why"]],
    variant.pods.unscheduled.map((each) => [[each.pod], [length(each.seconds), "n"], [each.reason || "no reason is known", "text"]]), "None: every pod has a node.");

  const promises = (variant) => {
    const lines = [...variant.invariants.map((each) => [each.broken.length ? "✗" : "✓", `${each.id}: ${each.promise} (judged ${grouped(each.judged, 0)} times)` + each.broken.slice(0, 5).map((b) => `; at ${clock(b.at)}: ${b.text}`).join("")]),
      ...variant.expectations.map((each) => [each.held ? "✓" : "✗", each.sentence])];
    return listed("Promises and expectations", [[""], ["what"]], lines.map(([mark, text]) => [[mark, mark === "✓" ? "held" : "broken"], [text, "text"]]), "The scenario expects nothing, and no promise was judged.");
  };

  const costs = (variant) => {
    const parts = [["byPool", "pool"], ["byCapacityType", "capacity type"], ["byZone", "zone"], ["byType", "type"]];
    const total = variant.cost.dollarHours;
    return listed("Where the money went", [["by"], ["name"], ["cost", "n"], ["share", "n"]],
      parts.flatMap(([key, what]) => Object.entries(variant.cost[key]).sort((a, b) => b[1] - a[1]).slice(0, 12)
        .map(([name, dollars]) => [[what], [name, "text"], [written(dollars, "dollars"), "n"], [written(total ? dollars / total : null, "share"), "n"]])), "No machine was paid for.");
  };

  // --- The page

  const page = make("main");
  const detail = make("div");
  let shared = 0;
  const show = (number) => {
    chosen = number;
    plots.splice(shared).forEach((plot) => plot.u?.destroy());
    const variant = variants[number];
    const drawn = own(variant);
    const life = lifelines(variant);
    detail.replaceChildren(make("section", {}, make("h2", {}, single ? "Over time" : `Over time: ${variant.name}`),
      make("div", { class: "plots" }, ...drawn.map((plot) => plot.element), life)),
    decisions(variant), costs(variant), workloads(variant), waiting(variant), promises(variant));
    drawn.forEach((plot) => plot.draw());
    document.querySelectorAll("[data-variant]").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.variant) === number)));
  };

  const bar = make("nav", { class: "bar", "aria-label": "what the plots show" }, make("div", {},
    ...(single ? [] : variants.map((each, number) => make("button", { type: "button", "data-variant": number, "aria-pressed": "false", onclick: () => show(number) }, each.name))),
    make("button", { type: "button", onclick: showAll }, "show all time"),
    make("span", { class: "now", id: "now" }, "move over a plot, or use the arrow keys in it")));
  page.append(single ? cards() : comparison());
  if (!single) page.append(overlays());
  shared = plots.length;
  page.append(detail, make("section", {}, make("h2", {}, "Not modelled"), report.notModelled.length
    ? make("ul", { class: "plain" }, ...report.notModelled.map((text) => make("li", {}, text))) : make("p", { class: "lead" }, "Nothing that matters to this scenario is known.")));
  if (report.warnings.length) page.append(make("section", {}, make("h2", {}, "Warnings"), make("ul", { class: "plain" }, ...report.warnings.map((text) => make("li", {}, text)))));
  if (report.source) page.append(make("section", {}, make("h2", {}, "The scenario"), make("details", {}, make("summary", {}, "as it was run"), make("pre", { tabindex: "0" }, report.source))));
  page.append(make("footer", {}, `Simulated with the real controllers of karpenter ${report.version} in virtual time; times are UTC. This page makes no request. Plots: uPlot, MIT.`));
  document.body.append(head(), bar, page);
  show(0);
  plots.slice(0, shared).forEach((plot) => plot.draw());
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(drawAll, 120); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.documentElement.dataset.ready = "yes";
})();

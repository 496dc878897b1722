// The chart of a device's scores: drawn by uPlot from what the page holds, again when that changed.
"use strict";
(() => {
  const holder = document.getElementById("chart");
  if (!holder || !window.uPlot) return;
  let chart = null;
  let drawn = "";

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Behind everything else: the times of events, open or over, and those of rows that others know.
  function shade(times, name) {
    return (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.fillStyle = colour(name);
      ctx.globalAlpha = 0.16;
      for (const [begin, end] of times) {
        const left = Math.max(u.valToPos(begin, "x", true), bbox.left);
        const right = Math.min(u.valToPos(end, "x", true), bbox.left + bbox.width);
        // However short, it can be seen.
        ctx.fillRect(left, bbox.top, Math.max(right - left, 2 * devicePixelRatio), bbox.height);
      }
      ctx.restore();
    };
  }

  // Scores are positive, and far apart: by their logarithm. What is 0 is at the lower end.
  function positive(values, least) {
    return values.map((value) => (value === null ? null : Math.max(value, least)));
  }

  // Where rows come every few minutes, what is between two of them is no gap: what is longer than
  // three times the usual is one. uPlot breaks a line at null, and passes over what is undefined.
  function joined(values) {
    const known = [...values.keys()].filter((place) => values[place] !== null);
    const steps = known.slice(1).map((place, before) => place - known[before]);
    const usual = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)];
    const made = [...values];
    steps.forEach((step, before) => {
      if (step <= 3 * usual) made.fill(undefined, known[before] + 1, known[before] + step);
    });
    return made;
  }

  function moment(seconds) {
    return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  }

  // The hour, or where days are shown the day at its begin.
  function clock(seconds, scale) {
    const text = moment(seconds);
    const isDay = text.endsWith("00:00") || scale.max - scale.min > 4 * 86400;
    return isDay ? text.slice(5, 10) : text.slice(11);
  }

  function options(data) {
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
    };
    return {
      width: holder.clientWidth,
      height: Math.max(220, Math.min(360, holder.clientWidth * 0.5)),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { x: { min: data.from, max: data.to }, y: { distr: 3 } },
      // Hours as the rest of the page has them: 0 to 24.
      axes: [{ ...axis, values: (u, times) => times.map((time) => clock(time, u.scales.x)) }, { ...axis, size: 56 }],
      legend: { live: true },
      series: [
        { label: "UTC", value: (u, time) => (time === null ? "—" : moment(time)) },
        { label: "highest", stroke: colour("--accent"), width: 2, points: { show: false } },
        { label: "typical", stroke: colour("--learning"), width: 0, points: { show: true, size: 3, fill: colour("--learning") } },
        { label: "threshold", stroke: colour("--changing"), width: 1.5, dash: [6, 4], points: { show: false } },
      ],
      hooks: { drawClear: [shade(data.events, "--anomalous")] },
    };
  }

  function draw() {
    const source = document.getElementById("scores-data");
    if (!source || source.textContent === drawn) return;
    drawn = source.textContent;
    const data = JSON.parse(drawn);
    const known = [...data.typical, ...data.highest].filter((value) => value > 0);
    const least = known.length ? Math.min(...known) : 1e-3;
    const columns = [data.times, ...["highest", "typical", "threshold"].map((name) => joined(positive(data[name], least)))];
    if (chart) chart.destroy();
    chart = new uPlot(options(data), columns, holder);
    // To a screen reader the picture is its label, and the table below has the numbers.
    chart.root.setAttribute("aria-hidden", "true");
  }

  draw();
  document.addEventListener("htmx:after:swap", draw);
  const again = () => {
    drawn = "";
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new ResizeObserver(() => {
    if (chart && chart.width !== holder.clientWidth) again();
  }).observe(holder);
})();

"use strict";
// Timelines that zoom, curves that can be read closely, details that open where a link leads. Nothing is fetched.
(() => {
  const WIDE = 10000;
  const each = (where, what, act) => where.querySelectorAll(what).forEach(act);

  const words = (ms, span) => span >= 10000 ? (ms / 1000).toFixed(1) + " s" : span >= 100 ? ms.toFixed(0) + " ms" : ms.toFixed(2) + " ms";

  const onKeys = (where, acts) => where.addEventListener("keydown", (event) => {
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    act();
    event.preventDefault();
  });

  const timeline = (box) => {
    const whole = Number(box.dataset.window);
    const lanes = [...box.querySelectorAll("svg.lane")];
    const ticks = [...box.querySelectorAll(".ticks > span")];
    let from = 0, to = WIDE;
    const show = (begin, end) => {
      const span = Math.min(WIDE, Math.max(WIDE / 2000, end - begin));
      from = Math.min(WIDE - span, Math.max(0, begin));
      to = from + span;
      lanes.forEach((lane) => lane.setAttribute("viewBox", `${from} 0 ${span} ${lane.viewBox.baseVal.height}`));
      ticks.forEach((tick, at) => {
        tick.textContent = words(whole * (from + span * at / (ticks.length - 1)) / WIDE, whole * span / WIDE);
      });
    };
    const zoom = (by, at) => {
      const middle = at === undefined ? (from + to) / 2 : at;
      show(middle - (middle - from) * by, middle + (to - middle) * by);
    };
    const acts = {
      in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, WIDE),
      left: () => show(from - (to - from) / 4, to - (to - from) / 4),
      right: () => show(from + (to - from) / 4, to + (to - from) / 4),
    };
    each(box, ".tools", (one) => { one.hidden = false; });
    box.addEventListener("click", (event) => {
      const act = event.target.dataset && event.target.dataset.zoom;
      if (act) acts[act]();
    });
    onKeys(box, { "+": acts.in, "=": acts.in, "-": acts.out, 0: acts.all, ArrowLeft: acts.left, ArrowRight: acts.right });
    box.addEventListener("wheel", (event) => {
      const lane = event.target.closest("svg.lane");
      if (!lane || !event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, place(lane, event));
    }, { passive: false });
    const place = (lane, event) => {
      const area = lane.getBoundingClientRect();
      return from + (to - from) * Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
    };
    let begun = null, pick = null;
    box.addEventListener("pointerdown", (event) => {
      const lane = event.target.closest("svg.lane");
      if (!lane || event.pointerType === "touch") return;
      begun = { lane, at: place(lane, event), x: event.clientX };
      pick = document.body.appendChild(document.createElement("div"));
      pick.className = "pick";
    });
    window.addEventListener("pointermove", (event) => {
      if (!begun) return;
      const area = begun.lane.closest(".timeline").getBoundingClientRect();
      const left = Math.min(begun.x, event.clientX), width = Math.abs(event.clientX - begun.x);
      pick.style.left = `${left + window.scrollX}px`;
      pick.style.width = `${width}px`;
      pick.style.top = `${area.top + window.scrollY}px`;
      pick.style.height = `${area.height}px`;
    });
    window.addEventListener("pointerup", (event) => {
      if (!begun) return;
      const { lane, at, x } = begun;
      begun = null;
      pick.remove();
      if (Math.abs(event.clientX - x) < 6) return;
      const end = place(lane, event);
      show(Math.min(at, end), Math.max(at, end));
    });
  };

  const curve = (figure) => {
    const { x, y, bound } = JSON.parse(figure.querySelector("script").textContent);
    const plot = figure.querySelector(".plot");
    const colours = getComputedStyle(document.documentElement);
    const colour = (name) => colours.getPropertyValue(name).trim();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const drawn = new uPlot({
      width: plot.clientWidth, height: 200, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high, bound) * 1.1] } },
      axes: [{ ...axis, size: 30, values: (_, all) => all.map((one) => `${one} s`) }, { ...axis, size: 46 }],
      series: [
        { label: "after", value: (_, one) => one === null ? "–" : `${one.toFixed(2)} s` },
        { label: "CPUs used", stroke: colour("--own"), width: 1.5, value: (_, one) => one === null ? "–" : one.toFixed(3) },
        { label: "quota", stroke: colour("--failed"), width: 1.5, dash: [6, 4], value: () => bound.toFixed(3) },
      ],
    }, [x, y, x.map(() => bound)]);
    plot.prepend(drawn.root);
    drawn.root.querySelector(".u-legend").setAttribute("aria-live", "polite");
    const first = x[0], last = x[x.length - 1], least = 2 * (last - first) / (x.length - 1);
    let at = -1;
    const show = (middle, span) => {
      const begin = Math.max(first, Math.min(last - span, middle - span / 2));
      drawn.setScale("x", { min: begin, max: Math.min(last, begin + span) });
    };
    const read = (slot) => {
      at = Math.max(0, Math.min(x.length - 1, slot));
      const { min, max } = drawn.scales.x;
      if (x[at] < min || x[at] > max) show(x[at], max - min);
      requestAnimationFrame(() => {  // once it is drawn anew
        drawn.setCursor({ left: drawn.valToPos(x[at], "x"), top: drawn.valToPos(y[at], "y") });
      });
    };
    const zoom = (by) => {
      const { min, max } = drawn.scales.x;
      show(at < 0 ? (min + max) / 2 : x[at], Math.max(least, Math.min(last - first, (max - min) * by)));
      if (at >= 0) read(at);
    };
    onKeys(plot, {
      ArrowLeft: () => read(at - 1), ArrowRight: () => read(at + 1), Home: () => read(0), End: () => read(x.length - 1),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(first, last - first),
    });
    new ResizeObserver(() => {
      if (plot.clientWidth && plot.clientWidth !== drawn.width) drawn.setSize({ width: plot.clientWidth, height: 200 });
    }).observe(plot);
  };

  const whenSeen = (all, act) => {
    const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
      if (!entry.isIntersecting) return;
      seen.unobserve(entry.target);
      act(entry.target);
    }), { rootMargin: "300px" });
    all.forEach((one) => seen.observe(one));
  };

  const reachable = (plot) => {
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${plot.getAttribute("aria-label")}; left and right read it, plus and minus zoom, 0 shows all`);
    each(plot.parentElement, ".tools", (one) => { one.hidden = false; });
  };

  const follow = (hash) => {
    const wanted = hash.length > 1 && document.getElementById(hash.slice(1));
    if (wanted && wanted.tagName === "DETAILS") { wanted.open = true; wanted.scrollIntoView(); }
  };

  each(document, ".timeline", timeline);
  if (typeof uPlot !== "undefined") {
    each(document, ".plot", reachable);
    whenSeen(document.querySelectorAll(".curve"), curve);
  }
  // A link that was followed before changes no hash: what was folded since has to open again.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) follow(link.hash);
  });
  window.addEventListener("hashchange", () => follow(location.hash));
  follow(location.hash);
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
  window.pinproof = { whenSeen };
})();

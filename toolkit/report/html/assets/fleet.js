"use strict";
// The rows of many nodes: unpacked when they are looked for, drawn when they are scrolled to. Names are text, never markup.
(() => {
  const store = document.getElementById("packed");
  if (!store || typeof DecompressionStream === "undefined") return;
  const STEP = 200;
  const rows = document.getElementById("rows"), more = document.getElementById("more");
  const find = document.getElementById("find"), only = document.getElementById("only");
  const found = document.getElementById("found");
  const marks = JSON.parse(document.getElementById("marks").textContent);
  let all = null, shown = [], drawn = rows.rows.length;

  const load = async () => {
    if (all) return;
    const bytes = Uint8Array.from(atob(store.textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    all = JSON.parse(await new Response(stream).text());
    shown = all;
  };
  const part = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const row = ([host, outcome, cause, rules, hardware, , at]) => {
    const made = document.createElement("tr");
    const name = made.appendChild(part("th"));
    name.scope = "row";
    name.append(part("bdi", host));
    const badge = made.appendChild(part("td")).appendChild(part("span", undefined, `badge ${outcome}`));
    const mark = badge.appendChild(part("span", marks[outcome] || "!"));
    mark.setAttribute("aria-hidden", "true");
    badge.append(` ${outcome}`);
    const why = made.appendChild(part("td"));
    why.append(part("bdi", cause));
    if (rules) why.append(" ", part("span", rules, "dim"));
    made.append(part("td", hardware, "dim"), part("td", at, "dim"));
    return made;
  };
  const draw = () => {
    const next = shown.slice(drawn, drawn + STEP);
    rows.append(...next.map(row));
    drawn += next.length;
    more.textContent = drawn < shown.length ? `${drawn} of ${shown.length} nodes` : `${shown.length} nodes`;
  };
  const search = async () => {
    await load();
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = all.filter((one) => {
      if (only.value && one[1] !== only.value) return false;
      const text = one.join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    rows.replaceChildren();
    drawn = 0;
    draw();
    found.textContent = `${shown.length} of ${all.length} nodes`;
  };
  let waiting = 0;
  find.closest(".finder").hidden = false;
  find.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
  only.addEventListener("change", search);
  new IntersectionObserver(async (entries) => {
    if (!entries.some((one) => one.isIntersecting)) return;
    await load();
    if (drawn < shown.length) draw();
  }, { rootMargin: "600px" }).observe(more);
})();

// What needs the browser: live changes, and the review queue by keyboard. Without it every page and form works.
"use strict";

const live = document.body.dataset.live;
if (live && "EventSource" in window) {
  const told = document.getElementById("live");
  let count = 0;
  const source = new EventSource(live);
  source.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    count += 1;
    told.textContent = "";
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "load the page again";
    const last = `${change.kind} of ${change.id.slice(0, 8)}, confidence now ${change.confidence.toFixed(2)}`;
    told.append(`${count} change${count === 1 ? "" : "s"} since this page was made, the last: ${last}; `, link, ".");
  });
  addEventListener("pagehide", () => source.close());
}

const queue = document.querySelector("[data-queue]");
if (queue) {
  const items = [...queue.children].filter((item) => item.id);
  let at = -1;
  const go = (to) => {
    if (!items.length) return;
    items[at]?.classList.remove("now");
    at = Math.min(items.length - 1, Math.max(0, to));
    items[at].classList.add("now");
    items[at].focus();
  };
  const acts = new Set(["a", "b", "d"]);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key === "j") go(at + 1);
    else if (event.key === "k") go(at - 1);
    else if (event.key === "o" && at >= 0) items[at].querySelector("h2 a").click();
    else if (acts.has(event.key) && at >= 0) items[at].querySelector(`[data-key="${event.key}"]`)?.click();
    else return;
    event.preventDefault();
  });
  const wanted = items.findIndex((item) => `#${item.id}` === location.hash);
  if (wanted >= 0) go(wanted);
}

// What a page does beyond htmx: says whether it is live, lets time pass, listens to keys.
"use strict";
(() => {
  const said = { on: "Live", off: "Not live: trying again" };

  function tell(state) {
    const live = document.getElementById("live");
    if (!live) return;
    live.classList.toggle("on", state === "on");
    document.getElementById("live-said").textContent = said[state];
  }

  document.addEventListener("htmx:sse:after:connection", () => tell("on"));
  for (const event of ["htmx:sse:close", "htmx:sse:error"]) {
    document.addEventListener(event, (error) => {
      tell("off");
      // The session is over: the page itself leads to the login.
      if (error.detail.status === 401) location.reload();
    });
  }
  // By this the server says that the session is over.
  document.addEventListener("ended", () => location.reload());

  // As the server says it: dashboard/rendering.py has the same steps.
  function ago(seconds) {
    if (seconds < 10) return "just now";
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} days ago`;
  }

  // A browser's clock may be wrong: what passes is counted from the server's.
  const ahead = Date.now() - Date.parse(document.documentElement.dataset.now);
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = ago((Date.now() - ahead - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }, 5000);

  function isTyping(target) {
    return target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
  }

  // "/" searches; j and k, or the arrows, go from line to line of the first table that has them.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isTyping(event.target)) {
      // A browser would empty a search, and nothing would look for all again.
      event.preventDefault();
      event.target.blur();
    }
    if (isTyping(event.target)) return;
    if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (!search) return;
      event.preventDefault();
      search.focus();
      search.select();
    }
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    const lines = [...document.querySelectorAll("[data-lines] tbody th a")];
    const here = lines.indexOf(document.activeElement);
    // The arrows scroll, unless one is on a line.
    if (!step || !lines.length || (here < 0 && event.key.startsWith("Arrow"))) return;
    const next = lines[here < 0 ? 0 : Math.min(Math.max(here + step, 0), lines.length - 1)];
    event.preventDefault();
    next.focus();
  });
})();

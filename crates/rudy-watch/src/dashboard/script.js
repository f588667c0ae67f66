// Shows the updates of the server, which are whole parts of the page.
"use strict";
const parts = ["summary", "charts", "active", "lists"];
const element = (id) => document.getElementById(id);
const [state, news, pause] = ["state", "news", "pause"].map(element);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const CALM_MS = 2000;
const NEWS_MS = 15000;
let source, shownAt = -CALM_MS, newsAt = -NEWS_MS;

function show(event) {
  const now = performance.now();
  if (document.hidden || (calm.matches && now - shownAt < CALM_MS)) return;
  shownAt = now;
  const update = JSON.parse(event.data);
  for (const part of parts) {
    const place = element(part);
    if (place.innerHTML !== update[part]) place.innerHTML = update[part];
  }
  if (now - newsAt >= NEWS_MS) {
    newsAt = now;
    news.textContent = update.news;
  }
}

function connect() {
  source = new EventSource("?events");
  source.onopen = () => { state.textContent = "Live"; };
  source.onerror = () => {
    const ended = source.readyState === EventSource.CLOSED;
    state.textContent = ended ? "Disconnected. Load the page again." : "Disconnected. Reconnecting …";
  };
  source.onmessage = show;
}

pause.addEventListener("click", () => {
  const pauses = pause.getAttribute("aria-pressed") === "false";
  pause.setAttribute("aria-pressed", String(pauses));
  if (pauses) {
    source.close();
    state.textContent = "Paused";
  } else {
    connect();
  }
});

pause.hidden = false;
connect();

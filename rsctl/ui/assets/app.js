// Keeps a page up to date from its stream of events, and draws its charts and its log.
"use strict";

const body = document.body, byId = (name) => document.getElementById(name);
const MOST_LINES = 3000;
const plots = new Map();
let source = null, isEnded = false, drawnWidth = 0;

// ---- parts: the server has escaped every text in them, and the page may run no inline script.

// What the element with the keyboard's focus is recognized by when its part is replaced.
const identity = (element) => element.dataset.replica || element.dataset.compare || element.getAttribute("href") || element.textContent;

function setPart(name, text) {
  const place = byId(`part-${name}`);
  if (!place) return;
  const open = new Set([...place.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
  const scrolled = [...place.querySelectorAll(".scroll, pre")].map((s) => [s.scrollLeft, s.scrollTop]);
  const focused = place.contains(document.activeElement) && identity(document.activeElement);
  const drawn = new Map([...place.querySelectorAll(".plot")].map((p) => [p.dataset.plot, p]));
  const parsed = new DOMParser().parseFromString(text, "text/html");
  for (const plot of parsed.querySelectorAll(".plot")) {
    const known = drawn.get(plot.dataset.plot); // with what the pointer shows in it
    if (known) plot.replaceWith(document.adoptNode(known));
  }
  place.replaceChildren(...parsed.body.childNodes);
  for (const summary of place.querySelectorAll("details > summary")) if (open.has(summary.textContent)) summary.parentElement.open = true;
  place.querySelectorAll(".scroll, pre").forEach((s, i) => scrolled[i] && ([s.scrollLeft, s.scrollTop] = scrolled[i]));
  if (focused) [...place.querySelectorAll("a, button, input, summary")].find((each) => identity(each) === focused)?.focus();
}

function drawAll(changed) {
  for (const place of document.querySelectorAll(".plot")) {
    if (!changed || changed.has(place.dataset.plot) || !place.firstChild) Plots.draw(place, plots.get(place.dataset.plot));
  }
}

function onParts(event) {
  const data = JSON.parse(event.data);
  for (const [name, text] of Object.entries(data.parts || {})) setPart(name, text);
  const changed = new Set(Object.keys(data.plots || {}));
  for (const name of changed) plots.set(name, data.plots[name]);
  drawAll(changed);
  if (data.state) setState(data.state, data.final);
  markChosen();
  showChoices();
  body.dataset.ready = "1";
}

function setState(state, isFinal) {
  const place = byId("state"), pill = document.createElement("span");
  if (!place) return;
  pill.className = `state ${state}`;
  pill.textContent = state;
  place.replaceChildren(pill);
  byId("cancel").hidden = Boolean(isFinal);
  document.title = `${state} · ${body.dataset.subject} · rsctl`;
}

// ---- the log

function onLog(event) {
  const place = byId("log"), { left, lines, earlier } = JSON.parse(event.data);
  const isAtEnd = byId("log-follow").checked;
  const made = document.createDocumentFragment();
  if (earlier) made.append(logText("p", "left", `… ${earlier}`));
  if (left) made.append(logText("p", "left", `… ${left.toLocaleString("en")} lines left out`));
  for (const [time, where, isError, text] of lines) {
    const line = document.createElement("p");
    if (isError) line.className = "err";
    line.append(logText("time", "", time), logText("b", `in-${whose(where)}`, where), logText("span", "", text));
    made.append(line);
  }
  place.append(made);
  for (let over = place.childElementCount - MOST_LINES; over > 0; over--) place.firstChild.remove();
  if (isAtEnd) place.scrollTop = place.scrollHeight;
  place.dataset.empty = logAddress() ? "No line matches." : byId("cancel").hidden ? "No line." : "No line yet.";
}

function logText(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
}

const COLORS = ["c1", "c3", "c4", "c2", "c5", "c6"];
const whose = (where) => COLORS[(parseInt(where.replace(/^.*?(\d+)(\/.*)?$/, "$1"), 10) || 0) % COLORS.length];

function logAddress() {
  const found = new URLSearchParams();
  if (byId("log-replica").value) found.set("replica", byId("log-replica").value);
  if (byId("log-text").value) found.set("text", byId("log-text").value);
  if (byId("log-errors").checked) found.set("errors", "1");
  return found.size ? `?${found}` : "";
}

function changeLog() {
  const query = logAddress();
  history.replaceState(null, "", location.pathname + query);
  body.dataset.stream = body.dataset.stream.split("?")[0] + query;
  isEnded = false;
  connect();
}

// ---- the connection

function show(text, kind) {
  byId("live").textContent = text;
  byId("live").className = `live ${kind}`;
}

function connect() {
  source?.close();
  source = null;
  if (!body.dataset.stream || isEnded) return;
  source = new EventSource(body.dataset.stream);
  source.addEventListener("open", () => {
    byId("log")?.replaceChildren();
    byId("log")?.setAttribute("data-empty", "Reading …"); // a search in a long log takes seconds
    show("live", "on");
  });
  source.addEventListener("parts", onParts);
  source.addEventListener("log", onLog);
  source.addEventListener("problem", (event) => show(JSON.parse(event.data)[0], "off"));
  source.addEventListener("end", () => { isEnded = true; source.close(); show("ended", ""); });
  source.addEventListener("error", () => {
    show("not connected: is rsctl ui still running?", "off");
    if (source?.readyState === EventSource.CLOSED) explain();
  });
}

// Why the server has refused the stream: the page itself gets the same answer.
async function explain() {
  const answer = await fetch(location.href).catch(() => null);
  if (answer?.status === 404) return show("no longer exists", "off");
  if (answer?.status === 403) show("rsctl ui was started again: open the address that it printed", "off");
  setTimeout(() => !document.hidden && connect(), 3000);
}

// A browser opens six connections to a server at most: a page that cannot be seen gives its own back.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) connect();
  else { source?.close(); source = null; }
});

// ---- cancel

async function cancel() {
  if (!confirm(`Cancel ${body.dataset.subject}?`)) return;
  const button = byId("cancel");
  button.disabled = true;
  try {
    const answer = await fetch(body.dataset.action, { method: "POST", headers: { "X-Rsctl-Action": "cancel" } });
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.problem.join(" "));
    button.textContent = "Cancel requested";
  } catch (problem) {
    button.disabled = false;
    show(`not cancelled: ${problem.message}`, "off");
  }
}

// ---- comparison: the choice is kept while the browser's tab is open

const choices = () => JSON.parse(sessionStorage.getItem("compare") || "[]");

function markChosen() {
  const chosen = new Set(choices());
  for (const box of document.querySelectorAll("[data-compare]")) box.checked = chosen.has(box.dataset.compare);
}

function showChoices() {
  const chosen = choices();
  let bar = byId("compare");
  if (!byId("part-list") || !chosen.length) return bar?.remove();
  if (!bar) {
    bar = document.createElement("div");
    bar.id = "compare";
    body.append(bar);
  }
  const link = document.createElement("a"), none = document.createElement("button");
  link.className = "button main";
  link.textContent = chosen.length > 1 ? `Compare ${chosen.length}` : "Select another to compare";
  if (chosen.length > 1) link.href = `/compare?${new URLSearchParams(chosen.map((name) => ["of", name]))}`;
  none.type = "button";
  none.textContent = "Clear";
  none.addEventListener("click", () => choose([]));
  bar.replaceChildren(logText("span", "", chosen.join(", ")), link, none);
}

function choose(names) {
  sessionStorage.setItem("compare", JSON.stringify(names.slice(0, 20)));
  markChosen();
  showChoices();
}

document.addEventListener("change", ({ target }) => {
  const name = target.dataset?.compare;
  if (name) choose(target.checked ? [...new Set([...choices(), name])] : choices().filter((each) => each !== name));
});

document.addEventListener("click", ({ target }) => {
  const tile = target.closest?.("[data-replica]");
  if (!tile) return;
  byId("log-replica").value = tile.dataset.replica;
  changeLog();
  byId("log-section").scrollIntoView({ block: "start", behavior: "smooth" });
});

byId("cancel")?.addEventListener("click", cancel);
for (const name of ["log-replica", "log-errors"]) byId(name)?.addEventListener("change", changeLog);
let typing = 0;
byId("log-text")?.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(changeLog, 300); });
byId("log")?.addEventListener("scroll", ({ target }) => {
  byId("log-follow").checked = target.scrollHeight - target.scrollTop - target.clientHeight < 24;
});
byId("log-follow")?.addEventListener("change", ({ target }) => { if (target.checked) byId("log").scrollTop = byId("log").scrollHeight; });
new ResizeObserver(() => {
  if (drawnWidth === body.clientWidth) return;
  drawnWidth = body.clientWidth;
  drawAll();
}).observe(body);
if (body.dataset.state) setState(body.dataset.state, ["succeeded", "failed", "cancelled", "expired"].includes(body.dataset.state));
markChosen();
showChoices();
if (!body.dataset.stream) byId("live").textContent = "";
connect();

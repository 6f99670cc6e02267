"use strict";

/* Starts the page: mouse, keyboard, download. */
const TYPING = "input:not([type=checkbox]), select, textarea";
const MOVES = ["j", "k", "ArrowLeft", "ArrowRight"];
const TOP = 150; // pixels: on a telephone the card at this height is the current one

function start() {
  const data = JSON.parse(byId("page-data").textContent);
  const suspects = JSON.parse(byId("suspect-data").textContent);
  if (!byId("cards")) return; // nothing looks wrong
  const decisions = new Decisions(data.key, suspects, data);
  const gallery = new Gallery(suspects, data, decisions);
  const relabelling = new RelabelDialog(data.classes);
  const zooming = new ZoomDialog(data);

  function say(text) {
    byId("said").textContent = text;
  }

  /* Decide about the card at a place, then focus the next one. */
  function decide(place, decision, label) {
    const suspect = gallery.shown[place];
    if (!suspect) return;
    if (decision === "relabel" && label === undefined) return relabel(place);
    decisions.decide(suspect, decision, label);
    const decided = decisions.of(suspect);
    say(decided ? decisions.verdict(decided) : "Taken back");
    gallery.refresh();
    const stays = gallery.shown[place] === suspect;
    gallery.focus(stays && decided ? place + 1 : place);
  }

  function relabel(place) {
    const suspect = gallery.shown[place];
    const before = decisions.of(suspect);
    const known = before && before.decision === "relabel" ? decisions.labelName(before.label) : "";
    relabelling.open(
      suspect.id,
      known,
      (label) => decide(place, "relabel", label),
      () => gallery.focus(place),
    );
  }

  function zoom(place) {
    const suspect = gallery.shown[place];
    if (suspect) zooming.open(suspect, () => gallery.focus(place));
  }

  function acceptAll() {
    const open = gallery.acceptable;
    decisions.acceptAll(open);
    say(`${plural(open.length)} accepted`);
    gallery.refresh();
    byId("undo").focus({ preventScroll: true });
  }

  function undo() {
    const changes = decisions.undo();
    if (!changes.length) return;
    say(changes.length > 1 ? `${plural(changes.length)} undone` : "Undone");
    gallery.refresh();
    gallery.reveal(changes[0][0]);
  }

  /* Begin at the first suspect without a decision. */
  function review() {
    const first = suspects.find((suspect) => !decisions.of(suspect));
    if (!first) return;
    byId("filters").reset();
    gallery.search();
    gallery.reveal(first.row);
  }

  function download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([decisions.csv()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const keys = {
    u: undo,
    n: () => (gallery.turn(1), gallery.focus(0)),
    p: () => (gallery.turn(-1), gallery.focus(0)),
    "/": () => byId("search").focus(),
  };
  const cardKeys = {
    a: (place) => decide(place, "accept"),
    r: (place) => decide(place, "reject"),
    l: (place) => decide(place, "relabel"),
    s: (place) => decide(place, "unsure"),
    d: (place) => decide(place, "delete"),
    z: zoom,
    j: (place) => gallery.focus(place + 1),
    k: (place) => gallery.focus(place - 1),
    ArrowRight: (place) => gallery.focus(place + 1),
    ArrowLeft: (place) => gallery.focus(place - 1),
  };

  /* Keys act on the card that has the focus, else on the current card, as the bar of a telephone does.
     If that one is out of view, it is only brought into view: nobody decides about what is not seen. */
  addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey || event.target.closest(TYPING)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const inside = gallery.place(event.target);
    if (document.querySelector("dialog[open]")) return keyInZoom(event, key);
    if (inside < 0 && (!byId("keys-on").checked || key.startsWith("Arrow"))) return;
    if (!keys[key] && !cardKeys[key]) return;
    event.preventDefault();
    if (keys[key]) return keys[key]();
    if (inside >= 0) return cardKeys[key](inside);
    ifSeen(gallery.current, () => cardKeys[key](gallery.current));
  });

  function ifSeen(place, action) {
    const suspect = gallery.shown[place];
    if (suspect && inView(gallery.card(suspect).box)) action();
    else gallery.focus(place);
  }

  /* Decide or move while the picture is enlarged; moving enlarges the next picture. */
  function keyInZoom(event, key) {
    if (!zooming.shown || !cardKeys[key]) return;
    event.preventDefault();
    const place = gallery.current;
    zooming.close(key === "z");
    if (key === "z") return;
    cardKeys[key](place);
    if (MOVES.includes(key)) zoom(gallery.current);
  }

  byId("cards").addEventListener("click", (event) => {
    const place = gallery.place(event.target);
    const button = event.target.closest("button");
    if (event.target.closest("button, summary") === null && gallery.shown[place]) gallery.mark(gallery.shown[place]);
    if (!button) return;
    if (button.dataset.decision) decide(place, button.dataset.decision);
    else zoom(place);
  });
  byId("deck").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) ifSeen(gallery.current, () => decide(gallery.current, button.dataset.decision));
  });
  /* On a telephone the current card is the one that has the focus, or else, after scrolling, the one
     at the top of the screen. */
  addEventListener("scroll", () => {
    const focused = document.activeElement.closest(".card");
    if (!onPhone() || document.querySelector("dialog[open]") || (focused && inView(focused))) return;
    const top = gallery.shown.find((each) => gallery.card(each).box.getBoundingClientRect().bottom > TOP);
    if (top && top.row !== gallery.here) gallery.mark(top);
  });
  byId("filters").addEventListener("input", () => gallery.search());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  /* A button empties the fields after its click; scripts that empty them search themselves. */
  document.querySelector("#filters button[type=reset]").addEventListener("click", () => {
    setTimeout(() => gallery.search());
  });
  byId("previous").addEventListener("click", () => (gallery.turn(-1), gallery.focus(0)));
  byId("next").addEventListener("click", () => (gallery.turn(1), gallery.focus(0)));
  byId("undo").addEventListener("click", undo);
  byId("accept-all").addEventListener("click", acceptAll);
  byId("review").addEventListener("click", review);
  byId("download").addEventListener("click", download);
  /* Cells of the matrix and counts in the tables show their suspects. */
  for (const button of document.querySelectorAll("main button[data-given], main button[data-suggested]")) {
    button.addEventListener("click", () => {
      gallery.choose(button.dataset.given || "", button.dataset.suggested || "");
      byId("suspects").scrollIntoView();
      gallery.focus(0);
    });
  }
  /* Decisions made in another tab with the same page. */
  addEventListener("storage", (event) => {
    if (event.key !== data.key) return;
    decisions.load();
    gallery.refresh();
  });
  linkMap(gallery);
  gallery.search();
}

/* Whether the middle of an element is in view. */
function inView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top + bottom > 0 && top + bottom < 2 * innerHeight;
}

start();

"use strict";

/* Starts the page: mouse, keyboard, download. */
function start() {
  const data = JSON.parse(byId("page-data").textContent);
  const suspects = JSON.parse(byId("suspect-data").textContent);
  if (!byId("cards")) return; // nothing looks wrong
  const decisions = new Decisions(data.key, suspects, data.classes);
  const gallery = new Gallery(suspects, data, decisions);

  function say(text) {
    byId("said").textContent = text;
  }

  /* Decide about the card at a place, then focus the next one. */
  function decide(place, decision, label) {
    const suspect = gallery.shown[place];
    if (!suspect) return;
    decisions.decide(suspect, decision, label);
    const decided = decisions.of(suspect);
    say(decided ? `${VERDICTS[decided.decision]}: ${data.classes[decided.label]}` : "Taken back");
    gallery.refresh();
    const stays = gallery.shown[place] === suspect;
    gallery.focus(stays && decided ? place + 1 : place);
  }

  function relabel(place) {
    const suspect = gallery.shown[place];
    const dialog = byId("relabel");
    if (!suspect) return;
    const before = decisions.of(suspect);
    byId("relabel-about").textContent = suspect.id;
    byId("relabel-label").value = before ? before.label : suspect.suggested;
    dialog.returnValue = "";
    dialog.onclose = () => {
      if (dialog.returnValue !== "take") gallery.focus(place);
      else decide(place, "relabel", Number(byId("relabel-label").value));
    };
    dialog.showModal();
    byId("relabel-label").focus();
  }

  function undo() {
    const row = decisions.undo();
    if (row === undefined) return;
    say("Undone");
    gallery.refresh();
    gallery.reveal(row);
  }

  function download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([decisions.csv()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const keys = {
    a: (place) => decide(place, "accept"),
    r: (place) => decide(place, "reject"),
    l: relabel,
    u: undo,
    n: () => (gallery.turn(1), gallery.focus(0)),
    p: () => (gallery.turn(-1), gallery.focus(0)),
    "/": () => byId("search").focus(),
    ArrowRight: (place) => gallery.focus(place + 1),
    ArrowLeft: (place) => gallery.focus(place - 1),
    j: (place) => gallery.focus(place + 1),
    k: (place) => gallery.focus(place - 1),
  };

  byId("cards").addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action(gallery.place(event.target));
  });
  byId("cards").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const place = gallery.place(button);
    if (button.dataset.decision === "relabel") relabel(place);
    else decide(place, button.dataset.decision);
  });
  byId("filters").addEventListener("input", () => gallery.search());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(() => gallery.search()));
  byId("previous").addEventListener("click", () => (gallery.turn(-1), gallery.focus(0)));
  byId("next").addEventListener("click", () => (gallery.turn(1), gallery.focus(0)));
  byId("undo").addEventListener("click", undo);
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
  gallery.search();
}

start();

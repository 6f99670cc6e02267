"use strict";

/* The card of one suspicious label. Names come from data, so they are set as text, never as HTML. */
const FEW = 8; // values of a row that are shown at once
const VERDICTS = { accept: "Accepted", reject: "Rejected, stays", relabel: "Relabelled" };

class Card {
  constructor(suspect, data) {
    this.suspect = suspect;
    this.classes = data.classes;
    this.item = document.getElementById("card").content.firstElementChild.cloneNode(true);
    this.box = this.item.querySelector(".card");
    const given = data.classes[suspect.given];
    const suggested = data.classes[suspect.suggested];
    this.text(".given", given);
    this.text(".suggested", suggested);
    const name = data.named ? suspect.id : `row ${suspect.id}`;
    this.text(".path", suspect.path ? `${name} · ${suspect.path}` : name);
    this.box.setAttribute("aria-label", `${name}: labelled ${given}, suggested ${suggested}`);
    this.box.querySelector(".look").append(...look(suspect, data.columns));
    this.box.querySelector(".facts").append(...facts(suspect));
    this.box.querySelector(".reasons").append(...reasons(suspect, given, suggested));
  }

  text(selector, content) {
    this.box.querySelector(selector).textContent = content;
  }

  show(decided) {
    this.box.dataset.decision = decided ? decided.decision : "";
    const verdict = decided ? `${VERDICTS[decided.decision]}: ${this.classes[decided.label]}` : "";
    this.text(".verdict", verdict);
    for (const button of this.box.querySelectorAll("button")) {
      const pressed = Boolean(decided) && decided.decision === button.dataset.decision;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }
}

/* The picture, or the values of the row. */
function look(suspect, columns) {
  if (suspect.picture) {
    const image = new Image();
    image.alt = "";
    image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 80));
    image.src = suspect.picture;
    return [image];
  }
  if (!suspect.values) return [];
  const pairs = columns.map((name, place) => [name, suspect.values[place]]);
  const shown = [described("values", pairs.slice(0, FEW))];
  if (pairs.length > FEW) {
    const more = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = `${pairs.length - FEW} more values`;
    more.append(summary, described("values", pairs.slice(FEW)));
    shown.push(more);
  }
  return shown;
}

function facts(suspect) {
  const pairs = [
    ["Score", suspect.score],
    ["Model uncertainty", suspect.epistemic],
    ["Data uncertainty", suspect.aleatoric],
  ];
  return terms(pairs.map(([name, value]) => [name, value === undefined ? "–" : value.toFixed(3)]));
}

/* Bayes' rule for the given and the suggested class, where a confusion model decided. */
function reasons(suspect, given, suggested) {
  if (!suspect.why) return [];
  const table = document.createElement("table");
  table.createTHead().append(tableRow(["Class", "Model", "P(label | class)", "Posterior"], "col"));
  const body = table.createTBody();
  [given, suggested].forEach((name, place) => {
    body.append(tableRow([name, ...suspect.why[place].map((value) => value.toFixed(3))], "row"));
  });
  const more = document.createElement("details");
  const summary = document.createElement("summary");
  const about = document.createElement("p");
  summary.textContent = "Why";
  about.textContent =
    "The posterior is the model’s probability of the class, times the share of the class that gets this label, normalised over all classes.";
  more.append(summary, table, about);
  return [more];
}

/* The first cell is a heading of its row; with scope "col" all cells are headings. */
function tableRow(texts, scope) {
  const row = document.createElement("tr");
  texts.forEach((text, place) => {
    const cell = document.createElement(scope === "col" || place === 0 ? "th" : "td");
    if (cell.tagName === "TH") cell.scope = scope;
    cell.textContent = text;
    row.append(cell);
  });
  return row;
}

function described(name, pairs) {
  const list = document.createElement("dl");
  list.className = name;
  list.append(...terms(pairs));
  return list;
}

function terms(pairs) {
  return pairs.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    term.textContent = name;
    detail.textContent = value;
    return [term, detail];
  });
}

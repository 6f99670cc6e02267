"use strict";

/* One suspicious label: a card with a picture, or a row of a table with values. Names come from data,
   so they are set as text, never as HTML. */
const FEW = 12; // values of a row that have a column of their own

class Card {
  constructor(suspect, data, decisions) {
    this.suspect = suspect;
    this.decisions = decisions;
    this.item = document.getElementById("card").content.firstElementChild.cloneNode(true);
    this.box = this.item.matches(".card") ? this.item : this.item.querySelector(".card");
    const given = data.classes[suspect.given];
    const suggested = suggestion(suspect, data.classes);
    this.text(".given", given);
    this.text(".suggested", suggested);
    if (!hasSuggestion(suspect)) {
      this.box.querySelector("[data-decision=accept]").hidden = true;
      this.text("[data-decision=reject]", "Keep");
    }
    const name = data.named ? suspect.id : `row ${suspect.id}`;
    this.text(".path", suspect.path ? `${name} · ${suspect.path}` : name);
    this.box.setAttribute("aria-label", `${name}: labelled ${given}, suggested ${suggested}`);
    if (data.columns.length) this.fillRow(data.columns);
    else this.fillCard(data);
    this.box.querySelector(".reasons").append(...reasons(suspect, given, suggested));
  }

  text(selector, content) {
    this.box.querySelector(selector).textContent = content;
  }

  fillCard(data) {
    if (this.suspect.picture) {
      const zoom = document.createElement("button");
      zoom.type = "button";
      zoom.className = "picture";
      zoom.dataset.zoom = "";
      zoom.setAttribute("aria-label", "Enlarge the picture");
      zoom.append(picture(this.suspect.picture));
      this.box.querySelector(".look").append(zoom, ...references(this.suspect, data));
    }
    this.box.querySelector(".facts").append(...terms(facts(this.suspect)));
  }

  fillRow(columns) {
    const pairs = columns.map((name, place) => [name, (this.suspect.values || [])[place] || "–"]);
    this.text(".score", inWords(this.suspect.score));
    const cells = pairs.slice(0, FEW).map(([name, value]) => {
      const cell = document.createElement("td");
      cell.className = "value";
      cell.dataset.name = name;
      cell.textContent = value;
      return cell;
    });
    this.box.querySelector(".score").after(...cells);
    const rest = [...facts(this.suspect).slice(1), ...pairs.slice(FEW)];
    const more = pairs.length > FEW ? `More (${pairs.length - FEW} values)` : "More";
    this.box.querySelector(".more").prepend(folded(more, described("values", rest)));
  }

  show(decided) {
    this.box.dataset.decision = decided ? decided.decision : "";
    this.text(".verdict", decided ? this.decisions.verdict(decided) : "");
    for (const button of this.box.querySelectorAll("button[data-decision]")) {
      const pressed = Boolean(decided) && decided.decision === button.dataset.decision;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }
}

/* Labels of a review may have no other class that is likelier. */
function hasSuggestion(suspect) {
  return suspect.suggested !== suspect.given;
}

function suggestion(suspect, classes) {
  return hasSuggestion(suspect) ? classes[suspect.suggested] : "no other class";
}

function picture(source) {
  const image = new Image();
  image.alt = "";
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 80));
  image.src = source;
  return image;
}

/* Trusted examples of the suggested class, then of the given class. */
function references(suspect, data) {
  return (hasSuggestion(suspect) ? ["suggested", "given"] : ["given"]).flatMap((side) => {
    const pictures = data.references[suspect[side]];
    if (!pictures) return [];
    const box = document.createElement("div");
    const name = document.createElement("p");
    box.className = `references ${side}-class`;
    name.textContent = `${data.classes[suspect[side]]}, trusted`;
    box.append(name, ...pictures.map(picture));
    return [box];
  });
}

function facts(suspect) {
  return [
    ["Score", inWords(suspect.score)],
    ["Model uncertainty", inWords(suspect.epistemic)],
    ["Data uncertainty", suspect.aleatoric === undefined ? "–" : suspect.aleatoric.toFixed(3)],
  ];
}

/* A probability with three decimals; in words where they would say 0 or 1. */
function inWords(value) {
  if (value === undefined || value === null) return "–";
  if (value < 0.0005) return "< 0.001";
  return value >= 0.9995 ? "> 0.999" : value.toFixed(3);
}

/* Bayes' rule for the given and the suggested class, where a confusion model decided. */
function reasons(suspect, given, suggested) {
  if (!suspect.why) return [];
  const table = document.createElement("table");
  table.createTHead().append(tableRow(["Class", "Model", "P(label | class)", "Posterior"], "col"));
  const body = table.createTBody();
  (hasSuggestion(suspect) ? [given, suggested] : [given]).forEach((name, place) => {
    body.append(tableRow([name, ...suspect.why[place].map(inWords)], "row"));
  });
  const about = document.createElement("p");
  about.textContent =
    "The posterior is the model’s probability of the class, times the share of the class that gets this label, normalised over all classes.";
  return [folded("Why", table, about)];
}

function folded(title, ...content) {
  const more = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = title;
  more.append(summary, ...content);
  return more;
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

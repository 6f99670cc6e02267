"use strict";

/* The gallery of suspects: filters, order, search, pages. */
const byId = (id) => document.getElementById(id);
const or = (value, otherwise) => (value === undefined ? otherwise : value);

class Gallery {
  constructor(suspects, data, decisions) {
    this.suspects = suspects; // most suspicious first
    this.data = data;
    this.decisions = decisions;
    this.cards = new Map(); // by row, made when first shown
    this.here = -1; // row of the current suspect, on which the keys act
    this.found = [];
    this.page = 0;
    this.orders = {
      suspicious: () => 0,
      likely: (a, b) => b.score - a.score,
      sure: (a, b) => or(a.epistemic, 2) - or(b.epistemic, 2),
      unsure: (a, b) => or(b.epistemic, -1) - or(a.epistemic, -1),
      unclear: (a, b) => or(a.aleatoric, 1e9) - or(b.aleatoric, 1e9),
      given: (a, b) => this.compare(this.name(a.given), this.name(b.given)),
      suggested: (a, b) => this.compare(this.name(a.suggested), this.name(b.suggested)),
      name: (a, b) => this.compare(a.id, b.id),
    };
    this.compare = new Intl.Collator(undefined, { numeric: true }).compare;
    this.texts = new Map(suspects.map((suspect) => [suspect.row, this.searchable(suspect)]));
    this.fillFilters();
  }

  name(label) {
    return this.data.classes[label];
  }

  searchable(suspect) {
    const parts = [suspect.id, suspect.path, this.name(suspect.given), this.name(suspect.suggested)];
    return [...parts, ...(suspect.values || [])].join("\n").toLowerCase();
  }

  fillFilters() {
    for (const side of ["given", "suggested"]) {
      const counts = counted(this.suspects.map((suspect) => suspect[side]));
      const labels = [...counts.keys()].sort((a, b) => this.compare(this.name(a), this.name(b)));
      const options = labels.map((label) => option(label, `${this.name(label)} (${counts.get(label)})`));
      byId(`filter-${side}`).append(...options);
    }
    const pairs = counted(this.suspects.map(pairOf));
    const frequent = [...pairs].sort((a, b) => b[1] - a[1]);
    byId("filter-pair").append(
      ...frequent.map(([pair, count]) => {
        const [given, suggested] = pair.split(":");
        const other = given === suggested ? "no other class" : this.name(suggested);
        return option(pair, `${this.name(given)} → ${other} (${count})`);
      }),
    );
  }

  /* Filter by given class, by suggestion, or by both. */
  choose(given, suggested) {
    byId("filters").reset();
    this.choices({ given, suggested });
    this.search();
  }

  choices(wanted) {
    for (const [side, label] of Object.entries(wanted)) {
      const select = byId(`filter-${side}`);
      select.value = label;
      if (select.value === label) continue;
      select.append(option(label, `${this.name(label)} (0)`)); // none of them is on this page
      select.value = label;
    }
  }

  matches(suspect) {
    const wanted = this.wanted;
    const decided = this.decisions.of(suspect);
    return (
      (wanted.given === "" || suspect.given === Number(wanted.given)) &&
      (wanted.suggested === "" || suspect.suggested === Number(wanted.suggested)) &&
      (wanted.pair === "" || pairOf(suspect) === wanted.pair) &&
      (wanted.decision === "" || (decided ? decided.decision : "open") === wanted.decision) &&
      this.texts.get(suspect.row).includes(wanted.text)
    );
  }

  /* Apply the filters, and show the first page. */
  search() {
    this.page = 0;
    this.refresh();
  }

  refresh() {
    this.wanted = { text: byId("search").value.trim().toLowerCase() };
    for (const name of ["given", "suggested", "pair", "decision"]) {
      this.wanted[name] = byId(`filter-${name}`).value;
    }
    const order = this.orders[byId("sort").value];
    this.found = this.suspects.filter((suspect) => this.matches(suspect)).sort(order);
    this.size = Number(byId("page-size").value);
    this.pages = Math.max(1, Math.ceil(this.found.length / this.size));
    this.page = Math.min(this.page, this.pages - 1);
    this.draw();
  }

  get shown() {
    return this.found.slice(this.page * this.size, (this.page + 1) * this.size);
  }

  draw() {
    const cards = this.shown.map((suspect) => this.card(suspect));
    byId("cards").replaceChildren(...cards.map((card) => card.item));
    if (cards.length) this.mark(this.shown[this.current]);
    const total = this.suspects.length;
    const decided = this.decisions.decided.length;
    byId("count").textContent = this.found.length
      ? `${this.found.length} of ${total} labels`
      : `None of ${total} labels fits; clear the filters.`;
    byId("progress").textContent = `${decided} of ${total} decided`;
    byId("page-number").textContent = `Page ${this.page + 1} of ${this.pages}`;
    byId("previous").disabled = this.page === 0;
    byId("next").disabled = this.page + 1 >= this.pages;
    byId("undo").disabled = this.decisions.steps.length === 0;
    byId("download").disabled = decided === 0;
    byId("download").textContent = decided ? `Download decisions (${decided})` : "Download decisions";
    byId("storage-note").hidden = this.decisions.kept;
    const open = this.acceptable.length;
    byId("accept-all").disabled = open === 0;
    byId("accept-all").textContent = `Accept these ${open}`;
    byId("review").textContent = decided
      ? `Review the other ${plural(total - decided)}`
      : `Review ${plural(total)}`;
    byId("review").hidden = decided === total || total === 0;
  }

  /* The labels that fit the filters and have a suggestion and no decision. */
  get acceptable() {
    return this.found.filter((suspect) => hasSuggestion(suspect) && !this.decisions.of(suspect));
  }

  /* Place of the current suspect on this page; the first one if it is not on it. */
  get current() {
    return Math.max(this.shown.findIndex((suspect) => suspect.row === this.here), 0);
  }

  /* Make a suspect the current one. */
  mark(suspect) {
    this.here = suspect.row;
    for (const card of this.cards.values()) {
      const here = card.suspect === suspect;
      card.box.tabIndex = here ? 0 : -1;
      card.box.classList.toggle("here", here);
    }
    this.onMark(suspect);
  }

  onMark() {} // another part of the page may follow the current suspect

  card(suspect) {
    if (!this.cards.has(suspect.row)) this.cards.set(suspect.row, new Card(suspect, this.data, this.decisions));
    const card = this.cards.get(suspect.row);
    card.show(this.decisions.of(suspect));
    return card;
  }

  /* Focus the card at this place of the page; beyond its ends, turn the page. */
  focus(place) {
    if (place < 0 && this.page > 0) {
      this.turn(-1);
      place = this.shown.length - 1;
    } else if (place >= this.shown.length && this.page + 1 < this.pages) {
      this.turn(1);
      place = 0;
    }
    const suspect = this.shown[Math.min(Math.max(place, 0), this.shown.length - 1)];
    if (!suspect) return;
    this.mark(suspect);
    const box = this.card(suspect).box;
    box.focus({ preventScroll: true });
    // At once: during a smooth scroll a second key or tap would meet another card.
    box.scrollIntoView({ block: onPhone() ? "start" : "nearest", behavior: "instant" });
  }

  turn(by) {
    this.page = Math.min(Math.max(this.page + by, 0), this.pages - 1);
    this.draw();
  }

  /* Turn to the page of a row, and focus its card; clear the filters if they hide it. */
  reveal(row) {
    const find = () => this.found.findIndex((suspect) => suspect.row === row);
    if (find() < 0) {
      byId("filters").reset();
      this.refresh();
    }
    const place = find();
    if (place < 0) return;
    this.page = Math.floor(place / this.size);
    this.draw();
    this.focus(place % this.size);
  }

  place(element) {
    const box = element.closest(".card");
    return this.shown.findIndex((suspect) => this.card(suspect).box === box);
  }
}

function onPhone() {
  return matchMedia("(max-width: 40rem)").matches;
}

function plural(count) {
  return `${count.toLocaleString("en")} label${count === 1 ? "" : "s"}`;
}

function pairOf(suspect) {
  return `${suspect.given}:${suspect.suggested}`;
}

function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return counts;
}

function option(value, text) {
  return new Option(text, value);
}

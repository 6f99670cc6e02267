"use strict";

/* The decisions of the user as a list of steps, kept in the browser's storage. The last step can be
   undone. A step is a list of changes [row, decision, label]; an empty decision removes one. A label
   is the number of a class, or the name of a new class. */
class Decisions {
  constructor(key, suspects, data) {
    this.key = key;
    this.suspects = suspects;
    this.data = data;
    this.kept = true; // whether the browser keeps anything
    this.load();
  }

  load() {
    this.steps = [];
    try {
      const stored = JSON.parse(localStorage.getItem(this.key) || "[]");
      if (Array.isArray(stored)) this.steps = stored.filter(Array.isArray).map(asStep);
    } catch {
      this.kept = false;
    }
    this.replay();
  }

  replay() {
    this.now = new Map();
    for (const change of this.steps.flat()) this.apply(change);
  }

  save() {
    try {
      localStorage.setItem(this.key, JSON.stringify(this.steps));
    } catch {
      this.kept = false;
    }
  }

  apply([row, decision, label]) {
    if (decision) this.now.set(row, { decision, label });
    else this.now.delete(row);
  }

  /* The same decision a second time removes it. */
  decide(suspect, wanted, chosen) {
    // Without a suggestion there is nothing to accept: the given label is kept.
    const decision = wanted === "accept" && !hasSuggestion(suspect) ? "reject" : wanted;
    const before = this.of(suspect);
    const label = { accept: suspect.suggested, relabel: chosen }[decision] ?? suspect.given;
    const same = before && before.decision === decision && before.label === label;
    this.take([same ? [suspect.row, "", -1] : [suspect.row, decision, label]]);
  }

  /* Accept the suggestions of several suspects in one step. */
  acceptAll(suspects) {
    this.take(suspects.map((suspect) => [suspect.row, "accept", suspect.suggested]));
  }

  take(step) {
    this.steps.push(step);
    step.forEach((change) => this.apply(change));
    this.save();
  }

  /* Undo the last step; return its changes. */
  undo() {
    const last = this.steps.pop();
    if (!last) return [];
    this.replay();
    this.save();
    return last;
  }

  of(suspect) {
    return this.now.get(suspect.row);
  }

  labelName(label) {
    return typeof label === "number" ? this.data.classes[label] : label;
  }

  /* What was decided, in words. */
  verdict({ decision, label }) {
    const words = { accept: "Accepted", relabel: "Relabelled", delete: "Deleted" }[decision];
    if (decision === "delete") return words;
    return `${words || `${decision === "reject" ? "Rejected" : "Unsure"}, stays`}: ${this.labelName(label)}`;
  }

  /* The suspects on this page that have a decision. */
  get decided() {
    return this.suspects.filter((suspect) => this.now.has(suspect.row));
  }

  csv() {
    const lines = this.decided.map((suspect) => {
      const { decision, label } = this.of(suspect);
      return [this.data.root + suspect.id, decision, this.labelName(label)].map(quoted).join(",");
    });
    return ["id,decision,label", ...lines].join("\n") + "\n";
  }
}

/* Pages of earlier versions stored one change as a step. */
function asStep(stored) {
  return Array.isArray(stored[0]) || stored.length === 0 ? stored : [stored];
}

/* A value quoted for a CSV file. */
function quoted(value) {
  const text = String(value);
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

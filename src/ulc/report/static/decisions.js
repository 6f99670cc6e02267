"use strict";

/* What the user decided, step by step: the last step can always be undone, and a reloaded page
   finds all of them again. A step is [row, decision, label]; an empty decision takes one back. */
class Decisions {
  constructor(key, suspects, classes) {
    this.key = key;
    this.suspects = suspects;
    this.classes = classes;
    this.kept = true; // whether the browser keeps anything
    this.load();
  }

  load() {
    this.steps = [];
    try {
      const stored = JSON.parse(localStorage.getItem(this.key) || "[]");
      if (Array.isArray(stored)) this.steps = stored.filter(Array.isArray);
    } catch {
      this.kept = false;
    }
    this.now = new Map();
    for (const step of this.steps) this.apply(step);
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

  /* The same decision once more takes it back. */
  decide(suspect, decision, chosen) {
    const before = this.of(suspect);
    const label = { accept: suspect.suggested, reject: suspect.given, relabel: chosen }[decision];
    const same = before && before.decision === decision && before.label === label;
    const step = same ? [suspect.row, "", -1] : [suspect.row, decision, label];
    this.steps.push(step);
    this.apply(step);
    this.save();
  }

  /* Take the last step back; return the row it was about. */
  undo() {
    const last = this.steps.pop();
    if (!last) return undefined;
    const before = this.steps.findLast(([row]) => row === last[0]);
    this.apply(before || [last[0], "", -1]);
    this.save();
    return last[0];
  }

  of(suspect) {
    return this.now.get(suspect.row);
  }

  /* Of the suspects on this page. */
  get decided() {
    return this.suspects.filter((suspect) => this.now.has(suspect.row));
  }

  csv() {
    const lines = this.decided.map((suspect) => {
      const { decision, label } = this.of(suspect);
      return [suspect.id, decision, this.classes[label]].map(quoted).join(",");
    });
    return ["id,decision,label", ...lines].join("\n") + "\n";
  }
}

/* A value of a CSV file. */
function quoted(value) {
  const text = String(value);
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

"use strict";

/* The decisions of the user as a list of steps, kept in the browser's storage. The last step can be
   undone. A step is [row, decision, label]; an empty decision removes one. */
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

  /* The same decision a second time removes it. */
  decide(suspect, decision, chosen) {
    const before = this.of(suspect);
    const label = { accept: suspect.suggested, reject: suspect.given, relabel: chosen }[decision];
    const same = before && before.decision === decision && before.label === label;
    const step = same ? [suspect.row, "", -1] : [suspect.row, decision, label];
    this.steps.push(step);
    this.apply(step);
    this.save();
  }

  /* Undo the last step; return its row. */
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

  /* The suspects on this page that have a decision. */
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

/* A value quoted for a CSV file. */
function quoted(value) {
  const text = String(value);
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

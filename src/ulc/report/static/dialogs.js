"use strict";

/* The dialogs: another label by typing, and a larger picture. */
class RelabelDialog {
  constructor(classes) {
    this.classes = classes;
    this.dialog = byId("relabel");
    this.input = byId("relabel-label");
    byId("class-names").append(...classes.map((name) => new Option(name, name)));
    this.input.addEventListener("input", () => this.describe());
    // Not in the event "close", which comes later: the next key would come before it.
    this.dialog.querySelector("form").addEventListener("submit", (event) => {
      if (event.submitter && event.submitter.value !== "take") return;
      event.preventDefault();
      this.dialog.onclose = null;
      this.dialog.close();
      this.take(this.label);
    });
  }

  /* The number of the class that is typed, in any case; else its name as that of a new class. */
  get label() {
    const typed = this.input.value.trim();
    const same = this.classes.indexOf(this.input.value);
    if (same >= 0) return same;
    const lower = typed.toLowerCase();
    const alike = this.classes.findIndex((name) => name.trim().toLowerCase() === lower);
    return alike >= 0 ? alike : typed;
  }

  describe() {
    const label = this.label;
    byId("relabel-take").disabled = label === "";
    byId("relabel-note").textContent =
      typeof label === "string" && label ? `“${label}” is a new class. Mind the spelling.` : "";
  }

  /* Ask for a label; `take` gets it, `leave` is called if there is none. */
  open(name, before, take, leave) {
    byId("relabel-about").textContent = name;
    this.input.value = before;
    this.describe();
    this.take = take;
    this.dialog.onclose = leave;
    this.dialog.showModal();
    this.input.select();
  }
}

class ZoomDialog {
  constructor(data) {
    this.data = data;
    this.dialog = byId("zoom");
    this.dialog.addEventListener("click", () => this.dialog.close());
  }

  get shown() {
    return this.dialog.open;
  }

  open(suspect, leave) {
    if (!suspect.picture) return;
    const { classes } = this.data;
    byId("zoom-title").textContent = `${classes[suspect.given]} → ${classes[suspect.suggested]}`;
    byId("zoomed").replaceChildren(picture(suspect.picture), ...references(suspect, this.data));
    this.dialog.onclose = leave;
    this.dialog.showModal();
  }

  /* back: whether the focus goes back to the card */
  close(back) {
    if (!back) this.dialog.onclose = null;
    this.dialog.close();
  }
}

"use strict";

/* The map of the data follows the gallery, and a click on a suspect shows its card. */
function linkMap(gallery) {
  const map = byId("map");
  if (!map) return;
  map.addEventListener("click", (event) => {
    const point = event.target.closest("circle[data-row]");
    if (point) gallery.reveal(Number(point.dataset.row));
  });
  gallery.onMark = (suspect) => {
    for (const path of map.querySelectorAll("path[data-class]")) {
      const number = Number(path.dataset.class);
      path.classList.toggle("is-suggested", number === suspect.suggested);
      path.classList.toggle("is-given", number === suspect.given);
    }
    const before = map.querySelector("circle.here");
    const now = map.querySelector(`circle[data-row="${suspect.row}"]`);
    if (before) before.classList.remove("here");
    if (!now) return;
    now.classList.add("here");
    now.parentNode.append(now); // on top of the others
  };
}

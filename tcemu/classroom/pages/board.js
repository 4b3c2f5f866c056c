// Fetches the part of the page that changes, every few seconds, unless the teacher has paused it.
"use strict";

const live = document.getElementById("live");
const pause = document.getElementById("pause");
const trouble = document.getElementById("trouble");
let paused = false;

async function update() {
  if (paused || document.hidden) return;
  try {
    // The hub accepts its cookie from a script only together with the page's own token.
    const headers = { "X-XSRFToken": live.dataset.token };
    const answer = await fetch(live.dataset.part, { credentials: "same-origin", redirect: "error", headers });
    if (!answer.ok) throw new Error(answer.status);
    // Keep the keyboard's place: the scrollable regions have the same names before and after.
    const held = document.activeElement?.getAttribute("aria-label");
    live.innerHTML = await answer.text();
    if (held) [...live.querySelectorAll("[tabindex]")].find(each => each.getAttribute("aria-label") === held)?.focus();
    trouble.textContent = "";
  } catch {
    trouble.textContent = "No connection to the hub. This page is out of date; reload it.";
  }
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Updates are paused: resume" : "Pause updates";
});
setInterval(update, 5000);

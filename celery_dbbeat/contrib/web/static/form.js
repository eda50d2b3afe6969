// Shows what a definition means while it is typed. All of it comes from the server, as text.
"use strict";

const form = document.getElementById("schedule");
const description = document.getElementById("told");
const times = document.getElementById("times");
let waiting = 0;
let asked = 0;

function line(one) {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.dateTime = one.utc;
  time.textContent = one.local;
  item.append(time);
  if (one.dst) {
    const note = document.createElement("small");
    note.textContent = one.dst;
    item.append(note);
  }
  return item;
}

function show(found) {
  description.textContent = found.description || "–";
  times.replaceChildren(...found.times.map(line));
  document.getElementById("problem-").textContent = found.problems[""] || "";
  for (const field of form.querySelectorAll("[data-field]")) {
    const input = form.elements[field.dataset.field];
    // What nobody has come to yet is not wrong yet.
    const started = input.value !== "" || field.classList.contains("wrong");
    const problem = started ? found.problems[field.dataset.field] || "" : "";
    field.classList.toggle("wrong", problem !== "");
    input.setAttribute("aria-invalid", String(problem !== ""));
    field.querySelector(".problem").textContent = problem;
  }
}

async function check() {
  const mine = ++asked;
  form.classList.add("checking");
  try {
    const answer = await fetch(form.dataset.check, {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
    });
    if (mine !== asked) return;
    if (answer.ok) show(await answer.json());
    else description.textContent = "No answer: save to see why.";
  } catch {
    if (mine === asked) description.textContent = "No answer from the server.";
  } finally {
    if (mine === asked) form.classList.remove("checking");
  }
}

form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(check, 200);
});

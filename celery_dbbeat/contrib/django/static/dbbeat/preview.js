"use strict";
// Shows what the form says of "when" in words and as fire times, a moment after each change.
document.addEventListener("DOMContentLoaded", () => {
    const box = document.getElementById("dbbeat-preview");
    if (!box) {
        return;
    }
    const form = document.getElementById("schedule_form");
    const watched = ["kind", "expression", "timezone", "start_at", "end_at", "max_runs", "exclude"];
    const description = box.querySelector(".dbbeat-description");
    const problem = box.querySelector(".dbbeat-problem");
    const list = box.querySelector("ol");
    const notes = { gap: "clocks skip this time: the first instant after it", fold: "clocks show this time twice" };
    let waiting = 0;
    let newest = 0;

    const show = (answer) => {
        const problems = Object.values(answer.problems || {}).flat();
        description.textContent = answer.description || "";
        problem.textContent = problems.join("\n");
        list.replaceChildren(...(answer.times || []).map((time) => {
            const item = document.createElement("li");
            const utc = document.createElement("small");
            item.textContent = time.local;
            utc.textContent = time.local.endsWith("UTC") ? "" : time.utc;
            if (notes[time.dst]) {
                utc.textContent += ` (${notes[time.dst]})`;
            }
            item.append(utc);
            return item;
        }));
        if (answer.times && !answer.times.length) {
            problem.textContent = "No fire time is left.";
        }
    };

    const ask = async () => {
        const number = ++newest;
        const field = (name) => form.elements[name];
        if (!field("expression").value.trim()) {
            show({});
            return;
        }
        const body = new FormData(form);
        try {
            const response = await fetch(box.dataset.url, { method: "POST", body, credentials: "same-origin" });
            const answer = response.ok ? await response.json() : { problems: { expression: [`The preview is not available (${response.status}).`] } };
            if (number === newest) { // an older answer may come later
                show(answer);
            }
        } catch (error) {
            if (number === newest) {
                show({ problems: { expression: [`The preview is not available: ${error.message}`] } });
            }
        }
    };

    for (const name of watched) {
        const input = form.elements[name];
        if (input) {
            input.addEventListener("input", () => {
                clearTimeout(waiting);
                waiting = setTimeout(ask, 250);
            });
        }
    }
    ask();
});

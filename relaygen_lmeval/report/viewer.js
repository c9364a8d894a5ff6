"use strict";
// Shows the texts of the page. Model texts only ever become text nodes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const controls = Object.fromEntries(
    ["task", "left", "right", "verdict", "cue", "truncated", "search"].map((id) => [id, at(id)]),
  );
  // Lists in the data, by place; see traces.py.
  const [CORRECT, FLAGS, E2E_S, N_WRITTEN, SHARE, SEGMENTS] = Array(6).keys();
  const [ROLE, IS_ANSWER, TEXT, N_TOKENS, ENDED_BY, MATCHED, WAIT, PREFILL, DECODE, DRAFTED, ACCEPTED] =
    Array(11).keys();
  let shown = []; // numbers of the problems that pass the filters
  let current = -1; // number of the problem on show

  const make = (tag, className = "", text = "") => {
    const element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    return element;
  };
  const options = (select, pairs) =>
    select.replaceChildren(
      ...pairs.map(([value, text]) => {
        const option = make("option", "", text);
        option.value = value;
        return option;
      }),
    );
  const task = () => data.tasks[controls.task.value];
  const textOf = (problem, select) => (select.value === "" ? null : problem.texts[select.value]);
  const word = (segment, place) => task().words[segment[place]] ?? "";
  const isRight = (text) => text[CORRECT] >= 0.5;
  const scored = (text) => text && text[CORRECT] !== null;
  const whole = (text) => text[SEGMENTS].map((segment) => segment[TEXT]).join("");
  const cueOf = (segment) => (word(segment, ENDED_BY) === "cue" ? word(segment, MATCHED) : "");
  const cuesOf = (text) => text[SEGMENTS].map(cueOf).filter(Boolean);

  function passes(problem) {
    const text = textOf(problem, controls.left);
    if (!text) return false;
    const beside = textOf(problem, controls.right);
    const { verdict, cue, truncated, search } = controls;
    if (verdict.value === "differ") {
      if (!scored(text) || !scored(beside) || isRight(text) === isRight(beside)) return false;
    } else if (verdict.value && (!scored(text) || isRight(text) !== (verdict.value === "right"))) {
      return false;
    }
    if (cue.value && !cuesOf(text).includes(cue.value)) return false;
    if (truncated.checked && !text[FLAGS].length) return false;
    const sought = search.value.toLowerCase();
    const texts = [text, beside].filter(Boolean).map(whole);
    return !sought || [problem.prompt, problem.target, ...texts].join("\n").toLowerCase().includes(sought);
  }

  function sign(text) {
    if (!scored(text)) return make("span", "verdict", "–");
    return isRight(text) ? make("span", "verdict right", "✓") : make("span", "verdict wrong", "✗");
  }

  // A prompt without the markers of its chat template, for a line of the list; of a long one, which
  // has examples, the end.
  function brief(prompt) {
    const plain = prompt.replace(/<\|[^|>]*\|>(user|assistant|system)?\s/g, " ").replace(/\s+/g, " ").trim();
    return plain.length > 400 ? `… ${plain.slice(-160)}` : plain.slice(0, 160);
  }

  function fillTasks() {
    options(controls.task, data.tasks.map((one, i) => [i, one.task]));
    fillPolicies();
  }

  function fillPolicies() {
    const has = data.policies
      .map((name, i) => [i, name])
      .filter(([i]) => task().problems.some((problem) => problem.texts[i]));
    const relay = has.find(([i]) => task().problems.some((p) => p.texts[i] && cuesOf(p.texts[i]).length));
    options(controls.left, has);
    options(controls.right, [["", "nothing"], ...has]);
    if (relay) controls.left.value = relay[0];
    fillCues();
  }

  function fillCues() {
    const counts = new Map();
    for (const problem of task().problems) {
      const text = textOf(problem, controls.left);
      for (const cue of text ? new Set(cuesOf(text)) : []) counts.set(cue, (counts.get(cue) || 0) + 1);
    }
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const before = controls.cue.value;
    options(controls.cue, [["", "any"], ...sorted.map(([cue, n]) => [cue, `${cue.trim()} (${n})`])]);
    if (counts.has(before)) controls.cue.value = before;
    filter();
  }

  function filter() {
    const problems = task().problems;
    shown = problems.map((_, i) => i).filter((i) => passes(problems[i]));
    at("count").textContent = `${shown.length} of ${problems.length} problems`;
    at("problems").replaceChildren(...shown.map(item));
    show(shown.includes(current) ? current : (shown[0] ?? -1));
  }

  function item(i) {
    const problem = task().problems[i];
    const button = make("button");
    button.type = "button";
    const beside = textOf(problem, controls.right);
    button.append(sign(textOf(problem, controls.left)), ...(beside ? [sign(beside)] : []));
    button.append(make("span", "", `${i + 1}. ${brief(problem.prompt)}`));
    button.addEventListener("click", () => show(i));
    button.dataset.problem = i;
    const line = make("li");
    line.append(button);
    return line;
  }

  function show(i) {
    current = i;
    for (const button of at("problems").querySelectorAll("button")) {
      if (Number(button.dataset.problem) === i) {
        button.setAttribute("aria-current", "true");
        const list = at("problems");
        const top = button.offsetTop - list.offsetTop;
        if (top < list.scrollTop || top + button.offsetHeight > list.scrollTop + list.clientHeight) {
          list.scrollTop = top - list.clientHeight / 2;
        }
      } else button.removeAttribute("aria-current");
    }
    const problem = task().problems[i];
    at("shown").hidden = !problem;
    if (!problem) return;
    at("prompt").textContent = problem.prompt;
    at("target").textContent = problem.target ? `Right answer: ${problem.target}` : "";
    const panes = [controls.left, controls.right].filter((select) => select.value !== "");
    at("panes").replaceChildren(...panes.map((select) => pane(select, textOf(problem, select))));
  }

  function pane(select, text) {
    const out = make("article", "pane");
    const heading = make("h3", "", `${data.policies[select.value]} `);
    out.append(heading);
    if (!text) {
      out.append(make("p", "figures", "has no text on this problem"));
      return out;
    }
    heading.append(sign(text));
    if (scored(text)) heading.append(make("span", "", isRight(text) ? " right" : " wrong"));
    const figures = [];
    if (text[E2E_S] !== null) {
      const share = Math.round(100 * text[SHARE]);
      figures.push(`${text[E2E_S]} s`, `${text[N_WRITTEN]} tokens`, `${share} % by the large model`);
    }
    figures.push(...text[FLAGS].map((flag) => flag.replace("_", " ")));
    out.append(make("p", "figures", figures.join(", ")));
    const body = make("div", "text");
    body.append(...text[SEGMENTS].filter((segment) => segment[TEXT]).map(stretch));
    out.append(body);
    return out;
  }

  function stretch(segment) {
    const role = data.roles[segment[ROLE]];
    const out = make("span", `seg ${role}${segment[IS_ANSWER] ? " answer" : ""}`);
    const [text, cue] = [segment[TEXT], cueOf(segment)];
    const place = cue ? text.lastIndexOf(cue) : -1;
    if (place < 0) out.textContent = text;
    else out.append(text.slice(0, place), make("mark", "", cue), text.slice(place + cue.length));
    if (role === "model") return out;
    out.title = told(segment, role);
    const tell = () => {
      for (const other of document.querySelectorAll(".chosen")) other.classList.remove("chosen");
      out.classList.add("chosen");
      at("detail").textContent = out.title;
      at("detail").className = "told";
    };
    out.addEventListener("mouseenter", tell);
    out.addEventListener("click", tell);
    return out;
  }

  function told(segment, role) {
    const who = role === "added" ? "added by the relay" : `${role} model`;
    const parts = [
      `${who}, ${segment[IS_ANSWER] ? "answer" : "reasoning"}`,
      `${segment[N_TOKENS]} tokens`,
      `waited ${segment[WAIT]} ms, catch-up ${segment[PREFILL]} ms, decode ${segment[DECODE]} ms`,
    ];
    if (segment[DRAFTED]) parts.push(`${segment[ACCEPTED]} of ${segment[DRAFTED]} drafted tokens accepted`);
    const [by, matched] = [word(segment, ENDED_BY).replaceAll("_", " "), word(segment, MATCHED).trim()];
    if (by) parts.push(`ended by ${by}${matched ? ` “${matched}”` : ""}`);
    return parts.join("; ");
  }

  function step(by) {
    if (!shown.length) return;
    const place = shown.indexOf(current) + by;
    show(shown[Math.min(Math.max(place, 0), shown.length - 1)]);
    if (at("problems").contains(document.activeElement)) {
      at("problems").querySelector("[aria-current]").focus({ preventScroll: true });
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target === controls.search) {
      event.preventDefault(); // browsers empty the field
      controls.search.blur();
    }
    if (event.target.closest?.("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      controls.search.focus();
    } else if (event.key === "j" || (event.key === "ArrowDown" && event.target.closest?.("#problems"))) {
      event.preventDefault();
      step(1);
    } else if (event.key === "k" || (event.key === "ArrowUp" && event.target.closest?.("#problems"))) {
      event.preventDefault();
      step(-1);
    }
  });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  controls.task.addEventListener("change", fillPolicies);
  controls.left.addEventListener("change", fillCues);
  for (const name of ["right", "verdict", "cue", "truncated"]) controls[name].addEventListener("change", filter);
  controls.search.addEventListener("input", filter);
  if (data.tasks.length) fillTasks();
})();

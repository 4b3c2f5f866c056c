// The view of an Explorer and of a Prediction: controls, a picture, and a line that screen readers announce.
//
// Python sends `controls` (what there is and where it stands), `html` (the picture), `said` (what has changed) and
// `answered` (the number of the request that these answer); the view sends `asked` (a number, and the controls that the
// reader has moved since the last answer).

function element(parent, tag, properties = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "for" || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  parent.append(made);
  return made;
}

// In JupyterLab a letter is a command (b: a new cell) and arrows choose a cell, unless the focus is on a text field or
// on an element that says otherwise. Controls that are not text fields say so, and handle their keys themselves.
function keys(target, act) {
  if (target.type !== "text") target.setAttribute("data-lm-suppress-shortcuts", "true");
  target.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !act(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

// Each kind of control: build(row, control, id, change) makes the elements, and returns show(control) to update them.
const KINDS = {
  range(row, control, id, change) {
    element(row, "label", { for: id, textContent: control.label });
    const box = element(row, "input", { type: "number", id, className: "tcemu-number" });
    const name = `${control.label}, slider`;
    const slider = element(row, "input", { type: "range", className: "tcemu-slider", "aria-label": name });
    const places = (String(control.step).split(".")[1] || "").length;
    const move = (value) => {
      const [low, high] = [Number(slider.min), Number(slider.max)];
      if (Number.isNaN(value)) return;
      const within = Math.min(high, Math.max(low, value)).toFixed(places);
      slider.value = box.value = within;
      change(Number(within));
    };
    slider.addEventListener("input", () => move(Number(slider.value)));
    const typed = () => move(box.value === "" ? NaN : Number(box.value));
    box.addEventListener("change", typed);
    keys(box, (key) => key === "Enter" && (typed(), true));
    keys(slider, (key) => {
      if (key === "Home") move(Number(slider.min));
      else if (key === "End") move(Number(slider.max));
      else if (key in STEPS) move(Number(slider.value) + STEPS[key] * Number(slider.step));
      else return false;
      return true;
    });
    return (now) => {
      for (const input of [box, slider]) {
        Object.assign(input, { min: now.low, max: now.high, step: now.step });
        if (Number(input.value) !== now.value || input.value === "") input.value = now.value.toFixed(places);
      }
      row.hidden = now.low === now.high;
    };
  },

  select(row, control, id, change) {
    element(row, "label", { for: id, textContent: control.label });
    const list = element(row, "select", { id });
    for (const option of control.options) element(list, "option", { value: option, textContent: option });
    list.addEventListener("change", () => change(list.value));
    keys(list, (key) => {
      if (!key.startsWith("Arrow")) return false;
      const next = list.selectedIndex + STEPS[key] * (key === "ArrowUp" || key === "ArrowDown" ? -1 : 1);
      if (next >= 0 && next < list.options.length) {
        list.selectedIndex = next;
        change(list.value);
      }
      return true;
    });
    return (now) => { list.value = now.value; };
  },

  radio(row, control, id, change) {
    const group = element(row, "fieldset");
    element(group, "legend", { textContent: control.label });
    const inputs = control.options.map((option, number) => {
      const label = element(group, "label");
      const input = element(label, "input", { type: "radio", name: id, value: option, id: `${id}-${number}` });
      label.append(option);
      input.addEventListener("change", () => change(option));
      return input;
    });
    const choose = (number) => {
      const input = inputs[(number + inputs.length) % inputs.length];
      input.checked = true;
      input.focus();
      change(input.value);
    };
    inputs.forEach((input, number) => keys(input, (key) => {
      if (key.startsWith("Arrow")) choose(number + (key === "ArrowRight" || key === "ArrowDown" ? 1 : -1));
      else if (key === " ") choose(number);
      else return false;
      return true;
    }));
    return (now) => inputs.forEach((input) => { input.checked = input.value === now.value; });
  },

  text(row, control, id, change) {
    element(row, "label", { for: id, textContent: control.label });
    const box = element(row, "input", { type: "text", id, autocomplete: "off", spellcheck: false });
    if (control.hint) {
      box.setAttribute("aria-describedby", `${id}-hint`);
      element(row, "span", { id: `${id}-hint`, className: "tcemu-hint", textContent: control.hint });
    }
    box.addEventListener("input", () => change(box.value));
    keys(box, (key) => key === "Enter" && (box.form.requestSubmit(), true));
    return (now) => { if (box.value !== now.value) box.value = now.value; };
  },
};

// A picture is named after its content. In a view all pictures have one name, so that the elements that two of them
// share are equal, style sheet included.
function named(html, id) {
  const names = [...html.matchAll(/<svg [^>]*\bid="(tc[0-9a-f]{10})"/g)].map((found) => found[1]);
  return names.reduce((text, name, number) => text.replaceAll(name, `${id}-picture${number}`), html);
}

// Make an element equal to another one, and keep all nodes that are equal already: the browser then styles, lays out
// and paints only what has changed. What the reader has opened stays open, and what is scrolled stays where it is.
function become(old, made) {
  for (const { name, value } of made.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) {
    if (name !== "open" && !made.hasAttribute(name)) old.removeAttribute(name);
  }
  const [before, after] = [[...old.childNodes], [...made.childNodes]];
  while (before.length && after.length && before[0].isEqualNode(after[0])) {
    before.shift();
    after.shift();
  }
  let rest = null; // the first of the equal nodes at the end
  while (before.length && after.length && before.at(-1).isEqualNode(after.at(-1))) {
    rest = before.pop();
    after.pop();
  }
  before.splice(after.length).forEach((each) => each.remove());
  after.forEach((each, number) => {
    const there = before[number];
    if (!there) old.insertBefore(each, rest);
    else if (there.nodeName !== each.nodeName) there.replaceWith(each);
    else if (there.nodeType === Node.TEXT_NODE) there.data = each.data;
    else become(there, each);
  });
}

function render({ model, el }) {
  const id = `tcemu-${Math.random().toString(36).slice(2)}`; // every widget loads this script again
  let later = 0;
  el.classList.add("tcemu-view");
  const form = element(el, "form");
  if (model.get("head")) {
    const head = element(form, "p", { className: "tcemu-head", id: `${id}-head` });
    element(head, "strong", { textContent: "Predict. " });
    model.get("head").split("`").forEach((piece, number) => {
      if (number % 2) element(head, "code", { textContent: piece });
      else head.append(piece);
    });
    form.setAttribute("aria-labelledby", head.id);
  }
  // What stands beside the labels is in line, unless a label is very long. Most letters are narrower than 1ch.
  const labels = model.get("controls").map((control) => Math.min(control.label.length, 20));
  form.style.setProperty("--tcemu-label", `${0.9 * Math.max(9, ...labels)}ch`);
  const button = model.get("button");
  const values = {}; // what the reader has set, until Python has answered it
  let sent = {};
  const last = () => model.get("asked").count || 0;
  const waiting = () => model.get("answered") < last();
  const ask = () => {
    sent = { ...values };
    model.set("asked", { values: sent, count: last() + 1 });
    model.save_changes();
  };
  const shows = model.get("controls").map((control, number) => {
    const row = element(form, "div", { className: `tcemu-control tcemu-${control.kind}` });
    return KINDS[control.kind](row, control, `${id}-${number}`, (value) => {
      values[control.name] = value; // a request replaces one that has not been sent yet: it repeats what is unanswered
      if (!button) ask();
    });
  });
  if (button) {
    const press = element(form, "button", { type: "submit", textContent: button });
    keys(press, (key) => (key === "Enter" || key === " ") && (ask(), true));
    model.on("change:button", () => { press.textContent = model.get("button"); });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (button) ask();
  });
  const figure = element(el, "div", { className: "tcemu-figure" });
  // A cell that is clicked, or reached with the arrow keys and entered, is chosen: its lane, and its register and operand
  // if there are controls for them.
  const choose = (cell) => {
    const told = /: ([a-z_]+?)(\d+) of lane (\d+)$/.exec(cell?.querySelector("title")?.textContent);
    if (!told) return false;
    const held = { operand: told[1], register: told[2], lane: told[3] };
    const chosen = shows.filter((show, number) => {
      const { name, kind } = model.get("controls")[number];
      if (!(name in held)) return false;
      values[name] = kind === "range" ? Number(held[name]) : held[name];
      return true;
    });
    if (chosen.length && !button) ask();
    return chosen.length > 0;
  };
  figure.addEventListener("click", (event) => choose(event.target.closest(".z path")));
  figure.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && choose(figure.querySelector(".z .on"))) event.preventDefault();
  });
  const status = element(el, "div", { className: "tcemu-said", role: "status", "aria-live": "polite" });

  // A late answer does not set back a control that the reader is still moving, nor what was typed since.
  const stand = () => {
    if (waiting()) return;
    for (const name of Object.keys(sent)) if (values[name] === sent[name]) delete values[name];
    sent = {};
    model.get("controls").forEach((control, number) => {
      shows[number](control.name in values ? { ...control, value: values[control.name] } : control);
    });
  };
  const draw = () => {
    const made = figure.cloneNode();
    made.innerHTML = named(model.get("html"), id);
    const cells = () => [...figure.querySelectorAll(".z path")];
    const on = cells().findIndex((each) => each.classList.contains("on")); // where the arrow keys are
    become(figure, made);
    if (on >= 0) cells()[on]?.classList.add("on");
  };
  // Announce a dragged slider only where it stops.
  const say = () => {
    clearTimeout(later);
    later = setTimeout(() => { status.textContent = model.get("said"); }, 400);
  };
  model.on("change:controls", stand);
  model.on("change:answered", stand);
  model.on("change:html", draw);
  model.on("change:said", say);
  stand();
  draw();
  return () => clearTimeout(later);
}

export default { render };

// Lets the explorers and questions of a page answer without a kernel: view.js, served by what is stored in the page.
{
  const { judge, render } = window.tcemu;
  const FIRST = 0x100; // the first letter of frames.Pieces

  /** What view.js takes for a widget's model; `answer` says what changes when the reader asks. */
  function model(held, answer) {
    const heard = {};
    const change = (changes) => {
      Object.assign(held, changes);
      for (const name of Object.keys(changes)) heard[`change:${name}`]?.forEach((act) => act());
    };
    return {
      get: (name) => held[name],
      set: (name, value) => { held[name] = value; },
      on: (name, act) => { (heard[name] ??= []).push(act); },
      save_changes: () => change({ ...answer(held.asked.values), answered: held.asked.count }),
    };
  }

  function explorer({ controls, free, start: first, states, pieces }) {
    const names = controls.map(({ name }) => name);
    const all = free.length === names.length;
    const byValues = new Map(states.map((state) => [JSON.stringify(state.values), state]));
    const start = states[first];
    let now = start;
    const apart = (control, one, other) => (
      control.kind === "range" ? Math.abs(one - other) / Math.max(control.high, 1) : Number(one !== other));
    // The state where the controls that have moved stand as asked, and the others as near as possible.
    const nearest = (values, asked) => {
      const far = (state) => controls.reduce((sum, control, at) => (
        sum + apart(control, state.values[at], values[at]) * (control.name in asked ? 1000 : 1)), 0);
      return states.reduce((best, state) => (far(state) < far(best) ? state : best));
    };
    const reached = (asked) => {
      const from = (state) => state.values.map((value, at) => asked[names[at]] ?? value);
      const kept = (values) => byValues.get(JSON.stringify(values));
      const [here, there] = [from(now), from(start)];
      return kept(here) ?? (all ? nearest(here, asked) : kept(there) ?? nearest(there, asked));
    };
    const shown = ({ values, highs, said, html }) => ({
      controls: controls.map((control, at) => ({
        ...control, value: values[at], ...(control.kind === "range" ? { high: Math.max(highs[at], control.low) } : {}),
      })),
      html: Array.from(html, (letter) => pieces[letter.charCodeAt(0) - FIRST]).join(""),
      said,
    });
    return model({ head: "", button: "", asked: {}, answered: 0, ...shown(start) }, (asked) => shown(now = reached(asked)));
  }

  const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const inline = (text) => escaped(text).split("`").map((piece, at) => (at % 2 ? `<code>${piece}</code>` : piece)).join("");

  function prediction({ head, controls, parts, marks, reveal }) {
    const texts = parts.map(() => "");
    const told = (said, html, button) => ({
      controls: controls.map((control, at) => ({ ...control, value: texts[at] })),
      html: `<div class="tcemu-answer">${html}</div>`, said, button,
    });
    return model({ head, controls, button: "Compare", html: "", said: "", asked: {}, answered: 0 }, (asked) => {
      for (const [at, text] of Object.entries(asked)) texts[at] = text;
      try {
        const verdicts = judge(parts, texts);
        const marked = verdicts.map((each) => `<p>${marks[Number(each.right)]}${inline(each.told)}</p>`).join("");
        return told(verdicts.map((each) => each.told).join("\n"), marked + reveal, "Compare again");
      } catch (error) {
        return told(error.message, `<p>${inline(error.message)}</p>`, "Compare");
      }
    });
  }

  const MODELS = { explorer, prediction };

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  /** Put a view in the place of each picture and question that the page keeps answers for. */
  async function answer() {
    if (!window.DecompressionStream) return; // an old browser shows what a page without scripts shows
    const kept = {}; // states by name: several explorers of a page may have the same
    for (const held of document.querySelectorAll("script.tcemu-answers")) {
      const told = await unpacked(held.textContent);
      const facts = { ...kept[told.kept], ...told };
      if (facts.states) kept[facts.kept] = { states: facts.states, pieces: facts.pieces };
      const el = document.createElement("div");
      render({ model: MODELS[facts.kind](facts), el });
      if (facts.note) {
        const note = Object.assign(document.createElement("p"), { className: "tcemu-note", textContent: facts.note });
        el.querySelector("form").append(note);
      }
      held.previousElementSibling.replaceWith(el);
      held.remove();
    }
    // what stands above a heading that was asked for may have another height now
    if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    document.documentElement.dataset.tcemuAnswers = "ready";
  }

  answer();
}

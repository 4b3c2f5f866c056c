// What JupyterLab does differently in the course. This is a federated extension as JupyterLab loads it: there is nothing
// to build.

// 80 to 90 characters in a line of text, as in a book. The code of a question is folded; its first line would show, which
// may give the answer away.
const STYLE = `
.jp-RenderedHTMLCommon :is(p, ul, ol, dl, blockquote) { max-width: 72ch; }
.jp-InputPlaceholder .jp-PlaceholderText { display: none; }`;
// START.md is written anew when an exercise is solved. Milliseconds between looks at it, while it can be seen.
const [PAGE, PAUSE] = ["START.md", 2000];

// A key on what the text or an output has, such as a summary or a link, is no command for the cell: x would cut it.
function keep({ target }) {
  if (target.closest?.(".jp-OutputArea-output *, .jp-RenderedMarkdown *")) {
    target.setAttribute("data-lm-suppress-shortcuts", "true");
  }
}

async function refresh(app) {
  for (const { isVisible, context } of app.shell.widgets("main")) {
    if (!isVisible || document.hidden || context?.path !== PAGE || !context.isReady || context.model.dirty) continue;
    const now = await app.serviceManager.contents.get(PAGE, { content: false });
    if (now.last_modified !== context.contentsModel.last_modified) await context.revert();
  }
}

function activate(app) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  document.head.append(style);
  document.addEventListener("focusin", keep);
  const look = () => refresh(app).catch(() => {}).then(() => setTimeout(look, PAUSE)); // the server may be away
  app.restored.then(look);
}

window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB.tcemu = {
  init() {},
  get: async () => () => ({ __esModule: true, default: { id: "tcemu:course", autoStart: true, activate } }),
};

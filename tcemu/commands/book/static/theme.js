// The pictures know JupyterLab's dark theme; tell them about the site's.
(() => {
  const root = document.documentElement;
  const tell = () => {
    if (document.body) document.body.dataset.jpThemeLight = String(root.dataset.theme !== "dark");
  };
  new MutationObserver(tell).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  document.addEventListener("DOMContentLoaded", tell);
})();

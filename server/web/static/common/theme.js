// Sets the theme before the first paint: the saved one, or that of the system. Loaded without defer, not a module.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const saved = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // localStorage may be unavailable in private windows
    }
  };
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event("themechange"));
  };
  const system = () => (dark.matches ? "dark" : "light");
  show(saved() || system());
  dark.addEventListener("change", () => saved() || show(system()));
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      show(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      try {
        localStorage.setItem("theme", document.documentElement.dataset.theme);
      } catch {
        /* see above */
      }
    });
  });
})();

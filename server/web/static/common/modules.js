// Loads the modules of the page after its first paint: the second frame begins when the first one is drawn. A page that
// is not visible has no frames and loads them at once.
"use strict";
(() => {
  const load = () => document.head.append(document.getElementById("modules").content);
  if (document.hidden) load();
  else requestAnimationFrame(() => requestAnimationFrame(load));
})();

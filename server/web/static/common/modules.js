// Loads the modules of the page when its first paint is on the screen, so that they do not delay it. A page that is not
// visible is not painted and loads them at once. A page whose address has a text does not paint its example.
"use strict";
(() => {
  if (/[#&?](q|id)=/.test(location.hash + location.search)) document.documentElement.dataset.linked = "";
  const load = () => document.head.append(document.getElementById("modules").content);
  if (document.hidden || !PerformanceObserver.supportedEntryTypes?.includes("paint")) return load();
  new PerformanceObserver((entries) => entries.getEntriesByName("first-contentful-paint").length && load()).observe({
    type: "paint",
    buffered: true,
  });
})();

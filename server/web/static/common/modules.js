// Loads the modules of the page when its first paint is on the screen, so that they do not delay it. A page that is not
// visible, or is one view in a frame, has nothing to paint and loads them at once. A page whose address has a text does not paint its example.
"use strict";
(() => {
  const { dataset } = document.documentElement,
    view = location.hash + location.search;
  if (/[#&?](q|id)=/.test(view)) dataset.linked = "";
  if ("embed" in dataset) dataset.embed = /[#&?]tab=(\w+)/.exec(view)?.[1] ?? "";
  const load = () => document.head.append(document.getElementById("modules").content);
  if (document.hidden || "embed" in dataset || !PerformanceObserver.supportedEntryTypes?.includes("paint"))
    return load();
  new PerformanceObserver((entries) => entries.getEntriesByName("first-contentful-paint").length && load()).observe({
    type: "paint",
    buffered: true,
  });
})();

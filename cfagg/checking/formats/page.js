"use strict";
(() => {
  const all = (root, selector) => Array.from(root.querySelectorAll(selector));
  const tools = document.querySelector(".tools");
  const search = tools.querySelector("input");
  const shown = tools.querySelector("output");
  const order = tools.querySelector("select");
  const buttons = all(tools, "button[data-severity]");
  const sources = all(document, ".source").map((section) => ({
    section,
    home: section.querySelector(".findings"),
    byVariable: all(section, ".group"),
    byRule: null,
    name: section.dataset.source.toLowerCase(),
    items: all(section, ".finding"),
  }));

  for (const source of sources) {
    source.items = source.items.map((element) => {
      const rule = element.closest(".rule");
      const data = {
        element,
        rule,
        code: rule.dataset.code,
        severity: rule.dataset.severity,
        variable: element.closest(".group").dataset.variable,
      };
      data.text = [data.code, data.variable, element.textContent, rule.querySelector("p").textContent, source.name]
        .join("\n").toLowerCase();
      return data;
    });
  }

  // The other order is made when it is first asked for: a group for each rule, in it a block for each variable.
  function groupsByRule(source) {
    const groups = new Map();
    const grave = ["error", "warning", "info"];
    const sorted = [...source.items].sort((a, b) => grave.indexOf(a.severity) - grave.indexOf(b.severity));
    for (const item of sorted) {
      if (!groups.has(item.code)) {
        const group = document.createElement("details");
        group.className = "group";
        group.open = true;
        const summary = document.createElement("summary");
        summary.append(...item.rule.querySelector("p").cloneNode(true).childNodes);
        group.append(summary);
        groups.set(item.code, group);
      }
      const block = document.createElement("div");
      block.className = "rule";
      block.dataset.severity = item.severity;
      const head = document.createElement("p");
      const name = document.createElement("b");
      name.textContent = item.variable || "dataset";
      head.append(name);
      const list = document.createElement("ul");
      const copy = item.element.cloneNode(true);
      item.copy = copy;
      list.append(copy);
      block.append(head, list);
      const before = groups.get(item.code).lastElementChild;
      if (before.className === "rule" && before.firstElementChild.textContent === head.textContent
          && before.dataset.severity === item.severity) {
        before.lastElementChild.append(copy);
      } else {
        groups.get(item.code).append(block);
      }
    }
    return Array.from(groups.values());
  }

  function arrange() {
    for (const source of sources) {
      if (order.value === "rule" && source.byRule === null) {
        source.byRule = groupsByRule(source);
      }
      source.home.replaceChildren(...(order.value === "rule" ? source.byRule : source.byVariable));
    }
    filter();
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const off = new Set(buttons.filter((b) => b.getAttribute("aria-pressed") === "false").map((b) => b.dataset.severity));
    const filtered = words.length > 0 || off.size > 0;
    let visible = 0;
    let total = 0;
    for (const source of sources) {
      let here = 0;
      for (const item of source.items) {
        const hide = off.has(item.severity) || !words.every((word) => item.text.includes(word));
        item.element.hidden = hide;
        if (item.copy) {
          item.copy.hidden = hide;
        }
        here += hide ? 0 : 1;
      }
      for (const block of all(source.home, ".rule, .group")) {
        block.hidden = block.querySelector(".finding:not([hidden])") === null;
      }
      source.section.hidden = filtered && here === 0 && !(words.length > 0 && off.size === 0
        && words.every((word) => source.name.includes(word)));
      visible += here;
      total += source.items.length;
    }
    shown.textContent = `${visible.toLocaleString("en")} of ${total.toLocaleString("en")} shown`;
  }

  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 80);
  });
  order.addEventListener("change", arrange);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
      filter();
    });
  }
  for (const link of all(document, "a[data-code]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      search.value = link.dataset.code;
      filter();
      tools.scrollIntoView();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });
  tools.hidden = false;
  filter();
})();

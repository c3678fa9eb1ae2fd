// Draws nodes and edges with cytoscape, placed by d3's force simulation a few steps per frame.

import cytoscape from "../vendor/cytoscape.js";

const { forceSimulation, forceLink, forceManyBody, forceX, forceY, forceCollide } = globalThis.d3;
const STEP_MS = 12; // of layout per frame, so that the page stays responsive
const MAX_TICKS = 260;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function style() {
  return [
    { selector: "node", style: { "background-color": "data(colour)", label: "data(label)", width: 18, height: 18, color: colour("--text"), "font-size": 10, "text-wrap": "ellipsis", "text-max-width": 130, "text-valign": "bottom", "text-margin-y": 3, "min-zoomed-font-size": 8, "border-width": 0 } },
    { selector: "node.focus", style: { width: 28, height: 28, "border-width": 4, "border-color": colour("--text"), "font-weight": 700, "min-zoomed-font-size": 0 } },
    { selector: "edge", style: { width: "data(width)", "line-color": colour("--line-strong"), opacity: 0.5, "curve-style": "haystack", "haystack-radius": 0 } },
    { selector: "edge.people", style: { "line-color": colour("--accent"), opacity: 0.85 } },
    { selector: "edge.automatic", style: { "line-style": "dashed" } },
    { selector: "edge.forbidden", style: { "line-color": colour("--danger"), "line-style": "dotted" } },
    { selector: "edge.path", style: { "line-color": colour("--p2"), "line-style": "solid", width: 5, opacity: 1, "z-index": 9 } },
    { selector: "node.path", style: { "border-width": 4, "border-color": colour("--p2") } },
  ];
}

/** Start a drawing; `update` shows other nodes and edges, keeping the places of those before. */
export function drawGraph(container, { onselect, onexpand }) {
  const cy = cytoscape({ container, style: style(), minZoom: 0.05, maxZoom: 4, hideEdgesOnViewport: false, textureOnViewport: true, pixelRatio: 1 });
  const places = new Map();
  let frame = 0;
  cy.on("tap", "node", (event) => onselect(event.target.id()));
  cy.on("dbltap", "node", (event) => onexpand(event.target.id()));
  const restyle = () => { cy.style(style()); recolour(); };
  const colours = new Map();
  addEventListener("themechange", restyle);

  function recolour() {
    cy.nodes().forEach((node) => { node.data("colour", colour(node.data("variable"))); });
  }

  function layout(nodes, links) {
    cancelAnimationFrame(frame);
    const known = nodes.filter((node) => places.has(node.id));
    for (const [index, node] of nodes.entries()) {
      const place = places.get(node.id);
      const radius = 30 * Math.sqrt(index + 1), angle = index * 2.4;
      node.x = place?.x ?? radius * Math.cos(angle);
      node.y = place?.y ?? radius * Math.sin(angle);
    }
    const simulation = forceSimulation(nodes).stop()
      .force("link", forceLink(links).id((node) => node.id).distance(90).strength(0.25))
      .force("charge", forceManyBody().strength(-220).distanceMax(600))
      .force("x", forceX().strength(0.04)).force("y", forceY().strength(0.04))
      .force("collide", forceCollide(24));
    if (known.length) simulation.alpha(0.5);
    let ticks = 0;
    const run = () => {
      const until = performance.now() + STEP_MS;
      while (performance.now() < until && ticks < MAX_TICKS && simulation.alpha() > 0.02) { simulation.tick(); ticks += 1; }
      cy.batch(() => { for (const node of nodes) { places.set(node.id, node); cy.getElementById(node.id).position({ x: node.x, y: node.y }); } });
      if (ticks < 40 || ticks % 10 === 0) cy.fit(undefined, 30);
      if (ticks < MAX_TICKS && simulation.alpha() > 0.02) frame = requestAnimationFrame(run);
      else { cy.fit(undefined, 30); container.dataset.settled = "true"; }
    };
    container.dataset.settled = "false";
    run();
  }

  function update(nodes, edges, focus, path) {
    colours.clear();
    const variables = new Map();
    for (const [, item] of nodes) if (!variables.has(item.type)) variables.set(item.type, `--p${variables.size % 8}`);
    for (const [type, variable] of variables) colours.set(type, `var(${variable})`);
    const onPath = new Set(path);
    const isStep = ([a, b]) => path.some((key, index) => index && ((path[index - 1] === a && key === b) || (path[index - 1] === b && key === a)));
    cy.batch(() => {
      cy.elements().remove();
      cy.add(nodes.map(([key, item]) => ({ group: "nodes", classes: [key === focus ? "focus" : "", onPath.has(key) ? "path" : ""].join(" "),
        data: { id: key, label: item.title || String(item.id), variable: variables.get(item.type), colour: colour(variables.get(item.type)) } })));
      cy.add(edges.map(({ edge, ends }) => ({ group: "edges", data: { id: [...ends, edge.type].join("\n"), source: ends[0], target: ends[1], width: 1 + 3 * edge.weight },
        classes: [edge.weight === 0 ? "forbidden" : edge.origin ? "automatic" : "people", isStep(ends) ? "path" : ""].join(" ") })));
    });
    container.dataset.nodes = String(nodes.length);
    container.dataset.edges = String(edges.length);
    container.dataset.pathEdges = String(cy.edges(".path").length);
    layout(nodes.map(([key]) => ({ id: key })), edges.map(({ ends }) => ({ source: ends[0], target: ends[1] })));
    return colours;
  }

  function focus(key) {
    cy.nodes(".focus").removeClass("focus");
    cy.getElementById(key).addClass("focus");
  }

  function destroy() {
    cancelAnimationFrame(frame);
    removeEventListener("themechange", restyle);
    cy.destroy();
  }

  return { update, focus, destroy };
}

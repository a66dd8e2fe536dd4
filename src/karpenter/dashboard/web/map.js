// The map: a canvas that can be moved, searched and walked with arrow keys.
import { useEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
import { drawMap, GROUND } from "./draw.js";
import { counted, cpu, hourly, memory, percent } from "./format.js";
import { arranged, cellAt, fitted, grouped, nextCell, zoomed } from "./layout.js";
import { signsOf, wordsOf } from "./store.js";
import { scheme, settings } from "./settings.js";
import { html, say } from "./ui.js";

const STILL_MS = 80; // after the last gesture the map is drawn anew
export const MARK_MS = 5000; // how long new cells are outlined, and gone ones grey
const STEP = 60;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Nodes with marks: what came is new, and what went stays for a while. */
function useMarked(nodes, isStill) {
  const memory = useRef({ known: null, came: new Map(), gone: new Map() });
  const [, setTurn] = useState(0);
  return useMemo(() => {
    const { known, came, gone } = memory.current;
    if (isStill) return nodes;
    const until = Date.now() + MARK_MS;
    const current = new Map(nodes.map((node) => [node.id, node]));
    if (known) {
      for (const [id, node] of known) if (!current.has(id)) gone.set(id, { node, until });
      for (const id of current.keys()) if (!known.has(id)) came.set(id, until);
    }
    memory.current.known = current;
    for (const marks of [came, gone]) {
      for (const [id, mark] of marks) if ((mark.until ?? mark) <= Date.now() || (marks === gone && current.has(id))) marks.delete(id);
    }
    if (!came.size && !gone.size) return nodes;
    setTimeout(() => setTurn((turn) => turn + 1), MARK_MS + 50);
    const ghosts = [...gone.values()].map(({ node }) => ({ ...node, mark: "gone", pods: [] }));
    return [...nodes.map((node) => (came.has(node.id) ? Object.assign(node, { mark: "new" }) : node)), ...ghosts];
  }, [nodes, isStill]);
}

function useSize(element) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize({ width: Math.round(width), height: Math.round(height) });
    });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return size;
}

export function ClusterMap({ nodes, colors, found, now, by, area, selected, covered = 0, onSelect, onOpen, isStill = false, label = "Map of the nodes" }) {
  const frame = useRef(null);
  const canvas = useRef(null);
  const cached = useRef(null); // the last drawing, and the camera it was made with
  const gesture = useRef({ pointers: new Map(), timer: 0, moved: 0 });
  const { width, height } = useSize(frame);
  const marked = useMarked(nodes, isStill);
  const layout = useMemo(
    () => arranged(grouped(marked, by), { width: width - 8, height: height - 8, area }), [marked, by, area, width, height]);
  const [camera, setCamera] = useState(null);
  const [hovered, setHovered] = useState(null);
  const [card, setCard] = useState(null);
  const view = camera ?? fitted(layout, width, height);
  const ground = GROUND[scheme.value];
  const state = { layout, camera: view, width, height, colors, ground, found, now, selected };
  const latest = useRef(state);
  latest.current = state;

  const redraw = () => {
    const { width, height, camera } = latest.current;
    if (!width || !canvas.current) return;
    const ratio = devicePixelRatio || 1;
    const target = canvas.current;
    if (target.width !== Math.round(width * ratio) || target.height !== Math.round(height * ratio)) {
      [target.width, target.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const context = target.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawMap(context, latest.current);
    cached.current = { camera, bitmap: null };
  };
  // While a gesture lasts the last bitmap is moved; afterwards everything is drawn anew
  const moveBitmap = (next) => {
    const target = canvas.current;
    const ratio = devicePixelRatio || 1;
    const old = cached.current;
    if (!old.bitmap) {
      old.bitmap = new OffscreenCanvas(target.width, target.height);
      old.bitmap.getContext("2d").drawImage(target, 0, 0);
    }
    const factor = next.zoom / old.camera.zoom;
    const context = target.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, target.width, target.height);
    context.drawImage(old.bitmap, (next.x - old.camera.x * factor) * ratio, (next.y - old.camera.y * factor) * ratio,
      target.width * factor, target.height * factor);
  };
  const move = (next) => {
    latest.current = { ...latest.current, camera: next };
    moveBitmap(next);
    clearTimeout(gesture.current.timer);
    gesture.current.timer = setTimeout(() => setCamera(next), STILL_MS);
  };

  useEffect(() => {
    const frameId = requestAnimationFrame(redraw);
    return () => cancelAnimationFrame(frameId);
  });
  useEffect(() => {
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== frame.current) return;
      event.preventDefault();
      const box = frame.current.getBoundingClientRect();
      move(zoomed(latest.current.camera, Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top));
    };
    frame.current.addEventListener("wheel", wheel, { passive: false });
    return () => frame.current?.removeEventListener("wheel", wheel);
  }, []);

  const at = (event) => {
    const box = frame.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const down = (event) => {
    gesture.current.pointers.set(event.pointerId, at(event));
    gesture.current.moved = 0;
    frame.current.setPointerCapture?.(event.pointerId);
  };
  const over = (event) => {
    const { pointers } = gesture.current;
    const place = at(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      const cell = cellAt(layout, latest.current.camera, ...place);
      setHovered(cell?.node.id ?? null);
      setCard(cell ? { node: cell.node, x: place[0], y: place[1] } : null);
      return;
    }
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, place);
    gesture.current.moved += Math.hypot(place[0] - before[0], place[1] - before[1]);
    if (gesture.current.moved < 4) return;
    setCard(null);
    let next = latest.current.camera;
    if (others.length) {
      const [, [x, y]] = others[0];
      const factor = Math.hypot(place[0] - x, place[1] - y) / Math.max(1, Math.hypot(before[0] - x, before[1] - y));
      next = zoomed(next, factor, (place[0] + x) / 2, (place[1] + y) / 2);
    } else next = { ...next, x: next.x + place[0] - before[0], y: next.y + place[1] - before[1] };
    move(next);
  };
  const up = (event) => {
    const wasClick = gesture.current.moved < 4 && gesture.current.pointers.has(event.pointerId);
    gesture.current.pointers.delete(event.pointerId);
    if (!wasClick || event.type !== "pointerup") return;
    const cell = cellAt(layout, latest.current.camera, ...at(event));
    if (!cell || cell.node.mark === "gone") onSelect?.(null);
    else if (selected === cell.node.id) onOpen?.(cell.node);
    else onSelect?.(cell.node);
  };
  const zoom = (factor) => move(factor ? zoomed(latest.current.camera, factor, width / 2, height / 2) : fitted(layout, width, height));
  const current = layout.cells.find((cell) => cell.node.id === selected) ?? null;
  // The chosen cell is moved to where nothing covers it
  const bring = (cell) => {
    const scale = layout.scale * view.zoom;
    const [x, y, side] = [view.x + cell.x * scale, view.y + cell.y * scale, cell.side * scale];
    const pan = (low, size, room) => (low < 0 ? -low + 8 : low + size > room ? room - low - size - 8 : 0);
    const [dx, dy] = [pan(x, side, width > 2 * covered ? width - covered : width), pan(y, side, height)];
    if (dx || dy) setCamera({ ...view, x: view.x + dx, y: view.y + dy });
  };
  useEffect(() => {
    if (current) bring(current);
  }, [selected, covered]);
  const key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) setCamera({ ...view, x: view.x - arrow[0] * STEP, y: view.y - arrow[1] * STEP });
    else if (arrow && layout.cells.length) onSelect?.((current ? nextCell(layout, current, ...arrow) : layout.cells[0]).node);
    else if (event.key === "Enter" && current) onOpen?.(current.node);
    else if ((event.key === "+" || event.key === "=") && settings.value.hasKeys) zoom(1.4);
    else if (event.key === "-" && settings.value.hasKeys) zoom(1 / 1.4);
    else if (event.key === "0" && settings.value.hasKeys) zoom(0);
    else if (event.key === "Escape" && selected !== null) onSelect?.(null);
    else return;
    event.preventDefault();
  };
  useEffect(() => {
    if (found && !isStill) say(`${counted(found.nodes.size, "node")} and ${counted(found.pods.size, "pod")} found`);
  }, [found]);
  return html`<div class="map">
    <div class="map-frame" ref=${frame} tabindex="0" role="grid" aria-label=${`${label}, ${counted(nodes.length, "cell")}`} aria-readonly="true"
      aria-rowcount=${nodes.length} aria-activedescendant=${current ? `cell-${current.node.id}` : undefined}
      style=${{ cursor: hovered === null ? "grab" : "pointer" }}
      onKeyDown=${key} onPointerDown=${down} onPointerMove=${over} onPointerUp=${up} onPointerCancel=${up} onPointerLeave=${() => setCard(null)}>
      <canvas ref=${canvas} role="presentation"></canvas>
      <div role="row" class="unseen" aria-rowindex=${current ? layout.cells.indexOf(current) + 1 : 1}>
        <div role="gridcell" id=${current ? `cell-${current.node.id}` : "cell-none"} aria-selected=${Boolean(current)}>
          ${current ? wordsOf(current.node, now) : "press an arrow key to choose a node"}</div></div>
      ${card && html`<${Card} ...${card} now=${now} width=${width} />`}
    </div>
    ${!isStill && html`<div class="map-zoom" role="group" aria-label="Zoom">
      <button onClick=${() => zoom(1.4)} aria-label="zoom in">+</button>
      <button onClick=${() => zoom(1 / 1.4)} aria-label="zoom out">−</button>
      <button onClick=${() => zoom(0)} aria-label="show the whole map">⤢</button></div>`}
  </div>`;
}

function Card({ node, x, y, now, width }) {
  const style = { left: `${Math.max(4, Math.min(x + 14, width - 250))}px`, top: `${y + 16}px` };
  const signs = signsOf(node, now);
  return html`<div class="card-hover" style=${style} aria-hidden="true">
    <b>${node.count > 1 ? `${node.count} × ${node.name}` : node.name}</b>
    <div class="soft">${[node.type, node.zone, node.capacityType].filter(Boolean).join(" · ")}</div>
    <div>${[node.state, ...signs.map((sign) => `${sign.glyph} ${sign.words}`)].join(" · ")}</div>
    <div class="num">${cpu(node.cpuUsed)} of ${cpu(node.cpu)} cpu (${percent(node.cpuUsed / node.cpu)}) ·
      ${" "}${memory(node.memoryUsed)} of ${memory(node.memory)}</div>
    <div class="num">${counted(node.pods.length, "pod")} · ${hourly(node.price, node.isEstimate)}</div></div>`;
}

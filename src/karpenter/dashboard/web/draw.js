// Draws the map on a canvas: cells, blocks, signs and names, with more detail where there is room.
import { shortened } from "./format.js";
import { blocks } from "./layout.js";
import { shareOf, signsOf } from "./store.js";

// Eleven hues that people who see red and green alike can tell apart; on light and on dark ground
const HUES = {
  light: ["#2f6fb7", "#a8651b", "#1f7f5c", "#8a4fa8", "#b8405e", "#477d99", "#77761c", "#5a58b8", "#0f7f86", "#8d5a3c", "#b0489a"],
  dark: ["#6ea8e8", "#dca05a", "#4fbf94", "#bf93dc", "#ec8498", "#8fc0da", "#bdbb5c", "#9c9cf0", "#4cc3c9", "#c99a7c", "#e78fd2"],
};
const OTHER = { light: "#6b7480", dark: "#949daa" };
const STATES = { Running: 0, Starting: 6, Terminating: 1, Waiting: 4, Gated: 3 };
const COSTS = { light: ["#8798ac", "#6886a8", "#4a74a5", "#2d62a2", "#0f4f9e"], dark: ["#5a6f8a", "#6483aa", "#6e98ca", "#8bb4e4", "#b4d4fb"] };

export const GROUND = {
  light: { cell: "#ffffff", gone: "#eceef1", line: "#b9c1cb", ink: "#1b222b", soft: "#56616e", bad: "#b3261e", wait: "#8a5a00", added: "#17754a", focus: "#0b62c4", back: "#f4f6f8", hatch: "rgba(255,255,255,.5)", onBlock: "#ffffff" },
  dark: { cell: "#1d2430", gone: "#262b33", line: "#475261", ink: "#e8ecf1", soft: "#a3adba", bad: "#ff8078", wait: "#e5b057", added: "#4cc38a", focus: "#7ab8ff", back: "#141920", hatch: "rgba(20,25,32,.5)", onBlock: "#10151b" },
};
export const COLORS = ["namespace", "owner", "state", "cost"];

const hash = (text) => {
  let value = 2166136261;
  for (const letter of text) value = Math.imul(value ^ letter.codePointAt(0), 16777619) >>> 0;
  return value;
};

/** Which hue each name has: by the name alone where hues are left, so that it is the same every time. */
function huesOf(names) {
  const taken = new Map();
  const hues = new Map();
  for (const name of [...new Set(names)].sort()) {
    if (taken.size === HUES.light.length) {
      hues.set(name, -1);
      continue;
    }
    let hue = hash(name) % HUES.light.length;
    while (taken.has(hue)) hue = (hue + 1) % HUES.light.length;
    taken.set(hue, name);
    hues.set(name, hue);
  }
  return hues;
}

/** What colours a model's pods have: a function of pod and node, and the legend. */
export function coloring(model, by, scheme) {
  const colour = (hue) => (hue < 0 || hue === undefined ? OTHER[scheme] : HUES[scheme][hue]);
  if (by === "state") {
    const states = new Set(model.pods.map((pod) => pod.state));
    return {
      of: (pod) => colour(STATES[pod.state]),
      legend: Object.keys(STATES).filter((name) => states.has(name)).map((name) => [name, colour(STATES[name])]),
    };
  }
  if (by === "cost") {
    const prices = model.nodes.map((node) => node.price ?? 0);
    const most = Math.max(...prices, 1e-9);
    const bin = (price) => COSTS[scheme][Math.min(4, Math.floor((price / most) * 5))];
    return {
      of: (_, node) => (node.price === null ? OTHER[scheme] : bin(node.price / node.count)),
      legend: COSTS[scheme].map((each, at) => [`≤ $${((most * (at + 1)) / 5).toFixed(3)}/h`, each]),
    };
  }
  const key = by === "owner" ? (pod) => (pod.owner ? `${pod.namespace} ${pod.owner}` : "") : (pod) => pod.namespace;
  const counts = new Map();
  for (const pod of model.pods) counts.set(key(pod), (counts.get(key(pod)) ?? 0) + 1);
  const largest = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, HUES.light.length);
  const hues = huesOf(largest.map(([name]) => name).filter(Boolean));
  const legend = [...hues].map(([name, hue]) => [name.split(" ").at(-1), colour(hue)]);
  if (counts.size > hues.size) legend.push(["other", OTHER[scheme]]);
  return { of: (pod) => colour(hues.get(key(pod))), legend };
}

const laid = new Map(); // id of a node -> its blocks, for the shape and the pods they were laid for

// Every view has new objects for the same nodes: what it takes to lay blocks anew is looked at first
const isLaidAlike = (one, other) => one === other || (one.cpu === other.cpu && one.memory === other.memory && one.pods.length === other.pods.length &&
  one.pods.every((pod, at) => ["id", "cpu", "memory"].every((name) => pod[name] === other.pods[at][name]) && !pod.flags.daemon === !other.pods[at].flags.daemon));

function blocksOf(node, width, height) {
  const shape = Math.round((width / height) * 50);
  let known = laid.get(node.id);
  if (known?.shape !== shape || !isLaidAlike(known.node, node)) {
    known = { shape, blocks: blocks(node.pods.map((pod, at) => ({ pod, at, share: shareOf(pod, node) })), width / height, 1) };
    laid.set(node.id, known);
  } else if (known.node !== node) for (const block of known.blocks) block.pod = node.pods[block.at];
  return Object.assign(known, { node }).blocks;
}

/** Draws everything that is in the window. */
export function drawMap(context, scene) {
  const { layout, camera, width, height, ground } = scene;
  const scale = layout.scale * camera.zoom;
  if (laid.size > 2 * layout.cells.length + 100) laid.clear(); // of nodes that are gone
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  for (const group of layout.groups) {
    const size = Math.max(10, Math.min(13, group.header * scale * 0.62));
    const [x, y] = [camera.x + group.x * scale, camera.y + (group.y + group.header / 2) * scale];
    if (x > width || x + group.width * scale < 0 || y < -20 || y > height + 20) continue;
    const room = group.width * scale - 2;
    context.font = `600 ${size}px system-ui, sans-serif`;
    context.fillStyle = ground.ink;
    const name = fitting(context, group.name, room);
    const after = context.measureText(name).width;
    context.fillText(name, x + 1, y);
    const rest = ` ${group.nodes.reduce((sum, node) => sum + node.count, 0)}`;
    context.font = `${size}px system-ui, sans-serif`;
    context.fillStyle = ground.soft;
    if (after + context.measureText(rest).width <= room) context.fillText(rest, x + 2 + after, y);
  }
  for (const cell of layout.cells) {
    const box = { x: camera.x + cell.x * scale, y: camera.y + cell.y * scale, side: cell.side * scale };
    if (box.x > width || box.y > height || box.x + box.side < 0 || box.y + box.side < 0) continue;
    drawCell(context, scene, cell.node, box);
  }
}

function drawCell(context, scene, node, { x, y, side }) {
  const { ground, found, now, selected } = scene;
  const isFaded = found && !found.nodes.has(node.id);
  const isGone = node.mark === "gone";
  context.globalAlpha = isFaded ? 0.2 : isGone ? 0.55 : 1;
  const signs = node.mark ? [] : signsOf(node, now);
  const isBad = signs.some((sign) => sign.key === "bad");
  const isWaiting = signs.some((sign) => sign.key === "wait");
  context.beginPath();
  context.roundRect(x, y, side, side, Math.min(5, side / 8));
  context.fillStyle = isGone ? ground.gone : ground.cell;
  context.fill();
  const head = side >= 48 ? (side >= 64 ? 30 : 25) : 0;
  const pad = side >= 24 ? 2.5 : side >= 12 ? 1 : 0.5;
  if (!isGone) {
    if (side < 12) drawBar(context, scene, node, x + pad, y + pad, side - 2 * pad);
    else drawBlocks(context, scene, node, x + pad, y + head + pad, side - 2 * pad, side - head - 2 * pad, side);
  }
  context.beginPath();
  context.roundRect(x, y, side, side, Math.min(5, side / 8));
  const isDashed = node.state === "Claimed" || node.mark === "added";
  if (isDashed) context.setLineDash([4, 3]);
  context.strokeStyle = node.mark === "added" || node.mark === "new" ? ground.added
    : isBad || node.mark === "going" ? ground.bad : isWaiting ? ground.wait : ground.line;
  context.lineWidth = node.mark && !isGone ? 2 : isBad || isWaiting ? 1.5 : 1;
  context.stroke();
  context.setLineDash([]);
  if (node.mark === "going") drawCross(context, ground, x, y, side);
  if (head) drawNames(context, ground, node, signs, x, y, side);
  else if (side >= 14) drawSigns(context, ground, signs, x + side - 2, y + Math.min(8, side / 4), side);
  if (node.count > 1 && side >= 18 && !head) {
    Object.assign(context, { fillStyle: ground.ink, font: `700 ${Math.min(12, side / 2.5)}px system-ui, sans-serif` });
    context.fillText(String(node.count), x + 2, y + 8);
  }
  context.globalAlpha = 1;
  if (selected === node.id) {
    context.beginPath();
    context.roundRect(x - 2.5, y - 2.5, side + 5, side + 5, 7);
    Object.assign(context, { strokeStyle: ground.focus, lineWidth: 2.5 });
    context.stroke();
  }
}

function drawBar(context, { colors, ground }, node, x, y, side) {
  const use = Math.min(1, Math.max(node.cpu ? node.cpuUsed / node.cpu : 0, node.memory ? node.memoryUsed / node.memory : 0));
  context.fillStyle = node.pods.length ? colors.of(node.pods.at(-1), node) : ground.line;
  context.fillRect(x, y + side * (1 - use), side, side * use);
}

function drawBlocks(context, { colors, ground, found }, node, x, y, width, height, side) {
  if (height <= 2) return;
  const gap = side >= 30 ? 1 : 0;
  const alpha = context.globalAlpha;
  for (const block of blocksOf(node, width, height)) {
    const box = [x + block.x * height, y + block.y * height, block.width * height - gap, block.height * height - gap];
    if (box[2] <= 0.2 || box[3] <= 0.2) continue;
    if (found && !found.pods.has(block.pod.id) && found.pods.size) context.globalAlpha = alpha * 0.35;
    context.fillStyle = colors.of(block.pod, node);
    context.fillRect(...box);
    if (block.pod.flags.daemon && side >= 20) hatched(context, ground, box);
    if (side >= 120 && box[2] >= 40 && box[3] >= 12) {
      context.fillStyle = ground.onBlock;
      context.font = "10px system-ui, sans-serif";
      context.fillText(fitting(context, block.pod.name, box[2] - 6), box[0] + 3, box[1] + Math.min(box[3] / 2, 9));
    }
    context.globalAlpha = alpha;
  }
}

function hatched(context, ground, [x, y, width, height]) {
  const lines = new Path2D();
  for (let at = x - height; at < x + width; at += 4) {
    lines.moveTo(at, y + height);
    lines.lineTo(at + height, y);
  }
  const box = new Path2D();
  box.rect(x, y, width, height);
  context.save();
  context.clip(box);
  Object.assign(context, { strokeStyle: ground.hatch, lineWidth: 1 });
  context.stroke(lines);
  context.restore();
}

function drawCross(context, ground, x, y, side) {
  const [low, right, bottom] = [3, x + side - 3, y + side - 3];
  context.strokeStyle = ground.bad;
  context.stroke(new Path2D(`M${x + low} ${y + low}L${right} ${bottom}M${right} ${y + low}L${x + low} ${bottom}`));
}

/** A text with its middle left out, as long as it may be drawn. */
function fitting(context, text, room) {
  let most = text.length;
  for (let shown = text; ; shown = shortened(text, most)) {
    const wide = context.measureText(shown).width;
    if (wide <= room || most < 2) return most < 2 ? "" : shown;
    most = Math.min(most - 1, Math.floor((most * room) / wide));
  }
}

function drawNames(context, ground, node, signs, x, y, side) {
  const size = side >= 64 ? 11 : 9.5;
  const text = node.count > 1 ? `${node.count} × ${node.name}` : node.name;
  Object.assign(context, { font: `600 ${size}px system-ui, sans-serif`, fillStyle: ground.ink });
  context.fillText(fitting(context, text, side - 8), x + 4, y + size * 0.95);
  Object.assign(context, { font: `${size - 0.5}px system-ui, sans-serif`, fillStyle: ground.soft });
  const room = side - 8 - signs.reduce((sum, sign) => sum + (side >= 84 ? sign.text : sign.glyph).length, 0) * size * 0.75;
  context.fillText(fitting(context, node.type || node.state, room), x + 4, y + size * 2.15);
  drawSigns(context, ground, signs, x + side - 4, y + size * 2.15, side);
}

function drawSigns(context, ground, signs, right, y, side) {
  const size = side >= 48 ? 11 : Math.max(8, Math.min(11, side / 3));
  const most = side >= 48 ? 4 : side >= 30 ? 2 : 1;
  context.textAlign = "right";
  context.font = `700 ${size}px system-ui, sans-serif`;
  let x = right;
  for (const sign of signs.slice(0, most)) {
    const text = side >= 84 ? sign.text : sign.glyph;
    const wide = context.measureText(text).width + 2;
    context.fillStyle = ground.cell;
    if (side < 48) context.fillRect(x - wide, y - size / 2 - 1, wide + 1, size + 2);
    context.fillStyle = sign.key === "bad" ? ground.bad : sign.key === "wait" ? ground.wait : ground.ink;
    context.fillText(text, x, y + 0.5);
    x -= wide + 1;
  }
  context.textAlign = "left";
}


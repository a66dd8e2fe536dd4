// Where cells and blocks of the map lie; pure. Units are those of a grid; the camera makes pixels of them.

const SMALLEST = 2; // sides of a cell, in units: areas are at most 16 : 1
const LARGEST = 8;
const GAP = 0.35; // between cells
const GROUP_GAP = 1.6;
const MOST_NODES = 5000;
const MOST_PODS = 50_000;

export const GROUPINGS = {
  pool: (node) => node.pool || "not Karpenter's",
  zone: (node) => node.zone || "no zone",
  type: (node) => node.type || "no type yet",
  capacity: (node) => node.capacityType || "no capacity type",
  none: () => "all nodes",
};
const AREAS = {
  cpu: (node) => node.cpu,
  memory: (node) => node.memory,
  pods: (node) => node.mostPods,
};
export const SIZES = Object.keys(AREAS);
const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Groups by name, and in each the nodes by creation, then name: never by what they carry. */
export function grouped(nodes, by = "pool") {
  const key = GROUPINGS[by] ?? GROUPINGS.pool;
  const groups = new Map();
  for (const node of nodes) {
    const name = key(node);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  return [...groups].sort(([a], [b]) => byText(a, b)).map(([name, members]) => ({
    name,
    nodes: members.sort((a, b) => a.created - b.created || byText(a.name, b.name)),
  }));
}

/** Where there are too many: cells that stand for equal nodes, with their number. */
export function condensed(model) {
  if (model.nodes.length <= MOST_NODES && model.pods.length <= MOST_PODS) return null;
  const kinds = new Map();
  for (const node of model.nodes) {
    const key = [node.pool, node.type, node.zone, node.capacityType, node.state].join("\n");
    const kind = kinds.get(key);
    if (!kind) kinds.set(key, { ...node, name: node.type || node.state, members: [node] });
    else kind.members.push(node);
  }
  return [...kinds.values()].map((kind) => {
    const sum = (name) => kind.members.reduce((total, node) => total + node[name], 0);
    return {
      ...kind, count: kind.members.length, pods: kind.members.flatMap((node) => node.pods),
      cpu: sum("cpu"), memory: sum("memory"), mostPods: sum("mostPods"),
      cpuUsed: sum("cpuUsed"), memoryUsed: sum("memoryUsed"),
    };
  });
}

function sideOf(node, area, least) {
  const measure = (AREAS[area] ?? AREAS.cpu)(node);
  const side = Math.round(SMALLEST * Math.sqrt((measure || least) / least));
  return Math.min(LARGEST, Math.max(SMALLEST, side));
}

/** Puts squares on a grid of units, each in the first place from the top left where it fits. */
function packed(sides, width) {
  const rows = [];
  const starts = new Map(); // side -> where to look on: places only ever fill up
  let height = 0;
  const fits = (x, y, side) => {
    for (let v = y; v < y + side; v++) for (let u = x; u < x + side; u++) if (rows[v]?.[u] === 1) return false;
    return true;
  };
  const places = sides.map((side) => {
    let [x, y] = starts.get(side) ?? [0, 0];
    while (!fits(x, y, side)) {
      x += 1;
      if (x + side > width) [x, y] = [0, y + 1];
    }
    starts.set(side, [x, y]);
    for (let v = y; v < y + side; v++) (rows[v] ??= new Uint8Array(width)).fill(1, x, x + side);
    height = Math.max(height, y + side);
    return { x, y, side };
  });
  return { places, height };
}

function boxed(groups, sides, width, header, aspect) {
  const boxes = [];
  let [x, y, shelf] = [0, 0, 0];
  groups.forEach((group, at) => {
    const area = sides[at].reduce((sum, side) => sum + side * side, 0);
    const largest = Math.max(...sides[at]);
    const wanted = Math.max(largest, Math.ceil(Math.sqrt(area * 1.08 * aspect)), Math.ceil(header * 5));
    const inner = Math.max(largest, Math.min(width, wanted));
    const { places, height } = packed(sides[at], inner);
    if (x && x + inner > width) [x, y, shelf] = [0, y + shelf + GROUP_GAP, 0];
    boxes.push({ x, y, width: inner, height: height + header, places });
    x += inner + GROUP_GAP;
    shelf = Math.max(shelf, height + header);
  });
  const right = Math.max(1, ...boxes.map((box) => box.x + box.width));
  return { boxes, width: right, height: Math.max(1, y + shelf) };
}

/** Cells of groups for a window of this size; `scale` is how many pixels a unit has at zoom 1. */
export function arranged(groups, { width, height, area = "cpu" }) {
  const all = groups.flatMap((group) => group.nodes);
  if (!all.length) return { groups: [], cells: [], width: 1, height: 1, scale: 1 };
  const measure = AREAS[area] ?? AREAS.cpu;
  const least = Math.min(...all.map(measure).filter((value) => value > 0), Infinity);
  const sides = groups.map((group) => group.nodes.map((node) => sideOf(node, area, Number.isFinite(least) ? least : 1)));
  const most = Math.max(26, Math.min(64, 300 / Math.max(...sides.flat()))); // pixels of a unit: few nodes are large
  const total = sides.flat().reduce((sum, side) => sum + side * side, 0);
  let best = null;
  const guess = Math.min(most, Math.sqrt((width * height) / (total * 1.4)));
  const header = 20 / guess;
  const isMany = all.length > 300;
  for (const aspect of isMany ? [1.5, 6] : [0.8, 1.5, 3, 6]) {
    for (const factor of isMany ? [0.95, 1.1] : [0.75, 0.85, 0.95, 1.1, 1.3, 1.6]) {
      const wide = Math.max(LARGEST, Math.round(Math.sqrt((total * 1.3 * width) / height) * factor));
      const found = boxed(groups, sides, wide, header, aspect);
      const scale = Math.min(most, width / found.width, height / found.height);
      if (!best || scale > best.scale * 1.001) best = { ...found, scale };
    }
  }
  const cells = [];
  const laid = groups.map((group, at) => {
    const box = best.boxes[at];
    group.nodes.forEach((node, place) => {
      const { x, y, side } = box.places[place];
      const at = { x: box.x + x + GAP / 2, y: box.y + header + y + GAP / 2 };
      cells.push({ node, group: group.name, ...at, side: side - GAP });
    });
    return { name: group.name, nodes: group.nodes, x: box.x, y: box.y, width: box.width, header };
  });
  return { groups: laid, cells, width: best.width, height: best.height, scale: best.scale };
}

/** Blocks of pods in a box, from its bottom up; daemons lowest, then the largest. What is free stays free. */
export function blocks(pods, width, height) {
  const sum = pods.reduce((total, { share }) => total + share, 0);
  const factor = (width * height) / Math.max(1, sum);
  const order = [...pods].sort((a, b) =>
    Boolean(b.pod.flags.daemon) - Boolean(a.pod.flags.daemon) || b.share - a.share || a.pod.id - b.pod.id);
  const placed = [];
  let [y, row, rowArea] = [height, [], 0];
  const worst = (areas, area) => {
    const tall = area / width;
    return Math.max(...areas.map((each) => Math.max(tall / (each / tall), each / tall / tall)));
  };
  const flush = () => {
    if (!row.length) return;
    const tall = rowArea / width;
    let x = 0;
    for (const { pod, at, area } of row) {
      const wide = tall ? area / tall : 0;
      placed.push({ pod, at, x, y: y - tall, width: wide, height: tall });
      x += wide;
    }
    [y, row, rowArea] = [y - tall, [], 0];
  };
  for (const { pod, at, share } of order) {
    const area = share * factor;
    if (area <= 0) continue;
    const areas = row.map((each) => each.area);
    const isWorse = row.length &&
      (worst([...areas, area], rowArea + area) > worst(areas, rowArea) ||
        Boolean(row[0].pod.flags.daemon) !== Boolean(pod.flags.daemon));
    if (isWorse) flush();
    row.push({ pod, at, area });
    rowArea += area;
  }
  flush();
  return placed;
}

// The camera: what lies at the left top of the window, and how far it is zoomed in
const MOST_ZOOM = 8;
const LEAST_ZOOM = 0.05;

export function zoomed(camera, factor, x, y) {
  const zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, camera.zoom * factor));
  const ratio = zoom / camera.zoom;
  return { zoom, x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio };
}

/** The camera that shows the whole map in the middle of the window. */
export const fitted = (layout, width, height) => ({
  zoom: 1,
  x: Math.max(0, (width - layout.width * layout.scale) / 2),
  y: Math.max(0, Math.min(8, (height - layout.height * layout.scale) / 2)),
});

/** The cell at a point of the window, or null. */
export function cellAt(layout, camera, x, y) {
  const scale = layout.scale * camera.zoom;
  const [u, v] = [(x - camera.x) / scale, (y - camera.y) / scale];
  return layout.cells.find((cell) =>
    u >= cell.x && v >= cell.y && u < cell.x + cell.side && v < cell.y + cell.side) ?? null;
}

/** The cell that is next in a direction: near, and rather straight ahead. */
export function nextCell(layout, from, dx, dy) {
  const middle = (cell) => [cell.x + cell.side / 2, cell.y + cell.side / 2];
  const [x, y] = middle(from);
  let best = null;
  let least = Infinity;
  for (const cell of layout.cells) {
    const [u, v] = middle(cell);
    const ahead = (u - x) * dx + (v - y) * dy;
    if (ahead < 0.5) continue;
    const aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
    if (ahead + aside * 2.5 < least) [least, best] = [ahead + aside * 2.5, cell];
  }
  return best ?? from;
}

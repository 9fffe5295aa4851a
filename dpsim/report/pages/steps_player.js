"use strict";

// Draws schedules round by round into `root`: `walks` is a list of what steps_page.py's `drawn`
// tells. The position is the round whose transfers are drawn; cells are as they are after it.
function drawSteps(root, walks) {
  const SVG = "http://www.w3.org/2000/svg";
  const LETTERS = "abcdefghijklmnopqrstuvwxyz";
  const EACH_MS = 1100;
  const ROW = 34, LABEL = 26, EDGE = 6, HEAD = 20, FULL = 4, FEW = 8;
  const NARROW = 480;  // pixels, of a phone
  const LEAST = 448, BETWEEN = 40;  // pixels of a panel beside others, and between two
  const SHORT = 24;  // pixels of a cell whose sum is told by its first and last rank
  const MOST_TEXTS = 16, MOST_NUMBERS = 64, MOST_ARROWS = 64;

  // Text is only ever set as text, so that no name can become markup.
  function add(parent, name, attributes, text) {
    const made = parent.namespaceURI === SVG || name === "svg"
      ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // A column with a letter is a sender's own vector, in which nothing is summed.
  function sum(letters, column) {
    if (isNaN(column)) return letters ? column : "";
    return [...letters].map((letter) => letter + column).join("+");
  }

  function shortSum(letters, column, full) {
    if (letters.length <= full || isNaN(column)) return sum(letters, column);
    return letters[0] + column + "+…+" + letters[letters.length - 1] + column;
  }

  // Where a sum has no room: its ranks alone, the chunk being the column's.
  function ranksOf(letters, column) {
    if (letters.length < 2) return sum(letters, column);
    return letters.length < 4 ? letters : letters[0] + "…" + letters[letters.length - 1];
  }

  // Pixels that each panel has, before there are any.
  function room() {
    const all = root.clientWidth, most = Math.floor((all + BETWEEN) / (LEAST + BETWEEN));
    const beside = Math.max(1, Math.min(most, walks.length));
    return (all - BETWEEN * (beside - 1)) / beside;
  }

  // Every panel answers one question: show round `number`.
  function panel(parent, walk, index) {
    const section = add(parent, "section", {"aria-label": walk.title});
    add(section, "h3", {}, walk.title);
    add(section, "p", {}, "vectors of " + walk.size + " in " + walk.columns.length +
      (walk.columns.length === 1 ? " chunk" : " chunks"));
    const said = add(section, "p", {class: "said", "aria-live": "polite"});
    const pictures = add(section, "div", {class: "pictures"});
    const grid = cells(add(pictures, "div", {class: "scroll", tabindex: "0",
      "aria-label": "ranks and chunks of " + walk.title, role: "group"}), walk, index);
    const picture = (walk.picture ? cluster : circle)(
      add(pictures, "div", {class: "scroll"}), walk, index);
    const states = everyState(walk);
    return function show(number) {
      const at = Math.min(number, walk.rounds.length), round = walk.rounds[at - 1];
      said.textContent = round ? round.said : "before the first of " + walk.rounds.length +
        (walk.rounds.length === 1 ? " round" : " rounds");
      grid(states[at], round);
      picture(round);
    };
  }

  function everyState(walk) {
    const states = [new Map()];
    for (const [rank, chunk, letters, done] of walk.begin)
      states[0].set(rank + "," + chunk, [letters, done]);
    for (const round of walk.rounds) {
      const next = new Map(states[states.length - 1]);
      for (const [rank, chunk, letters, done] of round.cells)
        next.set(rank + "," + chunk, [letters, done]);
      states.push(next);
    }
    return states;
  }

  function arrowHeads(svg, index) {
    const defs = add(svg, "defs");
    for (const kind of ["sum", "copy"]) {
      const marker = add(defs, "marker", {id: kind + svg.dataset.kind + index, markerWidth: 9,
        markerHeight: 9, refX: 7, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse"});
      add(marker, "path", {d: "M0,0 L8,4 L0,8 z", class: "head " + kind});
    }
  }

  // The grid of lectures: a row for a rank, a column for a chunk, a mark for each summand.
  function cells(parent, walk, index) {
    const many = walk.columns.length, ranks = walk.ranks;
    const texts = many <= MOST_TEXTS, numbers = many <= MOST_NUMBERS;
    const narrow = root.clientWidth < NARROW;
    const full = narrow ? FULL - 2 : ranks <= FULL ? FULL : FULL - 1;
    const last = walk.columns[many - 1], term = 1 + last.length;
    // Terms and what is between them: all of a sum, or its first and last with dots.
    const letters = isNaN(last) ? term
      : Math.max(Math.min(ranks, full) * (term + 1) - 1, ranks > full ? 2 * term + 3 : 0);
    const whole = Math.max(40, 7.6 * letters + 9), apart = ranks <= FULL && !narrow ? 24 : 17;
    // Short sums rather than half of the columns; neither fits on a phone, where one scrolls.
    const short = texts && !narrow && isFinite(last) && LABEL + many * (whole + apart) > room();
    const each = (room() - LABEL - EDGE) / many, tight = short && each - apart < SHORT;
    const gap = !texts || tight ? 6 : apart;
    const wide = short ? Math.max(SHORT, Math.min(each - gap, whole))
      : texts ? whole : numbers ? 22 : 12;
    const width = LABEL + many * (wide + gap) + (tight ? EDGE : 0), height = HEAD + ranks * ROW + 4;
    const svg = add(parent, "svg", {width, height, viewBox: [0, 0, width, height].join(" "),
      role: "img", "data-kind": "grid"});
    const described = add(svg, "title", {}, walk.title);
    arrowHeads(svg, index);
    const left = (chunk) => LABEL + chunk * (wide + gap);
    const top = (rank) => HEAD + rank * ROW;
    if (numbers) walk.columns.forEach((column, chunk) => add(svg, "text",
      {x: left(chunk) + wide / 2, y: 13, "text-anchor": "middle", class: "small"}, column));
    const places = new Map();
    for (let rank = 0; rank < ranks; rank++) {
      add(svg, "text", {x: 6, y: top(rank) + 18}, LETTERS[rank]);
      for (let chunk = 0; chunk < many; chunk++) {
        const box = add(svg, "rect", {x: left(chunk), y: top(rank), width: wide,
          height: ROW - 8, rx: 3, class: "cell"});
        const title = add(box, "title");
        const marks = add(svg, "path", {class: "mark"});
        const text = add(svg, "text", {x: left(chunk) + wide / 2, y: top(rank) + 15,
          "text-anchor": "middle", class: tight ? "tight" : ""});
        places.set(rank + "," + chunk, {box, title, marks, text});
      }
    }
    const arrows = add(svg, "g");
    function cell(key, letters, done) {
      const [rank, chunk] = key.split(",").map(Number), place = places.get(key);
      const column = walk.columns[chunk];
      place.box.setAttribute("class", done ? "cell done" : "cell");
      place.title.textContent = "rank " + LETTERS[rank] + ", chunk " + column + ": " +
        (letters ? sum(letters, column) : "nothing yet");
      if (short) place.text.textContent = ranksOf(letters, column);
      else if (texts) place.text.textContent = shortSum(letters, column, full);
      else if (numbers) place.text.textContent = letters.length || "";
      // The marks below the text stand for ranks in order: which of them are in the sum.
      const each = (wide - 6) / ranks, y = top(rank) + ROW - 13;
      place.marks.setAttribute("d", [...new Set(letters)].map((letter) => "M" +
        (left(chunk) + 3 + LETTERS.indexOf(letter) * each) + "," + y + "h" +
        Math.max(each - 1, .8) + "v3h" + -Math.max(each - 1, .8) + "z").join(""));
    }
    function move([source, destination, chunk, count, reduce]) {
      const kind = reduce ? "sum" : "copy";
      const x = left(chunk + count - 1) + wide + 1;
      const from = top(source) + (ROW - 8) / 2, to = top(destination) + (ROW - 8) / 2;
      const aside = Math.min(gap - 4, 6 + 2 * Math.abs(source - destination));
      const shift = Math.sign(to - from) * 4;
      add(arrows, "path", {class: "arrow " + kind, "marker-end": "url(#" + kind + "grid" + index +
        ")", d: "M" + x + "," + (from + shift) + " C" + (x + aside) + "," + (from + shift) + " " +
        (x + aside) + "," + (to - shift) + " " + (x + 1) + "," + (to - shift)});
      for (let each = chunk; each < chunk + count; each++)
        places.get(destination + "," + each).box.classList.add("fresh",
          reduce ? "by-sum" : "by-copy");
    }
    return function show(state, round) {
      for (const [key, [letters, done]] of state) cell(key, letters, done);
      arrows.replaceChildren();
      arrows.setAttribute("opacity", round && round.moves.length > MOST_ARROWS ? .3 : 1);
      if (round) round.moves.forEach(move);
      const held = [...state.values()].filter(([, done]) => done).length;
      described.textContent = walk.title + ": " + held + " of " + state.size +
        " chunks are as they must be";
    };
  }

  // Ranks around a switch, and who sends to whom.
  function circle(parent, walk, index) {
    const size = walk.ranks <= FEW ? 148 : 250, middle = size / 2, radius = size / 2 - 22;
    const svg = add(parent, "svg", {width: size, height: size,
      viewBox: "0 0 " + size + " " + size, role: "img", "data-kind": "circle"});
    add(svg, "title", {}, "who sends to whom");
    arrowHeads(svg, index);
    const arrows = add(svg, "g");
    const place = (rank, shorter) => {
      const angle = 2 * Math.PI * rank / walk.ranks - Math.PI / 2;
      return [middle + (radius - shorter) * Math.cos(angle),
        middle + (radius - shorter) * Math.sin(angle)];
    };
    for (let rank = 0; rank < walk.ranks; rank++) {
      const [x, y] = place(rank, 0);
      add(svg, "circle", {cx: x, cy: y, r: 13, class: "rank"});
      add(svg, "text", {x, y: y + 4, "text-anchor": "middle"}, LETTERS[rank]);
    }
    return function show(round) {
      arrows.replaceChildren();
      arrows.setAttribute("opacity", round && round.moves.length > MOST_ARROWS ? .3 : 1);
      for (const [source, destination, , , reduce] of round ? round.moves : []) {
        const [ax, ay] = place(source, 0), [bx, by] = place(destination, 0);
        const long = Math.hypot(bx - ax, by - ay), ux = (bx - ax) / long, uy = (by - ay) / long;
        // To the right of the way, so that the two of an exchange lie side by side.
        const sx = -uy * 3.5, sy = ux * 3.5, kind = reduce ? "sum" : "copy";
        add(arrows, "path", {class: "arrow " + kind,
          "marker-end": "url(#" + kind + "circle" + index + ")",
          d: "M" + (ax + 14 * ux + sx) + "," + (ay + 14 * uy + sy) +
            "L" + (bx - 15 * ux + sx) + "," + (by - 15 * uy + sy)});
      }
    };
  }

  // The cluster: the links that carry something in the round light up.
  function cluster(parent, walk) {
    const {devices, lines} = walk.picture;
    const xs = Object.values(devices).map((device) => device.x);
    const ys = Object.values(devices).map((device) => device.y);
    const unit = Math.max(14,
      Math.min(40, Math.min(620, room()) / (Math.max(...xs) - Math.min(...xs) + 2)));
    const x = (device) => (device.x - Math.min(...xs) + 1) * unit;
    const y = (device) => (Math.max(...ys) - device.y) * 26 + 26;
    const width = (Math.max(...xs) - Math.min(...xs) + 2) * unit;
    const height = (Math.max(...ys) - Math.min(...ys)) * 26 + 76;
    const svg = add(parent, "svg", {width, height,
      viewBox: [0, 0, width, height].join(" "), role: "img", "data-kind": "cluster"});
    const described = add(svg, "title", {}, "links");
    const ways = lines.map((line) => {
      const a = devices[line.from], b = devices[line.to];
      const level = a.y === b.y && Math.abs(a.x - b.x) > 1.01;
      const below = a.kind === "gpu" ? 1 : -1;
      const deep = level ? below * Math.min(36, 14 * Math.abs(a.x - b.x) ** .6) : 0;
      const path = add(svg, "path", {class: "link", d: "M" + x(a) + "," + y(a) + "Q" +
        (x(a) + x(b)) / 2 + "," + ((y(a) + y(b)) / 2 + deep) + " " + x(b) + "," + y(b)});
      return {line, path, title: add(path, "title", {}, line.from + " and " + line.to)};
    });
    for (const [name, device] of Object.entries(devices)) {
      const box = add(svg, "rect", {x: x(device) - 5, y: y(device) - 5, width: 10, height: 10,
        rx: device.kind === "gpu" ? 1 : 5,
        class: device.kind === "gpu" ? "device gpu" : "device"});
      add(box, "title", {}, name);
      if (device.rank !== undefined) add(svg, "text", {x: x(device), y: y(device) + 20,
        "text-anchor": "middle", class: "small"}, LETTERS[device.rank]);
    }
    return function show(round) {
      let lit = 0;
      for (const {line, path, title} of ways) {
        const carried = line.numbers.map((number) => (round && round.links[number]) || 0);
        const busy = carried.some((nbytes) => nbytes > 0);
        lit += busy;
        path.setAttribute("class", busy ? "link lit" : "link");
        title.textContent = line.from + " and " + line.to + ": " +
          carried.map((nbytes) => nbytes.toLocaleString("en") + " B").join(" there, ") +
          (carried.length > 1 ? " back" : "");
      }
      described.textContent = lit + " of " + ways.length + " links carry something";
    };
  }

  // The rounds that each panel shows at each stop: one by one, or when they have happened.
  function stopsBy(how) {
    if (how === "time") {
      const ends = new Set(walks.flatMap((walk) => walk.rounds.map((round) => round.seconds)));
      const times = [0, ...[...ends].sort((a, b) => a - b)];
      return times.map((time) => walks.map(
        (walk) => walk.rounds.filter((round) => round.seconds <= time).length));
    }
    const most = Math.max(...walks.map((walk) => walk.rounds.length));
    return Array.from({length: most + 1}, (_, number) => walks.map(() => number));
  }

  root.replaceChildren();
  const controls = add(root, "div", {class: "controls"});
  const back = add(controls, "button", {type: "button", "aria-label": "round before"}, "◀");
  const play = add(controls, "button", {type: "button"}, "play");
  const next = add(controls, "button", {type: "button", "aria-label": "next round"}, "▶");
  const slider = add(controls, "input",
    {type: "range", min: 0, value: 0, step: 1, "aria-label": "round"});
  let how = "round";
  if (walks.length > 1 && walks.every((walk) => walk.rounds.every((round) => round.seconds !== null))) {
    const choice = add(controls, "select", {"aria-label": "what all keep in step"});
    add(choice, "option", {value: "round"}, "all at the same round");
    add(choice, "option", {value: "time"}, "all at the same time");
    choice.onchange = () => { how = choice.value; begin(); };
  }
  const panels = add(root, "div", {class: "panels"});
  const shows = walks.map((walk, index) => panel(panels, walk, index));
  const key = add(root, "p", {class: "key"});
  for (const [kind, words] of [["sum", "is added to the receiver's own"],
                               ["copy", "takes the place of the receiver's own"]]) {
    const line = add(key, "span");
    const svg = add(line, "svg", {width: 30, height: 8, viewBox: "0 0 30 8", "aria-hidden": "true"});
    add(svg, "path", {class: "arrow " + kind, d: "M0,4H30"});
    line.append(words);
  }
  add(key, "span", {}, "marks in a cell: which ranks are in its sum; green: as it must end");

  let stops = [], timer = 0;
  function show() {
    stops[slider.value].forEach((number, index) => shows[index](number));
    back.disabled = +slider.value === 0;
    next.disabled = +slider.value === stops.length - 1;
    slider.setAttribute("aria-valuetext", slider.value + " of " + (stops.length - 1));
  }
  function go(to) { slider.value = to; show(); }
  function stop() { clearInterval(timer); timer = 0; play.textContent = "play"; }
  function begin() {
    stop();
    stops = stopsBy(how);
    slider.max = stops.length - 1;
    go(Math.min(1, stops.length - 1));  // where something travels
  }
  function tick() {
    if (!root.isConnected || +slider.value >= stops.length - 1) stop();
    else go(+slider.value + 1);
  }
  play.onclick = () => {
    if (timer) { stop(); return; }
    if (+slider.value >= stops.length - 1) go(0);
    timer = setInterval(tick, EACH_MS);
    play.textContent = "pause";
  };
  back.onclick = () => { stop(); go(+slider.value - 1); };
  next.onclick = () => { stop(); go(+slider.value + 1); };
  slider.oninput = () => { stop(); show(); };
  begin();
}

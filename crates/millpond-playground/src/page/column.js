// One system: its lists, its disk, its threads, and the last movements with their reasons.

const SIGNS = { freed: "○", kept: "↻", "sent-round": "2", written: "✎", activated: "▲", waits: "‖" };
const NOTES = 44, PARTS = 120, SQUARES_MAX = 100;
// What becomes of a page, by its shade.
const FATES = [
  "the disk has them, so one costs a microsecond to free.",
  "they were used since a scan looked, so a scan sends them round once more, or to the active list.",
  "a program has changed them and the disk does not have them yet; one must be written before it can be freed.",
  "they are dirty and a scan has met them before: on their second lap, or free as soon as they are written.",
  "they were handed to the disk, by the flusher or by reclaim; when the disk has them they are clean.",
  "a thread waits for them to come from the disk.",
];
const OWN = ["one", "two", "three"];

// What the disk does, what waits in its queue, and what waits before it and can still be overtaken.
const diskInWords = ({ disk, transit }) => {
  const counted = (count, one) => (count === 0 ? [] : [count === 1 ? `1 ${one}` : `${whole(count)} ${one}s`]);
  const both = (reads, writes) => [...counted(reads, "read"), ...counted(writes, "write")].join(" and ");
  const parts = [`The disk is ${disk.write === null ? "idle" : disk.write ? "writing" : "reading"}`];
  const [inside, before] = [both(disk.reads, disk.writes), both(...disk.queued)];
  if (inside) parts.push(`in its queue: ${inside}`);
  if (before) parts.push(`waiting before it: ${before}`);
  if (transit) parts.push(transitInWords(...transit));
  return `${parts.join("; ")}.`;
};

// A limit that has fallen does not call back what is on its way.
const transitInWords = (now, limit) => {
  if (!limit) return `${bytes(now)} in transit`;
  if (now > limit) return `${bytes(now)} in transit from before the limit fell to ${bytes(limit)}`;
  return `${bytes(now)} in transit, limit ${bytes(limit)}`;
};

class Column {
  constructor(scene, number, say_why, mark) {
    this.scene = scene;
    this.spec = scene.columns[number];
    this.number = number;
    this.sayWhy = say_why;
    this.strips = [];
    this.title = make("span");
    this.mark = make("input", { type: "radio", name: "marked", "aria-label": "Step by this system's movements" });
    this.mark.checked = number === 0;
    this.mark.addEventListener("change", () => mark(number));
    this.about = make("p", { class: "about" });
    this.lists = make("div", { class: "lists" });
    this.facts = make("p", { class: "facts" });
    this.limits = make("table", { class: "limits", "aria-label": "Limits in pages" });
    this.disk = make("div", { class: "disk" });
    this.threads = make("ul", { class: "threads", "aria-label": "Threads, and what they wait for" });
    this.moves = make("div", { class: "moves", role: "group", "aria-label": "The last movements, the newest first" });
    this.picked = null;
    const marked = make("label", { title: "Step goes to this system's next movement" }, this.mark, " ▶❙ steps this");
    const heading = scene.columns.length > 1 ? marked : null;
    this.element = make("article", { class: "column", style: `--own: var(--${OWN[number]})` },
      make("h2", {}, this.title, heading), this.about, this.lists, this.facts, this.limits, this.disk, this.threads,
      make("div", { class: "small" }, make("span", {}, "last movements: click one for its reason"), this.count = make("span")), this.moves);
    for (let n = 0; n < NOTES; n += 1) this.moves.append(this.square(n));
    this.moves.addEventListener("keydown", event => this.walk(event));
  }

  // One stop of the tabulator for all squares; arrows go from one to the next.
  walk(event) {
    const by_key = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" };
    const next = by_key[event.key] && event.target[by_key[event.key]];
    if (!by_key[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    if (!next || next.hidden) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  square(n) {
    const button = make("button", { "aria-pressed": "false", tabindex: n === 0 ? 0 : -1 });
    button.addEventListener("click", () => this.pick(button.note));
    return button;
  }

  name(title, about) {
    say(this.title, title);
    this.about.replaceChildren(...rich(about));
  }

  pick(note) {
    if (!note) return;
    this.picked = note;
    this.sayWhy(this.title.textContent, note);
    this.showMoves(this.notes);
  }

  // Of notes, the newest first, one that says what this system is about: a write from reclaim, a wait, a second lap.
  telling(notes) {
    const of = kind => notes.find(note => note.class === kind && note.page.startsWith("page")) || notes.find(note => note.class === kind);
    return ["written", "waits", "sent-round", "activated"].map(of).find(note => note !== undefined);
  }

  pickPart(strip, part) {
    const counts = strip.parts[part];
    const told = counts.map((count, n) => [count, this.scene.shades[n]]).filter(([count]) => count > 0);
    const most = counts.indexOf(Math.max(...counts));
    const fate = this.isSmall ? "" : ` Most are ${this.scene.shades[most]}: ${FATES[most]}`;
    const place = part + 1 === strip.parts.length
      ? "This is the cold end: reclaim looks here first."
      : "Pages come in at the warm end (left) and go to the right as newer ones come.";
    const where = strip.parts.length === 1 ? "" : `, part ${part + 1} of ${strip.parts.length} from the warm end`;
    this.sayWhy(this.title.textContent, {
      page: `${strip.name}${where}`, what: told.map(([count, name]) => `${whole(count)} ${name}`).join(", "),
      why: place + fate,
    });
  }

  show(state, palette) {
    this.isSmall = state.frames > 0 && state.frames <= SQUARES_MAX;
    state.strips.forEach((strip, n) => {
      if (this.strips[n] === undefined) {
        this.strips[n] = new Strip(strip.name, (of, part) => this.pickPart(of, part));
        this.lists.append(this.strips[n].element);
      }
      this.strips[n].show(strip, this.scene.shades, palette, this.isSmall);
    });
    this.showFacts(state);
    this.showDisk(state, palette);
    this.showThreads(state.threads);
    this.notes = state.log.slice().reverse();
    say(this.count, state.notes > 0 ? `${whole(state.notes)} in all` : "none yet");
    this.showMoves(this.notes);
  }

  showFacts(state) {
    const limits = state.frames === 0 ? state.limits : [];
    while (this.limits.rows.length > limits.length) this.limits.deleteRow(-1);
    limits.forEach(([name, pages], n) => {
      const row = this.limits.rows[n] || this.limits.insertRow();
      while (row.cells.length < 2) row.insertCell();
      say(row.cells[0], name);
      say(row.cells[1], whole(pages));
      row.className = pages === 0 ? "held" : "";
    });
    this.facts.hidden = state.frames === 0;
    if (state.frames === 0) return;
    const parts = [`${whole(state.free)} free`];
    if (this.scene.shades[2]) parts.push(`${whole(state.dirty)} dirty`, `${whole(state.writing)} being written`);
    parts.push(`of ${whole(state.frames)} pages`);
    if (state.over) parts.push("the load has ended");
    say(this.facts, parts.join(" · "));
  }

  showDisk(state, palette) {
    const { disk } = state;
    if (disk.head === null && disk.channels[1] === 0 && disk.writes === 0 && disk.write === null) {
      this.disk.replaceChildren();
      return;
    }
    const svg = draw("svg", { viewBox: "0 0 300 44", preserveAspectRatio: "none", role: "img" });
    const text = diskInWords(state);
    svg.setAttribute("aria-label", text);
    if (disk.head !== null) {
      svg.append(draw("rect", { x: 0, y: 4, width: 300, height: 5, rx: 2, fill: palette.grid }));
      const fill = disk.write === null ? palette.dim : disk.write ? palette.writing : palette.loading;
      svg.append(draw("rect", { x: Math.min(296, disk.head * 300), y: 0, width: 4, height: 13, fill }));
    }
    const queue = (count, y, fill) => {
      const shown = Math.min(count, 32);
      for (let n = 0; n < shown; n += 1) svg.append(draw("rect", { x: 8 * n, y, width: 6, height: 9, fill }));
      if (count > shown) svg.append(draw("rect", { x: 8 * shown, y: y + 3, width: 12, height: 3, fill }));
    };
    queue(disk.reads + disk.queued[0], 19, palette.loading);
    queue(disk.writes + disk.queued[1], 33, palette.writing);
    this.disk.replaceChildren(svg, make("div", {}, text));
  }

  showThreads(threads) {
    const rows = threads.map(thread => {
      const long = thread.held && thread.ns !== null ? `, for ${span(thread.ns)}` : "";
      const many = thread.count > 1 ? `${whole(thread.count)} ` : thread.name === "readers" ? "1 of the " : "";
      return [`${thread.held ? "‖ " : ""}${many}${thread.name}: ${thread.does}${long}`, thread.held];
    });
    while (this.threads.children.length > rows.length) this.threads.lastChild.remove();
    rows.forEach(([text, held], n) => {
      const row = this.threads.children[n] || this.threads.appendChild(make("li"));
      say(row, text);
      row.className = held ? "held" : "";
    });
  }

  showMoves(notes) {
    Array.from(this.moves.children).forEach((button, n) => {
      const note = notes[n];
      button.hidden = note === undefined;
      if (!note) return;
      button.note = note;
      if (button.className !== note.class) button.className = note.class;
      say(button, SIGNS[note.class] || "·");
      button.title = `${note.page}: ${note.what}`;
      button.setAttribute("aria-label", button.title);
      const is_picked = this.picked && this.picked.at === note.at && this.picked.page === note.page;
      button.setAttribute("aria-pressed", is_picked ? "true" : "false");
    });
  }
}

// A scene: its words and settings, its systems under one time, and the numbers beside the post's.

const FRAME_BUDGET = 24, JUMP_BUDGET = 120;
const SPEEDS = [["1/10", 0.1], ["1/4", 0.25], ["1×", 1], ["3×", 3], ["10×", 10], ["as fast as it goes", Infinity]];

class Scene {
  constructor(spec, link) {
    this.spec = spec;
    this.link = link;
    this.marked = 0;
    this.isRunning = false;
    this.speed = 1;
    this.goal = null;
    this.measured = { events: 0, spent: 0 };
    this.columns = spec.columns.map((_, n) => new Column(spec, n, why, number => { this.marked = number; }));
    by("columns").replaceChildren(...this.columns.map(column => column.element));
    by("columns").className = spec.columns.length === 1 ? "single" : "";
  }

  // All that the address names, but for the moment.
  settingsText() {
    const settings = this.spec.settings.map((setting, n) => `&${setting.name}=${setting.steps[this.link.settings[n]].name}`);
    const scale = this.link.scale === 1000 ? "" : `&scale=${this.link.scale}`;
    return `scene=${this.spec.name}${settings.join("")}&seed=${this.link.seed}${scale}`;
  }

  address() {
    return `${this.settingsText()}&at=${this.time.at}`;
  }

  // Makes the systems anew, and goes to a moment.
  async begin(at) {
    const token = Symbol("begun");
    this.begun = token;
    this.isBeginning = true;
    const machines = await Promise.all(this.columns.map(() => Machine.load()));
    if (this.begun !== token) return;
    machines.forEach((machine, n) => machine.begin(this.settingsText(), n));
    this.time = new Time(machines, this.spec);
    this.isBeginning = false;
    this.name();
    this.goTo(at);
  }

  // The step of the slider, if there is one.
  sliderStep() {
    const n = this.spec.settings.findIndex(setting => setting.is_slider);
    return n < 0 ? null : this.spec.settings[n].steps[this.link.settings[n]];
  }

  name() {
    const step = this.sliderStep();
    this.titles = this.spec.columns.map(column =>
      column.follows_slider && step ? (column.title.includes(step.name) ? step.name : `${column.title}, ${step.name}`) : column.title);
    if (this.spec.name === "gorman2011" || this.spec.name === "kim2020") this.titles[0] = step.name;
    this.columns.forEach((column, n) => {
      const spec = this.spec.columns[n];
      column.name(this.titles[n], spec.follows_slider && step ? step.about : spec.about);
    });
  }

  goTo(at) {
    // Moments are whole nanoseconds, or an address would not name what is shown.
    const to = Math.max(0, Math.min(Math.round(at), this.time.end));
    if (to < this.time.at) this.time.turnBack(to);
    this.goal = to;
    this.tick();
  }

  // Whether nothing more will happen.
  isOver() {
    return this.time.at >= this.time.end || this.states !== undefined && this.states.every(state => state.over);
  }

  // From the beginning, if it has come to its end.
  run() {
    if (this.isOver()) this.goTo(0);
    this.isRunning = true;
    this.last = performance.now();
    showRun(this);
    this.tick();
  }

  stop() {
    this.isRunning = false;
    this.goal = null;
    showRun(this);
    this.show();
    keepAddress(this);
  }

  step() {
    if (this.isRunning) this.stop();
    if (this.goal !== null) return;
    this.goTo(this.time.nextNote(this.marked));
  }

  back() {
    if (this.isRunning) this.stop();
    this.goTo(this.time.at - this.spec.speed_ms * 1e6 / 4);
  }

  // A little of what is to be done, once a frame of the screen.
  tick() {
    if (this.isTicking) return;
    this.isTicking = true;
    requestAnimationFrame(() => {
      this.isTicking = false;
      if (scene !== this) return;
      try {
        this.advance();
      } catch (error) {
        this.isRunning = false;
        showRun(this);
        const panic = this.time.machines.map(machine => machine.panic()).find(text => text !== "");
        fail(`The model stopped at ${span(this.time.at)}: ${panic || error.message}. Its link: ${this.address()}`);
      }
    });
  }

  advance() {
    const now = performance.now();
    if (this.goal !== null) {
      const there = this.runTo(this.goal, JUMP_BUDGET);
      if (there) {
        this.goal = null;
        if (!this.isRunning) keepAddress(this);
      }
      this.show(there);
      if (!there || this.isRunning) this.tick();
      this.last = now;
      return;
    }
    if (!this.isRunning) return;
    const passed = Math.min(100, now - this.last);
    this.last = now;
    const fast = this.speed === Infinity ? 1e15 : passed * 1e6 * this.spec.speed_ms / 1000 * this.speed;
    this.runTo(Math.min(Math.round(this.time.at + fast), this.time.end), FRAME_BUDGET);
    this.show();
    if (this.isOver()) this.stop();
    else this.tick();
  }

  runTo(at, budget) {
    const [before, begun] = [this.time.events(), performance.now()];
    const there = this.time.run(at, budget);
    this.measured.events += this.time.events() - before;
    this.measured.spent += performance.now() - begun;
    return there;
  }

  show(there = true) {
    const palette = paletteNow();
    this.states = this.time.machines.map(machine => machine.state(PARTS, NOTES));
    this.columns.forEach((column, n) => column.show(this.states[n], palette));
    showPlot(by("plot"), this.spec, this.titles, this.time.points, this.time.at);
    this.showFigures();
    showMoment(this, there);
  }

  showFigures() {
    const step = this.sliderStep();
    const post = (shown, n) => {
      const names = [this.spec.columns[n].title];
      if (this.spec.columns[n].follows_slider && step) names.unshift(step.name);
      const chosen = this.spec.settings.map((setting, k) => setting.steps[this.link.settings[k]].name);
      const is_of = (of, wanted) => names.includes(of) && (wanted === undefined || chosen.includes(wanted));
      const found = this.spec.published.find(number => number.figure === shown.name && is_of(...number.of.split(", ")));
      if (!found) return null;
      const value = /^\d{4,}$/.test(found.value) ? whole(Number(found.value)) : found.value;
      return `${value}${shown.unit && /\d$/.test(value) ? ` ${shown.unit}` : ""}`;
    };
    const withPost = this.spec.columns.map((_, n) => this.spec.shown.some(shown => post(shown, n) !== null));
    const table = by("figures");
    const cells = [[["", ""]]];
    this.titles.forEach((title, n) => {
      cells[0].push([title, ""]);
      if (withPost[n]) cells[0].push(["the post", "post"]);
    });
    for (const shown of this.spec.shown) {
      const row = [[shown.label, ""]];
      this.states.forEach((state, n) => {
        const figure = state.figures.find(one => one.name === shown.name);
        const text = figure ? `${fixed(figure.value * shown.factor, shown.digits)}${shown.unit ? ` ${shown.unit}` : ""}` : "–";
        row.push([text, ""]);
        if (withPost[n]) row.push([post(shown, n) || "", "post"]);
      });
      cells.push(row);
    }
    const shape = cells.map(row => row.length).join();
    if (table.dataset.shape !== shape) {
      table.dataset.shape = shape;
      table.replaceChildren(...cells.map((row, y) => make("tr", {}, ...row.map((_, x) =>
        make(y === 0 || x === 0 ? "th" : "td", y === 0 ? { scope: "col" } : x === 0 ? { scope: "row" } : {})))));
    }
    cells.forEach((row, y) => row.forEach(([text, kind], x) => {
      const cell = table.rows[y].cells[x];
      say(cell, text);
      cell.className = kind;
    }));
  }
}

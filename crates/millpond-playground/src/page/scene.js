// A scene: its words and settings, its systems under one time, and the numbers beside the post's.

const FRAME_BUDGET = 24, JUMP_BUDGET = 120;
// Among so many a rare one is found.
const NOTES_AT_OPENING = 400;
const SPEEDS = [["1/10", 0.1], ["1/4", 0.25], ["1×", 1], ["3×", 3], ["10×", 10], ["as fast as it goes", Infinity]];

const capital = text => text.slice(0, 1).toUpperCase() + text.slice(1);
const stepName = (setting, step) => (setting.unit ? `${step.name} ${setting.unit}` : step.name);

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

  slider() {
    return this.spec.settings.find(setting => setting.is_slider);
  }

  // The step of the slider, if there is one.
  sliderStep() {
    const n = this.spec.settings.findIndex(setting => setting.is_slider);
    return n < 0 ? null : this.spec.settings[n].steps[this.link.settings[n]];
  }

  name() {
    const step = this.sliderStep();
    const name = step && stepName(this.slider(), step);
    this.titles = this.spec.columns.map(column => (column.follows_slider && step ? `${column.title}, ${name}` : column.title));
    if (this.spec.name === "gorman2011" || this.spec.name === "kim2020") this.titles[0] = step.name;
    this.columns.forEach((column, n) => {
      const spec = this.spec.columns[n];
      column.name(this.titles[n], spec.follows_slider && step ? capital(step.about) : spec.about);
    });
  }

  goTo(at) {
    // Moments are whole nanoseconds, or an address would not name what is shown.
    const to = Math.max(0, Math.min(Math.round(at), this.time.end));
    this.time.settle();
    if (to < this.time.at) this.time.turnBack(to);
    this.goal = to;
    this.from = this.time.at;
    this.began = performance.now();
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
    by("going").hidden = true;
    this.time.settle();
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
      if (there && this.opened) {
        this.opened(this.columns[0], this.time.machines[0].state(1, NOTES_AT_OPENING).log.reverse());
        this.opened = null;
      }
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

  // The post's number beside one of ours, or nothing where the two can't be compared at this moment.
  published(shown, n) {
    const step = this.sliderStep();
    const names = [this.spec.columns[n].title];
    if (this.spec.columns[n].follows_slider && step) names.unshift(step.name);
    const chosen = this.spec.settings.map((setting, k) => setting.steps[this.link.settings[k]].name);
    const is_of = (of, wanted) => names.includes(of) && (wanted === undefined || chosen.includes(wanted));
    const found = this.spec.published.find(number => number.figure === shown.name && is_of(...number.of.split(", ")));
    if (!found) return "";
    const { compared } = found;
    if (compared === "at-the-end" && !this.states[n].over) return "";
    if (compared.from !== undefined && this.time.at < compared.from * 1e6) return "";
    let value = found.value;
    if (compared["in-part"] !== undefined) {
      value = whole(Number(value) * Math.min(1, this.time.at / (compared["in-part"] * 1e9)));
    } else if (/^\d{4,}$/.test(value)) {
      value = whole(Number(value));
    }
    return `the post: ${value}${shown.unit && /\d$/.test(value) ? ` ${shown.unit}` : ""}`;
  }

  showFigures() {
    const table = by("figures");
    const shape = `${this.spec.name} ${this.titles.length}`;
    if (table.dataset.shape !== shape) {
      table.dataset.shape = shape;
      const cell = () => make("td", { role: "cell" }, make("span"), make("span", { class: "post" }));
      const head = make("tr", { role: "row" }, make("td", { role: "cell" }), ...this.titles.map(() => make("th", { role: "columnheader", scope: "col" })));
      const rows = this.spec.shown.map(shown => make("tr", { role: "row" },
        make("th", { role: "rowheader", scope: "row" }, shown.label), ...this.titles.map(cell)));
      table.style.setProperty("--systems", this.titles.length);
      table.replaceChildren(head, ...rows);
    }
    this.titles.forEach((title, n) => say(table.rows[0].cells[n + 1], title));
    this.spec.shown.forEach((shown, y) => this.states.forEach((state, n) => {
      const figure = state.figures.find(one => one.name === shown.name);
      const unit = shown.unit ? ` ${shown.unit}` : "";
      const [ours, post] = table.rows[y + 1].cells[n + 1].children;
      say(ours, figure ? `${fixed(figure.value * shown.factor, shown.digits)}${unit}` : "–");
      say(post, this.published(shown, n));
    }));
  }
}

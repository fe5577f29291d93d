// Lists of pages: a strip from the warm end (left) to the cold one, or a square for each page if there are few.

const SHADES = ["clean", "used", "dirty", "tagged", "writing", "loading"];
const STRIP_HEIGHT = 20, SQUARES_IN_A_ROW = 25;

const countOf = part => part.reduce((sum, count) => sum + count, 0);

class Strip {
  constructor(name, onPick) {
    this.label = make("span", {}, name);
    this.count = make("b");
    this.canvas = make("canvas", { role: "img", tabindex: 0 });
    this.at = null;
    this.element = make("div", { class: "strip" }, make("div", {}, this.label, this.count), this.canvas);
    this.canvas.addEventListener("click", event => {
      const part = this.partAt(event);
      if (part !== null) onPick(this.state, this.at = part);
    });
    this.canvas.addEventListener("keydown", event => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Enter: 0 };
      const last = this.state.parts.length - 1;
      if (!(event.key in steps) || last < 0) return;
      event.preventDefault();
      event.stopPropagation();
      // From the cold end: that is where things happen.
      this.at = Math.max(0, Math.min(last, (this.at === null ? last : this.at) + steps[event.key]));
      onPick(this.state, this.at);
    });
  }

  partAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    // A click that no pointer made has no place.
    if (this.state.parts.length === 0 || x < 0 || y < 0) return null;
    if (!this.squares) return Math.min(this.state.parts.length - 1, Math.floor(x * this.state.parts.length));
    const [row, column] = [Math.floor(y * this.rows), Math.floor(x * SQUARES_IN_A_ROW)];
    const part = row * SQUARES_IN_A_ROW + column;
    return part < this.state.parts.length ? part : null;
  }

  show(state, names, palette, few) {
    this.state = state;
    say(this.count, whole(state.pages));
    this.squares = few;
    // It only grows, so that what is below does not jump.
    this.rows = few ? Math.max(this.rows || 2, Math.ceil(state.parts.length / SQUARES_IN_A_ROW)) : 1;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio);
    const side = width / SQUARES_IN_A_ROW;
    const height = Math.round(few ? side * this.rows : STRIP_HEIGHT * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      [this.canvas.width, this.canvas.height] = [width, height];
      this.canvas.style.height = `${height / ratio}px`;
    }
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    context.fillStyle = palette.grid;
    if (!few) context.fillRect(0, 0, width, height);
    const parts = state.parts;
    parts.forEach((part, n) => {
      if (few) {
        const shade = part.findIndex(count => count > 0);
        context.fillStyle = palette[SHADES[shade]];
        const [x, y] = [(n % SQUARES_IN_A_ROW) * side, Math.floor(n / SQUARES_IN_A_ROW) * side];
        context.fillRect(x + 1, y + 1, side - 2, side - 2);
        return;
      }
      const [from, to] = [Math.round(n * width / parts.length), Math.round((n + 1) * width / parts.length)];
      const all = countOf(part);
      let bottom = height;
      part.forEach((count, shade) => {
        if (count === 0) return;
        const tall = count / all * height;
        context.fillStyle = palette[SHADES[shade]];
        context.fillRect(from, bottom - tall, to - from, tall + 0.5);
        bottom -= tall;
      });
    });
    this.canvas.setAttribute("aria-label", this.inWords(names));
  }

  inWords(names) {
    const sums = SHADES.map((_, shade) => this.state.parts.reduce((sum, part) => sum + part[shade], 0));
    const told = sums.map((sum, shade) => [sum, names[shade]]).filter(([sum, name]) => sum > 0 && name);
    const cold = this.state.parts[this.state.parts.length - 1];
    const last = cold ? cold.indexOf(Math.max(...cold)) : 0;
    const end = cold ? `; at the cold end mostly ${names[last]}` : "";
    return `${this.state.name}: ${whole(this.state.pages)} pages: ${told.map(([sum, name]) => `${whole(sum)} ${name}`).join(", ")}${end}`;
  }
}

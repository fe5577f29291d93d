// Your own trace: misses of the field's policies with so much memory, beside the optimum, which knows the future.
//
// Everything stays in this page: a file that is dropped here is read, and sent nowhere.

const LINK_PAGES_MAX = 2000;
const EXAMPLE_LOOP = 120, EXAMPLE_HOT = 40, EXAMPLE_SCAN = 400;

// A loop a little larger than memory, a few hot pages, and a scan now and then: what LRU does worst.
const exampleTrace = () => {
  const pages = [];
  for (let round = 0; round < 12; round += 1) {
    for (let n = 0; n < EXAMPLE_LOOP; n += 1) pages.push(n, 1000 + (n * 7) % EXAMPLE_HOT);
    if (round % 4 === 3) for (let n = 0; n < EXAMPLE_SCAN; n += 1) pages.push(10000 + round * EXAMPLE_SCAN + n);
  }
  return pages.join("\n");
};

class Own {
  constructor(machine) {
    this.machine = machine;
    this.models = machine.models();
    this.trace = null;
    this.results = [];
    by("own-example").addEventListener("click", () => { by("own-text").value = exampleTrace(); this.readText(); });
    by("own-read").addEventListener("click", () => this.readText());
    by("own-file").addEventListener("change", event => this.readFile(event.target.files[0]));
    by("own-memory").addEventListener("input", () => this.count());
    const zone = by("own-drop");
    zone.addEventListener("dragover", event => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", event => {
      event.preventDefault();
      zone.classList.remove("over");
      this.readFile(event.dataTransfer.files[0]);
    });
  }

  // What an address names: pages, parted by dots, and frames.
  open(text) {
    const pairs = new Map(text.replace(/^#/, "").split("&").map(pair => pair.split("=")));
    const pages = pairs.get("pages");
    this.wanted = Number(pairs.get("frames")) || null;
    if (pages) {
      by("own-text").value = pages.split(".").join("\n");
      this.readText();
    } else if (by("own-text").value === "") {
      by("own-example").click();
    }
  }

  readText() {
    const text = by("own-text").value.trim();
    // Numbers may be parted by anything; what is no list of numbers is one of the formats.
    const is_list = /^[\d\s,;.]+$/.test(text);
    const numbers = is_list ? text.split(/[\s,;.]+/).filter(word => word !== "") : null;
    this.numbers = numbers !== null && numbers.length <= LINK_PAGES_MAX ? numbers : null;
    this.isExample = text === exampleTrace();
    if (text !== "") this.read(is_list ? "pasted.pages" : "pasted", new TextEncoder().encode(numbers ? numbers.join("\n") : text));
  }

  async readFile(file) {
    if (!file) return;
    this.numbers = null;
    this.isExample = false;
    this.read(file.name, new Uint8Array(await file.arrayBuffer()));
  }

  read(name, code) {
    // What is being counted is of the trace before.
    this.counting = null;
    try {
      this.trace = this.machine.readTrace(name, code);
    } catch (error) {
      this.trace = null;
      say(by("own-said"), `This trace can't be read: ${error.message}`);
      by("own-result").hidden = true;
      return;
    }
    const { format, uses, distinct, notes } = this.trace;
    say(by("own-said"), `${name}: ${format}, ${whole(uses)} uses of ${whole(distinct)} different pages. ${notes.join(". ")}`);
    by("own-result").hidden = false;
    const input = by("own-memory");
    // The slider goes by powers, so that small memories have room as well.
    input.max = 1000;
    input.value = this.wanted ? Math.log(this.wanted) / Math.log(distinct) * 1000 : 700;
    this.count();
  }

  frames() {
    const { distinct } = this.trace;
    if (this.wanted) {
      const frames = Math.min(this.wanted, distinct);
      this.wanted = null;
      return frames;
    }
    return Math.max(1, Math.round(distinct ** (by("own-memory").value / 1000)));
  }

  // All models, one after the other, giving the page time to draw in between; another memory begins anew.
  async count() {
    if (this.trace === null) return;
    const token = Symbol("count");
    this.counting = token;
    const frames = this.frames();
    by("own-why").hidden = true;
    say(by("own-frames"), `${whole(frames)} pages (${fixed(frames * 100 / this.trace.distinct, 1)} % of all)`);
    this.results = this.models.map(() => null);
    for (let n = 0; n < this.models.length; n += 1) {
      await new Promise(done => { setTimeout(done, 0); });
      if (this.counting !== token) return;
      this.results[n] = this.machine.misses(n, frames);
      this.show();
    }
    this.explain(frames);
    // Without pages the page opens with the example.
    const pages = this.numbers ? `&pages=${this.numbers.join(".")}` : "";
    this.address = this.numbers || this.isExample ? `scene=own&frames=${frames}${pages}` : "scene=own";
    written = `#${this.address}`;
    history.replaceState(null, "", written);
    by("own-table").dataset.ready = String(frames);
  }

  // Which policy misses least here, and why, if it is not Millpond.
  explain(frames) {
    const ours = this.models.indexOf("Millpond");
    const [, ...others] = this.results;
    const least = Math.min(...others);
    const best = this.results.indexOf(least, 1);
    const [missed, text] = [this.results[ours], by("own-why")];
    text.hidden = false;
    if (missed === least) {
      say(text, "Only the optimum, which knows the future, misses less than Millpond here.");
      return;
    }
    const fewer = `${fixed((1 - least / missed) * 100, 1)} %`;
    text.replaceChildren(make("b", {}, `Why ${this.models[best]} misses ${fewer} less than Millpond here: `), this.machine.why(best, frames));
  }

  show() {
    const { uses, first } = this.trace;
    const known = this.results.filter(misses => misses !== null);
    const [least, most] = [this.results[0], Math.max(...known)];
    const rows = this.models.map((model, n) => {
      const misses = this.results[n];
      if (misses === null) return make("tr", {}, make("th", { scope: "row" }, model), make("td", {}, "…"), make("td"), make("td"), make("td"));
      const above = n === 0 || least === 0 ? "" : `+${fixed((misses / least - 1) * 100, 1)} %`;
      const bar = make("span", { class: "bar", style: `width: ${fixed(misses / most * 100, 1)}%; --own: var(--${model === "Millpond" ? "three" : n === 0 ? "dim" : "one"})` });
      return make("tr", {}, make("th", { scope: "row" }, n === 0 ? "the optimum (OPT)" : model), make("td", {}, whole(misses)),
        make("td", {}, `${fixed(misses / uses * 100, 1)} %`), make("td", {}, above), make("td", { class: "bars" }, bar));
    });
    const head = make("tr", {}, ...["", "misses", "of all uses", "above the optimum", ""].map(text => make("th", { scope: "col" }, text)));
    by("own-table").replaceChildren(head, ...rows);
    say(by("own-note"), `${whole(first)} misses are first uses: no memory helps against these.${this.numbers || this.isExample ? "" : ` The address does not name this trace: it is a file, or has more than ${whole(LINK_PAGES_MAX)} uses.`}`);
  }
}

// The page: which scene is shown, its controls, and the address, which names the state.

let scenes = [], scene = null, reader = null, written = null, own = null;

const CLICK = "Click a square of the last movements, or a part of a list: here it says what happened, and why.";

const tell = (title, note) => {
  const when = note.at === undefined ? "" : ` at ${fixed(note.at / 1e6, 3)} ms`;
  by("reason").replaceChildren(make("p", {}, make("b", {}, `${title}${when}: ${note.page}: ${note.what}. `), note.why));
};

const why = (title, note) => {
  tell(title, note);
  if (scene.isRunning) scene.stop();
};

let palette = null;
const paletteNow = () => {
  if (palette === null) {
    palette = {};
    for (const name of [...SHADES, "grid", "dim"]) palette[name] = color(name);
  }
  return palette;
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = null;
  if (scene && scene.time) scene.show();
});

const showRun = of => {
  say(by("run"), of.isRunning ? "Stop" : "Run");
  by("run").setAttribute("aria-pressed", of.isRunning ? "true" : "false");
};

// On its way for longer than a glance: where to, and how far it has come.
const GLANCE_MS = 400;
const showGoing = (of, there) => {
  by("going").hidden = there || of.goal === null || performance.now() - of.began < GLANCE_MS;
  if (by("going").hidden) return;
  const text = `Running to ${span(of.goal)} …`;
  by("going-bar").value = of.goal > of.from ? (of.time.at - of.from) / (of.goal - of.from) : 0;
  by("going-bar").setAttribute("aria-label", text);
  say(by("going-text"), text);
};

const showMoment = (of, there) => {
  showGoing(of, there);
  const input = by("moment");
  input.max = of.time.end / 1e6;
  if (document.activeElement !== input || of.isRunning) input.value = of.time.at / 1e6;
  input.setAttribute("aria-valuetext", span(of.time.at));
  say(by("now"), there ? span(of.time.at) : `… ${span(of.time.at)}`);
  const { events, spent } = of.measured;
  const rate = spent > 100 ? `, ${whole(events / spent * 1000)} a second of this browser's time` : "";
  say(by("rate"), `${whole(of.time.events())} events so far${rate}.`);
};

const keepAddress = of => {
  if (!of.time) return;
  written = `#${of.address()}`;
  history.replaceState(null, "", written);
};

const markScene = name => {
  for (const link of by("scenes").children) {
    if (link.dataset.name === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
};

const showWords = spec => {
  document.title = `${spec.title} – Millpond`;
  say(by("title"), spec.title);
  say(by("post"), spec.post);
  by("saw").replaceChildren(...rich(spec.saw));
  by("look-text").replaceChildren(make("b", {}, "What to look at: "), ...rich(spec.look));
  say(by("note"), spec.published_note);
  const legend = make("div", { class: "legend", id: "shades" });
  spec.shades.forEach((name, n) => {
    if (name) legend.append(make("span", {}, make("i", { style: `background: var(--${SHADES[n]})` }), name));
  });
  // Scenes with pages that can be clean have lists.
  if (spec.shades[0]) legend.append(make("span", {}, "lists: warm end left, cold end right"));
  if (spec.shades[5]) legend.append(make("span", {}, "disk: where its head is, and a square for each read and write that waits"));
  document.getElementById("shades")?.remove();
  by("columns").before(legend);
  say(by("plot-label"), spec.plot.label);
  const key = make("span", { class: "legend", id: "plot-key" });
  by("plot-label").append(key);
  by("reason").replaceChildren(make("p", { class: "dim" }, CLICK));
  // How fast 1× is differs from scene to scene.
  const pace = ms => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);
  SPEEDS.forEach(([name, factor], n) => {
    if (factor < Infinity) say(by("speed").options[n], `${name}, ${pace(spec.speed_ms * factor)} a second`);
  });
  markScene(spec.name);
};

const showPlotKey = of => {
  by("plot-key").replaceChildren(...of.titles.map((title, n) =>
    make("span", {}, make("i", { style: `background: var(--${OWN[n]})` }), title)));
};

// Moves the slider to what the scene is to show, or back, and lets it run from where the scene opens.
const showTheButton = of => {
  const { shows } = of.spec;
  const slider = of.slider();
  by("show-me").hidden = !shows;
  if (!shows) {
    say(by("shows"), "");
    return;
  }
  const is_there = of.sliderStep().name === shows.step;
  const first = slider.steps[slider.first];
  say(by("show-me"), is_there ? `Back to ${stepName(slider, first)}` : `Show me: ${slider.unit ? `${slider.name} ` : ""}${stepName(slider, { name: shows.step })}`);
  say(by("shows"), is_there ? "" : shows.says);
};

const showMe = async of => {
  const slider = of.slider();
  const there = slider.steps.findIndex(step => step.name === of.spec.shows.step);
  const n = of.spec.settings.indexOf(slider);
  of.link.settings[n] = of.link.settings[n] === there ? slider.first : there;
  showSettings(of);
  const opens = of.spec.settings.map((setting, k) => setting.steps[of.link.settings[k]].opens_at_ms).find(ms => ms > 0);
  await of.begin((opens || of.spec.opens_at_ms) * 1e6);
  if (scene !== of) return;
  showPlotKey(of);
  if (!of.isRunning) of.run();
};

// The settings as sliders and choices; another step makes the systems anew and goes to the same moment.
const showSettings = of => {
  const parts = of.spec.settings.map((setting, n) => {
    const about = make("output");
    const tell = () => {
      const step = setting.steps[of.link.settings[n]];
      about.replaceChildren(make("b", {}, stepName(setting, step)), step.about ? `: ${step.about}` : "");
    };
    const choose = value => {
      of.link.settings[n] = Number(value);
      tell();
      const opens = setting.steps[value].opens_at_ms * 1e6;
      showTheButton(of);
      return of.begin(opens || (of.time ? of.time.at : 0)).then(() => showPlotKey(of));
    };
    tell();
    if (setting.is_slider) {
      const input = make("input", { type: "range", min: 0, max: setting.steps.length - 1, step: 1, id: `setting-${setting.name}` });
      input.value = of.link.settings[n];
      const said = () => input.setAttribute("aria-valuetext", `${stepName(setting, setting.steps[input.value])} ${setting.steps[input.value].about}`);
      said();
      input.addEventListener("input", () => { of.link.settings[n] = Number(input.value); tell(); said(); });
      input.addEventListener("change", () => choose(input.value));
      const ends = [setting.steps[0], setting.steps[setting.steps.length - 1]].map(step => make("span", {}, stepName(setting, step)));
      return make("label", {}, setting.label, input, make("span", { class: "ticks" }, ...ends), about);
    }
    const select = make("select", { id: `setting-${setting.name}` },
      ...setting.steps.map((step, k) => make("option", { value: k }, step.name)));
    select.value = of.link.settings[n];
    select.addEventListener("change", () => choose(select.value));
    return make("label", { class: "choice" }, setting.label, select, about);
  });
  by("settings").replaceChildren(...parts);
  showTheButton(of);
};

// Shows what an address names.
const open = async text => {
  const is_own = /[#&]?scene=own(&|$)/.test(text);
  by("scene").hidden = is_own;
  by("own").hidden = !is_own;
  // what is said below a scene is of the scene
  by("about-scenes").hidden = is_own;
  by("about-own").hidden = !is_own;
  if (is_own) {
    if (scene && scene.isRunning) scene.stop();
    markScene("own");
    document.title = "Your own trace – Millpond";
    own = own || new Own(reader);
    own.open(text);
    return;
  }
  let link;
  by("said").hidden = true;
  try {
    link = reader.link(text);
  } catch (error) {
    fail(`This address can't be shown: ${error.message}`);
    link = reader.link("");
  }
  if (scene) scene.isRunning = false;
  const spec = scenes.find(one => one.name === link.scene);
  showWords(spec);
  scene = new Scene(spec, link);
  scene.speed = Number(by("speed").value);
  by("seed").value = link.seed;
  showSettings(scene);
  showRun(scene);
  await scene.begin(link.at);
  showPlotKey(scene);
  scene.opened = (first, notes) => {
    const note = first.telling(notes);
    if (!note) return;
    tell(first.title.textContent, note);
    by("reason").append(make("p", { class: "dim" }, CLICK));
  };
  // A link that names a moment shows that moment; else the scene plays by itself.
  const is_still = text.includes("at=") || matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (!is_still) scene.run();
};

const reseed = () => {
  const seed = Number(by("seed").value);
  if (!Number.isSafeInteger(seed) || seed < 0) {
    by("seed").value = scene.link.seed;
    return;
  }
  scene.link.seed = seed;
  scene.begin(scene.time.at);
};

const toggle = () => (scene.isRunning ? scene.stop() : scene.run());

const listen = () => {
  by("run").addEventListener("click", toggle);
  by("show-me").addEventListener("click", () => showMe(scene));
  by("step").addEventListener("click", () => scene.step());
  by("back").addEventListener("click", () => scene.back());
  by("begin").addEventListener("click", () => { if (scene.isRunning) scene.stop(); scene.goTo(0); });
  by("moment").addEventListener("input", () => { if (scene.isRunning) scene.stop(); scene.goTo(by("moment").value * 1e6); });
  by("seed").addEventListener("change", reseed);
  by("speed").append(...SPEEDS.map(([name, factor]) => make("option", { value: factor }, name)));
  by("speed").value = 1;
  by("speed").addEventListener("change", () => { scene.speed = Number(by("speed").value); });
  by("copy").addEventListener("click", async () => {
    keepAddress(scene);
    try {
      await navigator.clipboard.writeText(location.href);
      say(by("copy"), "Copied");
    } catch {
      say(by("copy"), "It is in the address");
    }
    setTimeout(() => say(by("copy"), "Copy link"), 1500);
  });
  addEventListener("hashchange", () => { if (location.hash !== written) open(location.hash); });
  addEventListener("resize", () => { if (scene && scene.time && !scene.isRunning) scene.show(); });
  addEventListener("keydown", event => {
    if (scene === null || by("scene").hidden && !/^[1-6]$/.test(event.key)) return;
    if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const acts = { ArrowRight: () => scene.step(), ArrowLeft: () => scene.back(), Home: () => by("begin").click() };
    if (event.key === " " && event.target.tagName !== "BUTTON") acts[" "] = toggle;
    const chosen = scenes[Number(event.key) - 1];
    if (chosen) acts[event.key] = () => { location.hash = `scene=${chosen.name}`; };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
};

// For tests, and for whoever wants the numbers: the state that is shown, as text, and its address.
globalThis.playground = {
  address: () => scene.address(),
  events: () => scene.time.events(),
  scenes: () => reader.scenesText(),
  models: () => reader.models(),
  // The states of all systems of a link, none of which is shown.
  statesOf: async (text, parts, notes) => {
    const link = reader.link(text);
    const columns = scenes.find(one => one.name === link.scene).columns;
    return Promise.all(columns.map(async (_, n) => {
      const machine = await Machine.load();
      machine.begin(text, n);
      while (!machine.run(link.at, 1e9));
      return machine.text(parts, notes);
    }));
  },
  isStill: () => by("scene").hidden || scene !== null && scene.time !== undefined && !scene.isBeginning && !scene.isRunning && scene.goal === null,
  states: (parts, notes) => scene.time.machines.map(machine => machine.text(parts, notes)),
};

const start = async () => {
  try {
    reader = await Machine.load();
    scenes = JSON.parse(reader.scenesText());
    by("scenes").append(...scenes.map(spec => make("a", { href: `#scene=${spec.name}`, "data-name": spec.name, title: `${spec.title}. ${spec.post}` }, spec.short)));
    by("scenes").append(make("a", { href: "#scene=own", "data-name": "own" }, "Your own"));
    listen();
    await open(location.hash);
    document.body.dataset.ready = "true";
  } catch (error) {
    fail(`The page could not start: ${error.message}`);
  }
};

start();

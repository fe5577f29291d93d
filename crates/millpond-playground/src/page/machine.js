// A system of a scene: an instance of the module with a memory of its own.
//
// A copy of that memory is the system's whole state, so that turning back is putting a copy in its place and going on from there
// to the moment that is wanted.

let compiled = null;

const unpack = packed => {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
};

const compile = () => {
  if (compiled === null) {
    const text = atob(by("module").textContent.trim());
    const packed = new Uint8Array(text.length);
    for (let n = 0; n < text.length; n += 1) packed[n] = text.charCodeAt(n);
    by("module").textContent = "";
    compiled = unpack(packed).then(code => WebAssembly.compile(code));
  }
  return compiled;
};

class Machine {
  static async load() {
    const instance = await WebAssembly.instantiate(await compile(), {});
    return new Machine(instance.exports);
  }

  constructor(exports) {
    this.exports = exports;
    this.encoder = new TextEncoder();
    this.decoder = new TextDecoder();
    exports.keep_panics();
  }

  // What ended the module, if a check of the model failed; else an empty text.
  panic() {
    const length = this.exports.panic_length();
    return this.decoder.decode(new Uint8Array(this.exports.memory.buffer, this.exports.panic_text(), length));
  }

  give(text) {
    const code = this.encoder.encode(text);
    const place = this.exports.buffer(code.length);
    new Uint8Array(this.exports.memory.buffer, place, code.length).set(code);
  }

  // What was left in the module's buffer; a negative length is of a reason why not.
  take(length) {
    const size = Math.abs(length);
    const text = this.decoder.decode(new Uint8Array(this.exports.memory.buffer, this.exports.left(), size));
    if (length < 0) throw new Error(text);
    return text;
  }

  scenesText() {
    return this.take(this.exports.scenes());
  }

  link(text) {
    this.give(text);
    return JSON.parse(this.take(this.exports.link()));
  }

  begin(link, column) {
    this.give(link);
    this.take(this.exports.begin(column));
  }

  // Through a moment, in about so many events; whether it is there.
  run(until, events) {
    return this.exports.run(until, events) === 1;
  }

  runToNote(until) {
    return this.exports.run_to_note(until);
  }

  events() {
    return this.exports.events();
  }

  figure(name) {
    this.give(name);
    return this.exports.figure();
  }

  text(parts, notes) {
    return this.take(this.exports.state(parts, notes));
  }

  state(parts, notes) {
    return JSON.parse(this.text(parts, notes));
  }

  models() {
    return JSON.parse(this.take(this.exports.models()));
  }

  readTrace(name, code) {
    const title = this.encoder.encode(name);
    const place = this.exports.buffer(title.length + code.length);
    const room = new Uint8Array(this.exports.memory.buffer, place, title.length + code.length);
    room.set(title);
    room.set(code, title.length);
    return JSON.parse(this.take(this.exports.trace(title.length)));
  }

  misses(model, frames) {
    return this.exports.misses(model, frames);
  }

  why(better, frames) {
    return this.take(this.exports.why(better, frames));
  }

  copy() {
    return new Uint8Array(this.exports.memory.buffer).slice();
  }

  // Memory only grows: what lies behind the copy was free when it was taken.
  restore(copy) {
    new Uint8Array(this.exports.memory.buffer).set(copy);
  }
}

// Time: all systems of a scene go on together, moment by moment, and can be turned back.
//
// Figures for the plot are taken at fixed moments on the way, so that a link to a late moment has all of its past. Copies of all
// systems are kept at some moments, fewer of those long ago, at most so many bytes.

const COPIES_BYTES_MAX = 192 << 20;
const EVENTS_AT_ONCE = 20000;
// Where nothing moves for so many nanoseconds, a step goes that far.
const NOTE_AHEAD = 10e9;

class Time {
  constructor(machines, scene) {
    this.machines = machines;
    this.every = scene.plot.every_ms * 1e6;
    this.end = scene.ends_at_ms * 1e6;
    this.figure = scene.plot.figure;
    this.at = 0;
    // Where the systems are on their way to, some of them past `at` already.
    this.target = 0;
    this.points = [];
    this.copies = [];
    this.copyEvery = this.end / 64;
    this.keep();
  }

  events() {
    return this.machines.reduce((sum, machine) => sum + machine.events(), 0);
  }

  // Goes on towards a moment for at most so many milliseconds of the reader's time; whether it is there.
  run(until, budget) {
    const begun = performance.now();
    while (this.at < until) {
      const next = Math.min(until, (this.points.length) * this.every);
      // What was begun is ended first, or an address would name no state.
      this.target = Math.max(this.target, Math.max(next, this.at));
      for (const machine of this.machines) {
        while (!machine.run(this.target, EVENTS_AT_ONCE)) {
          if (performance.now() - begun > budget) return false;
        }
      }
      this.at = this.target;
      this.note();
      if (performance.now() - begun > budget) return this.at >= until;
    }
    return true;
  }

  // Brings all systems to one moment, which is less than one point of the plot away.
  settle() {
    if (this.target > this.at) this.run(this.target, Infinity);
  }

  note() {
    if (this.at < this.points.length * this.every) return;
    this.points.push(this.machines.map(machine => machine.figure(this.figure)));
    const last = this.copies[this.copies.length - 1];
    if (this.at - last.at >= this.copyEvery) this.keep();
  }

  keep() {
    this.copies.push({ at: this.at, points: this.points.length, memory: this.machines.map(machine => machine.copy()) });
    const size = copy => copy.memory.reduce((sum, memory) => sum + memory.length, 0);
    while (this.copies.length > 2 && this.copies.reduce((sum, copy) => sum + size(copy), 0) > COPIES_BYTES_MAX) {
      // The first is the beginning; of the others the one whose neighbours are closest to each other is missed least.
      let least = 1;
      for (let n = 1; n + 1 < this.copies.length; n += 1) {
        const gap = k => this.copies[k + 1].at - this.copies[k - 1].at;
        if (gap(n) < gap(least)) least = n;
      }
      this.copies.splice(least, 1);
    }
  }

  // To the last copy that is not behind a moment; `run` goes on from there.
  turnBack(to) {
    while (this.copies.length > 1 && this.copies[this.copies.length - 1].at > to) this.copies.pop();
    const copy = this.copies[this.copies.length - 1];
    this.machines.forEach((machine, n) => machine.restore(copy.memory[n]));
    this.at = this.target = copy.at;
    this.points.length = copy.points;
  }

  // The moment of the next movement of one system. It is where it was afterwards: all of them go there together, by `run`.
  nextNote(marked) {
    const machine = this.machines[marked];
    const before = machine.copy();
    const at = machine.runToNote(Math.min(this.at + NOTE_AHEAD, this.end));
    machine.restore(before);
    return at;
  }
}

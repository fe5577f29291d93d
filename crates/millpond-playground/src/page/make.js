// Elements and numbers: what all other parts need.

const by = id => document.getElementById(id);

const make = (name, attributes, ...inside) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...inside.filter(part => part !== null && part !== undefined));
  return element;
};

const draw = (name, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

// The value of a colour of the style sheet, which is another one in the dark.
const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const whole = number => Math.round(number).toLocaleString("en-US");

const fixed = (number, digits) =>
  number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// A moment or a span of nanoseconds, as exact as its size needs.
const span = ns => {
  if (ns >= 1e9) return `${fixed(ns / 1e9, ns >= 1e11 ? 1 : 2)} s`;
  if (ns >= 1e6) return `${fixed(ns / 1e6, 1)} ms`;
  return `${fixed(ns / 1e3, 0)} µs`;
};

const bytes = number =>
  number >= 1 << 20 ? `${fixed(number / (1 << 20), 1)} MiB` : `${whole(number / 1024)} KiB`;

// Text of an element, set only when it is another: the browser lays out less.
const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Text in which a part between backticks is code.
const rich = text => text.split("`").map((part, n) => (n % 2 === 1 ? make("code", {}, part) : part)).filter(part => part !== "");

const fail = why => {
  by("said").hidden = false;
  say(by("said"), why);
};

// SPDX-License-Identifier: MIT
// Elements, controls, and plots as SVG.
'use strict';

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
function make(tag, attributes = {}, ...children) {
  const element = setAttributes(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}
function makeSvg(tag, attributes = {}, ...children) {
  const element = setAttributes(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes);
  element.append(...children);
  return element;
}

const grouped = (value) => value.toLocaleString('en', { maximumFractionDigits: 3 });

/** Returns a number as the tour prints it: "0.3421", "6.283", "54,410", "2.4e-7". */
function compact(value, digits = 4) {
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : '-infinite';
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(1).replace('e+', 'e');
  return Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size)))))
    .toLocaleString('en', { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(size))) });
}

let controls = 0;

/**
 * Controls that a link can set, by their key: {start, get(), set(text)}. set() ignores a text that
 * the control does not accept.
 */
const keyed = new Map();

/**
 * A number with a slider, a box and a label. The box accepts numbers beyond the slider's end, up to
 * `most`. With a speed there is a button that moves the slider by so much per second.
 */
class Slider {
  constructor({ label, min, max, step, value, most = max, least = min, key, speed = 0, change }) {
    const id = `control${++controls}`;
    Object.assign(this, { least, most, speed, change });
    this.range = make('input', { type: 'range', id, min, max, step, value });
    this.box = make('input', { type: 'number', min: least, max: most, step: 'any', value, 'aria-label': `${label}, as a number` });
    this.element = make('div', { class: 'slider' }, make('label', { for: id }, label), this.range, this.box);
    this.value = value;
    this.range.addEventListener('input', () => {
      this.value = Number(this.range.value);
      this.box.value = this.value;
      change();
    });
    this.box.addEventListener('input', () => {
      const typed = this.box.valueAsNumber;
      if (!(typed >= least && typed <= most)) return;  // an incomplete number, or one out of range
      this.value = typed;
      this.range.value = typed;
      change();
    });
    this.box.addEventListener('change', () => { this.box.value = this.value; });
    if (key) keyed.set(key, { start: value, get: () => this.value, set: (text) => this.set(Number(text)) });
    if (speed) {
      this.button = make('button', { type: 'button', 'aria-pressed': 'false', 'aria-label': `Play: ${label}` }, '▶ Play');
      this.button.addEventListener('click', () => (this.playing ? this.pause() : this.play()));
      this.element.classList.add('playable');
      this.element.append(this.button);
    }
  }

  /** Sets the number, unless it is out of range. */
  set(value) {
    if (!(value >= this.least && value <= this.most)) return;
    this.value = value;
    this.range.value = value;
    this.box.value = Math.round(value * 100) / 100;
    this.change();
  }

  play() {
    this.playing = true;
    setAttributes(this.button, { 'aria-pressed': 'true' }).textContent = '⏸ Pause';
    let last = performance.now();
    const move = (now) => {
      if (!this.playing) return;
      const next = this.value + this.speed * Math.max(0, now - last) / 1000;
      last = now;
      this.set(next <= Number(this.range.max) ? next : Number(this.range.min));
      requestAnimationFrame(move);
    };
    requestAnimationFrame(move);
  }

  /** Stops at the nearest step of the slider. */
  pause() {
    this.playing = false;
    setAttributes(this.button, { 'aria-pressed': 'false' }).textContent = '▶ Play';
    const step = Number(this.range.step);
    this.set(Math.round(this.value / step) * step);
    this.range.dispatchEvent(new Event('change', { bubbles: true }));
  }
}

/** Returns a labelled select with its options [value, text]. */
function makeSelect(label, options, value, change, key) {
  const id = `control${++controls}`;
  const select = make('select', { id }, ...options.map(([key, text]) => make('option', { value: key }, text)));
  select.value = value;
  select.addEventListener('change', change);
  const set = (text) => {
    if (!options.some(([option]) => String(option) === text)) return;
    select.value = text;
    change();
  };
  if (key) keyed.set(key, { start: value, get: () => select.value, set });
  return { element: make('div', { class: 'field' }, make('label', { for: id }, label), select), select };
}

/** Calls draw(width) now and whenever the width of the element changes. */
function drawToWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    draw(width);
  }).observe(element);
  return () => { if (width > 0) draw(width); };
}

/** Returns round numbers from low to high, about `count` of them. */
function roundTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 4, 5, 10].map((n) => n * power).find((s) => s >= rough);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6; ++n) ticks.push(n * step + 0);  // + 0: no -0
  return ticks;
}

/** Returns the powers of ten from low to high, at most `count` of them. */
function powerTicks(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / count));
  const ticks = [];
  for (let n = first; n <= last; n += step) ticks.push(10 ** n);
  return ticks;
}

const superscript = (n) => String(n).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
const powerOfTen = (value) => `10${superscript(Math.round(Math.log10(value)))}`;

/** Position of a value on an axis, in pixels. */
function scaleOf({ low, high, log }, from, to) {
  const f = log ? Math.log10 : (v) => v;
  return (v) => from + (f(Math.min(Math.max(v, low), high)) - f(low)) / (f(high) - f(low)) * (to - from);
}

/**
 * Shows the values at one of `count` places of a plot: under the pointer, or chosen by the arrow keys.
 * at(i) is the place in pixels, and text(i) its values.
 */
function addReadout(svg, { count, at, text, top, bottom, right }) {
  const line = makeSvg('line', { class: 'cursor', y1: top, y2: bottom }), words = makeSvg('text', { class: 'readout', x: right, y: top - 6, 'text-anchor': 'end' });
  let place = -1;
  const show = (i) => {
    place = i;
    setAttributes(line, { x1: at(i), x2: at(i) });
    words.textContent = text(i);
    svg.append(line, words);
  };
  const hide = () => { line.remove(); words.remove(); };
  svg.addEventListener('pointermove', (event) => {
    const from = event.clientX - svg.getBoundingClientRect().left;
    let nearest = 0;
    for (let i = 1; i < count; ++i) if (Math.abs(at(i) - from) < Math.abs(at(nearest) - from)) nearest = i;
    show(nearest);
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(place < 0 ? 0 : Math.min(Math.max(place + step, 0), count - 1));
  });
  setAttributes(svg, { tabindex: 0 });
}

/** Calls show(row, column) for the cell under the pointer of a picture, or chosen by the arrow keys. */
function addCellReadout(canvas, side, show) {
  let row = 0, column = 0;
  const clamp = (v) => Math.min(Math.max(Math.floor(v), 0), side - 1);
  const move = (r, c) => show(row = clamp(r), column = clamp(c));
  canvas.addEventListener('pointermove', (event) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    move((event.clientY - top) / height * side, (event.clientX - left) / width * side);
  });
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    move(row + step[0], column + step[1]);
  });
  setAttributes(canvas, { tabindex: 0 });
}

/**
 * Returns a plot. x and y: {label, low, high, log}, and x.name for a place of it. series: {name,
 * short, kind: line or dots, tone, xs, ys}, with the same xs but for single dots. levels: horizontal
 * lines {value, name}.
 */
function plot({ width, height = 316, title, x, y, series, levels = [] }) {
  const left = 56, right = 12, top = 46, bottom = 44;
  const at = scaleOf(x, left, width - right), up = scaleOf(y, height - bottom, top);
  const svg = makeSvg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title });
  const text = (content, attributes) => svg.append(makeSvg('text', attributes, content));
  const yTicks = y.log ? powerTicks(y.low, y.high, 6) : roundTicks(y.low, y.high, 5);
  for (const tick of yTicks) {
    svg.append(makeSvg('line', { class: 'grid', x1: left, x2: width - right, y1: up(tick), y2: up(tick) }));
    text(y.log ? powerOfTen(tick) : grouped(tick), { x: left - 8, y: up(tick) + 4, 'text-anchor': 'end' });
  }
  for (const tick of roundTicks(x.low, x.high, Math.max(2, Math.min(8, width / 90)))) {
    svg.append(makeSvg('line', { class: 'axis', x1: at(tick), x2: at(tick), y1: height - bottom, y2: height - bottom + 5 }));
    text(grouped(tick), { x: at(tick), y: height - bottom + 18, 'text-anchor': 'middle' });
  }
  svg.append(makeSvg('line', { class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  text(x.label, { class: 'label', x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' });
  text(y.label, { class: 'label', x: 0, y: 14 });
  for (const { kind, tone, xs, ys } of series) {
    if (kind === 'line') {
      const points = Array.from(xs, (v, i) => `${at(v).toFixed(2)},${up(ys[i]).toFixed(2)}`).join(' ');
      svg.append(makeSvg('polyline', { class: `line ${tone}`, points }));
    } else {
      const radius = kind === 'dot' ? 5.5 : 2.6;
      Array.from(xs, (v, i) => svg.append(makeSvg('circle', { class: `${kind} ${tone}`, cx: at(v).toFixed(2), cy: up(ys[i]).toFixed(2), r: radius })));
    }
  }
  for (const { value, name } of levels) {
    svg.append(makeSvg('line', { class: 'level', x1: left, x2: width - right, y1: up(value), y2: up(value) }));
    text(name, { class: 'halo', x: left + 6, y: up(value) - 7 });
  }
  const shown = series.filter(({ kind }) => kind !== 'dot');
  addReadout(svg, {
    count: shown[0].xs.length, at: (i) => at(shown[0].xs[i]), top, bottom: height - bottom, right: width - right,
    text: (i) => `${x.name} ${grouped(shown[0].xs[i])}: ${shown.map(({ short, ys }) => `${short ? `${short} ` : ''}${compact(ys[i])}`).join(', ')}`,
  });
  return svg;
}

/** Returns the key of a plot's series, below it. */
function makeKey(series) {
  return make('p', { class: 'key' }, ...series.filter(({ name }) => name).map(({ name, kind, tone }) =>
    make('span', {}, make('i', { class: `${kind} ${tone}`, 'aria-hidden': 'true' }), name)));
}

// Viridis, as in the tour, at nine equal steps.
const viridis = ['440154', '472c7a', '3b518b', '2c718e', '21908d', '27ad81', '5cc863', 'aadc32', 'fde725']
  .map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));

/** Returns the colour of a share from 0 to 1. */
function colourOf(share) {
  const place = Math.min(Math.max(share, 0), 1) * (viridis.length - 1), i = Math.min(Math.floor(place), viridis.length - 2);
  return viridis[i].map((v, c) => Math.round(v + (place - i) * (viridis[i + 1][c] - v)));
}

/** Returns a square of side * side values as a picture, first row on top. */
function makeHeatmap(values, side, largest, title) {
  const canvas = make('canvas', { width: side, height: side, role: 'img', 'aria-label': title });
  const context = canvas.getContext('2d'), image = context.createImageData(side, side);
  values.forEach((v, i) => image.data.set([...colourOf(v / largest), 255], 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

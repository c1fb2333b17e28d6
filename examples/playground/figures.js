// SPDX-License-Identifier: MIT
// Figures of positions and distances, which the tour's report shows as well. Each is a function
// (container, library, settings) that returns a function to draw it again. settings() returns the
// first arguments of every call. container.numbers are the numbers drawn, by call.
'use strict';

const rules = ['Unscaled', 'LinearScaling', 'NtkScaling', 'YarnScaling', 'Llama3Scaling'];

/** Returns draw with the library's errors shown in the container. */
function showingErrors(container, draw) {
  const message = make('p', { class: 'error', role: 'alert' });
  return () => {
    try {
      message.remove();
      draw();
    } catch (error) {
      if (!(error instanceof LibraryError)) throw error;
      message.textContent = error.message;
      container.append(message);
    }
  };
}

/** Draws a clock per pair, whose hand is (1, 0) rotated to the position. */
function clockFigure(container, library, settings) {
  const slider = new Slider({ label: 'Position', min: 0, max: 1024, step: 1, value: 40, least: -1e9, most: 1e9, key: 'position', speed: 8, change: () => redraw() });
  const space = make('div', { class: 'drawing' });
  const status = make('p', { class: 'note' });
  container.replaceChildren(slider.element, space, status);
  let shape = '', hands = [];
  const draw = showingErrors(container, () => {
    const numbers = library.call('hands', ...settings(), slider.value);
    const waves = library.call('wavelengths', ...settings());
    const pairs = numbers.length / 2, width = space.clientWidth;
    container.numbers = { hands: numbers };
    const columns = Math.min(pairs, 2 ** Math.floor(Math.log2(width / 40))), cell = Math.min(width / columns, 72);
    if (shape !== `${pairs} ${columns} ${width}`) {  // otherwise the hands alone change
      shape = `${pairs} ${columns} ${width}`;
      const rows = Math.ceil(pairs / columns), r = cell * 0.4, high = cell + 20;
      const svg = makeSvg('svg', { width, height: rows * high, viewBox: `0 0 ${width} ${rows * high}`, role: 'img', 'aria-label': 'A clock for each pair of channels' });
      hands = [];
      for (let i = 0; i < pairs; ++i) {
        const x = (i % columns + 0.5) * cell, y = Math.floor(i / columns) * high + cell / 2;
        const hand = makeSvg('line', { class: 'hand', x1: 0, y1: 0 }), tip = makeSvg('circle', { class: 'tip', r: Math.max(2.2, r * 0.14) });
        const title = makeSvg('title');
        hands.push({ hand, tip, title, r });
        svg.append(makeSvg('g', { transform: `translate(${x},${y})` }, title, makeSvg('circle', { class: 'face', r }),
          makeSvg('line', { class: 'axis', x1: r * 0.82, x2: r, y1: 0, y2: 0 }), hand, tip,
          makeSvg('text', { y: r + 17, 'text-anchor': 'middle' }, String(i))));
      }
      space.replaceChildren(svg);
    }
    hands.forEach(({ hand, tip, title, r }, i) => {
      const x = r * 0.88 * numbers[i], y = -r * 0.88 * numbers[pairs + i];
      setAttributes(hand, { x2: x, y2: y });
      setAttributes(tip, { cx: x, cy: y });
      title.textContent = `pair ${i}: cos ${compact(numbers[i])}, sin ${compact(numbers[pairs + i])}; a turn every ${compact(waves[i])} positions`;
    });
    const turned = Array.from(waves.subarray(0, pairs)).filter((w) => w <= Math.abs(slider.value)).length;
    status.replaceChildren('Pairs 0 to ', String(pairs - 1), ', each with its number. At position ', make('output', {}, grouped(slider.value)),
      `, ${turned} of them have made a full turn. Pair 0 turns every ${compact(waves[0])} positions, pair ${pairs - 1} every ${compact(waves[pairs - 1])}.`);
  });
  const redraw = drawToWidth(space, draw);
  return redraw;
}

/** Draws the score by distance, with the score of one query and one key that move together. */
function scoreFigure(container, library, settings) {
  const change = () => redraw();
  const distance = new Slider({ label: 'Distance from key to query', min: 0, max: 512, step: 1, value: 24, most: 1e6, key: 'distance', change });
  const key = new Slider({ label: 'Move both: key at position', min: 0, max: 1e6, step: 100, value: 0, most: 1e9, key: 'key', change });
  const reach = makeSelect('Distances shown', [64, 512, 4096, 32768].map((n) => [n, `0 to ${grouped(n)}`]), 512, change, 'reach');
  const space = make('div', { class: 'drawing' }), keys = make('div'), table = make('div', { class: 'wide' });
  const vectors = make('p', { class: 'note' }, 'q and k are two fixed vectors of length 1. Channel c of q is 1 + 0.6 sin(2.1 c), of k 1 + 0.6 sin(5.3 c + 1), each divided by the length of its vector.');
  container.replaceChildren(distance.element, key.element, reach.element, space, keys, vectors, table);
  const draw = showingErrors(container, () => {
    const longest = Number(reach.select.value);
    const curve = library.call('curve', ...settings(), longest), count = curve.length / 3;
    const [xs, scaled, plain] = [0, 1, 2].map((n) => curve.subarray(n * count, (n + 1) * count));
    const here = library.call('score', ...settings(), key.value + distance.value, key.value);
    const start = library.call('score', ...settings(), distance.value, 0);
    container.numbers = { curve, score: here };
    const isScaled = settings()[0] !== 0;
    const low = Math.min(0, ...scaled, ...plain), high = Math.max(...scaled, ...plain);
    const series = [
      ...(isScaled ? [{ name: 'without scaling', short: 'without', kind: 'line', tone: 'soft', xs, ys: plain }] : []),
      { name: isScaled ? 'with the rule' : 'score', short: isScaled ? 'scaled' : 'q·k', kind: 'line', tone: 'first', xs, ys: scaled },
      ...(distance.value <= longest ? [{ name: 'this query and key', kind: 'dot', tone: 'second', xs: [distance.value], ys: [here[0]] }] : []),
    ];
    space.replaceChildren(plot({
      width: space.clientWidth, title: 'Score by distance', series,
      x: { name: 'distance', label: 'distance between query and key, positions', low: 0, high: longest },
      y: { label: 'score q·k, for vectors of length 1', low: Math.floor(low * 5) / 5, high: Math.ceil(high * 5) / 5 },
    }));
    keys.replaceChildren(makeKey(series));
    const names = ['posenc, double', 'posenc, float', 'float32 angles, as in other libraries'];
    const row = (tag, cells) => make('tr', {}, ...cells.map((cell) => make(tag, {}, cell)));
    table.replaceChildren(make('table', {},
      make('thead', {}, row('th', ['angles', 'q·k', `change since the key was at 0`])),
      make('tbody', {}, ...names.map((name, i) => row('td', [name, make('output', {}, here[i].toFixed(6)), compact(Math.abs(here[i] - start[i]), 2)])))));
  });
  const redraw = drawToWidth(space, draw);
  return redraw;
}

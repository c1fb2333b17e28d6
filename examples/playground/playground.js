// SPDX-License-Identifier: MIT
// The page: settings, the figures that only it has, and the reader of config.json.
'use strict';

const labelsOfRules = ['none', 'linear', 'NTK-aware', 'YaRN', 'Llama 3'];
const encodings = ['Sinusoidal, added', 'RoPE, rotated', 'ALiBi, slope 1/4', 'T5, 32 buckets'];

/** Draws one pair of channels of a query and a key that move together, beside the same pair with the key at position 0. */
function togetherFigure(container, library, settings) {
  const change = () => redraw();
  const key = new Slider({ label: 'Key at position n', min: 0, max: 200, step: 1, value: 12, most: 1e9, key: 'n', speed: 6, change });
  const distance = new Slider({ label: 'Query at position m = n plus', min: -32, max: 32, step: 1, value: 3, key: 'apart', change });
  const pair = new Slider({ label: 'Pair', min: 0, max: 127, step: 1, value: 4, key: 'pair', change });
  const space = make('div', { class: 'drawing' }), keys = make('div'), note = make('p', { class: 'note' });
  container.replaceChildren(key.element, distance.element, pair.element, space, keys, note);
  const draw = showingErrors(container, () => {
    const last = settings()[2] / 2 - 1, chosen = Math.min(Math.max(0, Math.round(pair.value)), last);
    pair.range.max = pair.box.max = last;
    const at = (n) => library.call('pair', ...settings(), chosen, n + distance.value, n);
    const [start, moved] = [at(0), at(key.value)];
    container.numbers = { pair: moved };
    const width = space.clientWidth, panel = Math.min(width / 2, 280), r = panel * 0.36, height = panel + 24;
    const longest = Math.max(...[start, moved].flatMap(([a, b, c, d]) => [Math.hypot(a, b), Math.hypot(c, d)]));
    const svg = makeSvg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Pair ${chosen} of q and k, before and after both moved` });
    const arrow = (x, y, tone, name) => {
      const [a, b] = [x / longest * r, -y / longest * r], size = Math.hypot(a, b) || 1;
      return makeSvg('g', { class: tone }, makeSvg('line', { class: 'line', x1: 0, y1: 0, x2: a, y2: b }), makeSvg('circle', { class: 'dots', cx: a, cy: b, r: 4 }),
        makeSvg('text', { class: 'label halo', x: a + a / size * 14, y: b + b / size * 14 + 4, 'text-anchor': 'middle' }, name));
    };
    [[start, `key at 0, query at ${grouped(distance.value)}`], [moved, `key at ${grouped(key.value)}, query at ${grouped(key.value + distance.value)}`]].forEach(([[qx, qy, kx, ky], title], n) => {
      const from = Math.atan2(ky, kx), apart = Math.atan2(kx * qy - ky * qx, kx * qx + ky * qy), arc = r * 0.35;
      const end = (angle) => `${arc * Math.cos(angle)},${-arc * Math.sin(angle)}`;
      svg.append(makeSvg('g', { transform: `translate(${panel * (n + 0.5) + (width / 2 - panel) * n},${panel / 2})` }, makeSvg('circle', { class: 'face', r }),
        makeSvg('path', { class: 'between', d: `M${end(from)} A${arc},${arc} 0 0 ${apart > 0 ? 0 : 1} ${end(from + apart)}` }),
        arrow(kx, ky, 'second', 'k'), arrow(qx, qy, 'first', 'q'), makeSvg('text', { y: panel / 2 + 14, 'text-anchor': 'middle' }, title)));
    });
    space.replaceChildren(svg);
    keys.replaceChildren(makeKey([{ name: 'query', kind: 'dots', tone: 'first' }, { name: 'key', kind: 'dots', tone: 'second' }]));
    const angle = ([qx, qy, kx, ky]) => compact(Math.atan2(kx * qy - ky * qx, kx * qx + ky * qy) * 180 / Math.PI);
    note.replaceChildren('Both arrows moved, and the angle from k to q is ', make('output', {}, `${angle(moved)}°`), `, as it was (${angle(start)}°). So is what this pair adds to q·k: `,
      make('output', { class: 'part' }, moved[4].toFixed(6)), `, and ${start[4].toFixed(6)} with the key at 0.`);
  });
  const redraw = drawToWidth(space, draw);
  return redraw;
}

/** Draws the wavelength of each pair, with and without the rule. */
function wavelengthFigure(container, library, settings) {
  const space = make('div', { class: 'drawing' }), keys = make('div'), note = make('p', { class: 'note' });
  container.replaceChildren(space, keys, note);
  const draw = showingErrors(container, () => {
    const numbers = library.call('wavelengths', ...settings()), pairs = (numbers.length - 1) / 2;
    container.numbers = { wavelengths: numbers };
    const xs = Array.from({ length: pairs }, (_, i) => i);
    const scaled = numbers.subarray(0, pairs), plain = numbers.subarray(pairs, 2 * pairs);
    const [rule, , , , trained] = settings();
    const series = [
      ...(rule !== 0 ? [{ name: 'without scaling', short: 'without', kind: 'ring', tone: 'soft', xs, ys: plain }] : []),
      { name: rule !== 0 ? `with the rule ${rules[rule]}` : 'wavelength', short: rule !== 0 ? 'scaled' : 'wavelength', kind: 'dots', tone: 'first', xs, ys: scaled },
    ];
    const high = 10 ** Math.ceil(Math.log10(Math.max(trained, ...scaled, ...plain)));
    space.replaceChildren(plot({
      width: space.clientWidth, title: 'Wavelength of each pair', series, levels: [{ value: trained, name: `trained length, ${grouped(trained)} tokens` }],
      x: { name: 'pair', label: 'pair', low: 0, high: Math.max(pairs - 1, 1) },
      y: { label: 'wavelength, positions per rotation', low: 1, high, log: true },
    }));
    keys.replaceChildren(makeKey(series));
    const slow = Array.from(scaled).filter((w) => w > trained).length;
    note.replaceChildren('Wavelengths go from ', make('output', { class: 'shortest' }, compact(scaled[0], 6)), ' to ',
      make('output', { class: 'longest' }, compact(scaled[pairs - 1], 6)), ` positions. ${slow} of ${pairs} pairs do not complete a turn within the trained length.`,
      rule === 3 ? ` Cosines and sines are multiplied by the attention factor ${compact(numbers[2 * pairs])}.` : '');
  });
  return drawToWidth(space, draw);
}

/** Draws which channels of a head are rotated together. */
function pairingFigure(container, library, settings) {
  const shown = 16;
  const space = make('div', { class: 'drawing' }), note = make('p', { class: 'note' });
  const channel = new Slider({ label: 'Channel', min: 0, max: 127, step: 1, value: 5, key: 'channel', change: () => redraw() });
  container.replaceChildren(space, channel.element, note);
  const draw = showingErrors(container, () => {
    const all = settings(), few = [...all];
    few[2] = shown;
    const found = library.call('partners', ...few), full = library.call('partners', ...all);
    container.numbers = { partners: full };
    const width = space.clientWidth, cell = Math.min(width / shown, 44), left = (width - cell * shown) / 2;
    const riseOf = (a, b) => Math.min(86, Math.abs(b - a) * cell * 0.5);
    const base = 10 + Math.max(...Array.from(found, (other, c) => riseOf(c, other))), height = base + cell + 4;
    const svg = makeSvg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Pairs among ${shown} channels` });
    const middle = (c) => left + (c + 0.5) * cell;
    found.forEach((other, c) => {
      if (other > c) {
        const a = middle(c), b = middle(other), rise = riseOf(c, other);
        svg.append(makeSvg('path', { class: 'arc', d: `M${a},${base} C${a},${base - rise * 1.33} ${b},${base - rise * 1.33} ${b},${base}` }));
      }
      const pair = Math.min(c, other), first = other > c;
      svg.append(makeSvg('g', {}, makeSvg('title', {}, `channel ${c} is in a pair with ${other}; the pair begins at ${pair}`),
        makeSvg('rect', { class: first ? 'cell even' : 'cell', x: left + c * cell + 1, y: base, width: cell - 2, height: cell - 2, rx: 3 }),
        makeSvg('text', { x: middle(c), y: base + cell / 2 + 4, 'text-anchor': 'middle', class: cell < 26 ? 'small' : '' }, String(c))));
    });
    space.replaceChildren(svg);
    const last = all[2] - 1, chosen = Math.min(Math.max(0, Math.round(channel.value)), last);
    channel.range.max = channel.box.max = last;
    note.replaceChildren(`Drawn for a head of ${shown} channels. In this head of ${all[2]}, channel ${chosen} is rotated with channel `,
      make('output', {}, String(full[chosen])), '.');
  });
  const redraw = drawToWidth(space, draw);
  return redraw;
}

/** Draws attention weights under four encodings, on one scale of colours. */
function mapFigure(container, library, settings) {
  const id = 'causal';
  const causal = make('input', { type: 'checkbox', id });
  const space = make('div', { class: 'maps' }), bar = make('div', { class: 'bar' });
  const cell = make('p', { class: 'note cell-value', 'aria-live': 'polite' }, 'Point at a map, or move in it by arrow keys, to read a weight.');
  container.replaceChildren(make('div', { class: 'check' }, causal, make('label', { for: id }, 'Causal mask: a token sees itself and the tokens before it')), space, bar, cell);
  const draw = showingErrors(container, () => {
    const maps = encodings.map((_, n) => library.call('map', ...settings(), n, causal.checked ? 1 : 0));
    container.numbers = { maps };
    const side = Math.sqrt(maps[0].length);
    // Early rows of a causal map have few keys, whose large weights would darken all others.
    const largest = Math.max(...maps.map((m) => Math.max(...m.subarray(side * (side >> 1)))));
    const axis = (text, place) => make('span', { class: `of-axis ${place}` }, text);
    const heatmap = (map, n) => {
      const canvas = makeHeatmap(map, side, largest, `Attention weights: ${encodings[n]}`);
      addCellReadout(canvas, side, (q, k) => { cell.textContent = `${encodings[n]}: the query at ${q} gives the key at ${k} the weight ${compact(map[q * side + k], 3)}.`; });
      return canvas;
    };
    space.replaceChildren(...maps.map((map, n) => make('figure', {}, make('figcaption', {}, encodings[n]),
      make('div', { class: 'map' }, axis('query', 'down'), heatmap(map, n),
        axis('0', 'start'), axis('key, position', 'middle'), axis(String(side - 1), 'end')))));
    const steps = Array.from({ length: 9 }, (_, i) => `rgb(${colourOf(i / 8).join(' ')})`);
    bar.replaceChildren(make('span', {}, '0'), make('i', { style: `background: linear-gradient(to right, ${steps.join(', ')})`, 'aria-hidden': 'true' }),
      make('span', {}, 'attention weight ', make('output', {}, compact(largest, 3)), causal.checked ? ' and more' : ''));
  });
  causal.addEventListener('change', () => draw());
  keyed.set('causal', { start: 0, get: () => (causal.checked ? 1 : 0), set: (text) => { causal.checked = text === '1'; draw(); } });
  draw();
  return draw;
}

/** Draws the error of each pair's cos and sin at a position. */
function errorFigure(container, library, settings) {
  const slider = new Slider({ label: 'Position', min: 0, max: 1e6, step: 1000, value: 1e6, most: 1e9, key: 'far', change: () => redraw() });
  const space = make('div', { class: 'drawing' }), keys = make('div'), note = make('p', { class: 'note' });
  container.replaceChildren(slider.element, space, keys, note);
  const draw = showingErrors(container, () => {
    const numbers = library.call('errors', ...settings(), slider.value), pairs = numbers.length / 2;
    container.numbers = { errors: numbers };
    const xs = Array.from({ length: pairs }, (_, i) => i);
    const ours = numbers.subarray(0, pairs), others = numbers.subarray(pairs);
    const series = [
      { name: 'float32 angles, as in other libraries', short: 'float32 angles', kind: 'dots', tone: 'second', xs, ys: others },
      { name: 'posenc, float', short: 'posenc', kind: 'dots', tone: 'first', xs, ys: ours },
    ];
    space.replaceChildren(plot({
      width: space.clientWidth, title: 'Error of cos and sin of each pair', series,
      levels: [{ value: 2 ** -25, name: 'half an ulp of a float, 3e-8' }],
      x: { name: 'pair', label: 'pair', low: 0, high: Math.max(pairs - 1, 1) },
      y: { label: 'error of cos or sin, the larger', low: 1e-12, high: 1, log: true },
    }));
    keys.replaceChildren(makeKey(series));
    note.replaceChildren('Largest error at position ', grouped(slider.value), ': ', make('output', { class: 'ours' }, compact(Math.max(...ours), 2)), ' with posenc in float, ',
      make('output', { class: 'others' }, compact(Math.max(...others), 2)), ' where position and frequency are multiplied in float32. Errors below 10⁻¹² are drawn at 10⁻¹².');
  });
  const redraw = drawToWidth(space, draw);
  return redraw;
}

/** Shows what posenc_inspect prints of a file that is picked, dropped, pasted or chosen. */
function inspectFigure(container, library, examples) {
  const area = make('textarea', { id: 'config', rows: 8, spellcheck: 'false', placeholder: '{ "model_type": "llama", ... }' });
  const pick = make('input', { type: 'file', id: 'file', accept: '.json,application/json' });
  const output = make('pre', { class: 'report', tabindex: 0, 'aria-label': 'Settings of the model', 'aria-live': 'polite' });
  const draw = () => {
    output.classList.remove('error');
    try {
      output.textContent = library.inspect(new TextEncoder().encode(area.value), Number(pairing.select.value));
    } catch (error) {
      if (!(error instanceof LibraryError)) throw error;
      output.textContent = error.message;
      output.classList.add('error');
    }
  };
  const show = (text) => { area.value = text; draw(); };
  const read = async (file) => {
    if (!file) return;
    example.select.value = '';
    show(await file.slice(0, 2 ** 24).text());
  };
  const example = makeSelect('Example', [['', 'none'], ...Object.keys(examples).map((name) => [name, name])], '', () => {
    if (!example.select.value) return;
    pick.value = '';
    show(examples[example.select.value]);
  });
  const pairing = makeSelect('Pairing', [[0, 'that of the model'], [1, 'interleaved'], [2, 'half']], 0, draw);
  pick.addEventListener('change', () => read(pick.files[0]));
  area.addEventListener('input', () => { example.select.value = ''; draw(); });
  // The whole page accepts files, because a browser leaves the page for a file that is dropped beside the figure.
  const hasFile = (event) => event.dataTransfer.types.includes('Files');
  const mark = (isOver) => container.classList.toggle('dropping', isOver);
  document.addEventListener('dragover', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    mark(true);
  });
  document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) mark(false); });
  document.addEventListener('drop', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    mark(false);
    pick.value = '';  // the name that it shows
    read(event.dataTransfer.files[0]);
    container.scrollIntoView();
  });
  container.replaceChildren(
    make('div', { class: 'fields' }, make('div', { class: 'field' }, make('label', { for: 'file' }, 'File, picked or dropped on this page'), pick), example.element, pairing.element),
    make('label', { for: 'config' }, 'Or its text'), area, output);
  example.select.value = Object.keys(examples)[0];
  show(examples[example.select.value]);
}

/** Fills the form of settings. Returns a function that returns the arguments of every call. */
function settingsForm(form, change) {
  const rule = makeSelect('Scaling rule', labelsOfRules.map((name, n) => [n, name]), 0, () => update(), 'rule');
  const pairing = makeSelect('Pairing', [[0, 'interleaved'], [1, 'half']], 0, () => update(), 'pairing');
  const trained = makeSelect('Trained length', [2048, 4096, 8192, 32768, 131072].map((n) => [n, `${grouped(n)} tokens`]), 4096, () => update(), 'trained');
  const dim = makeSelect('head_dim', [32, 64, 80, 96, 128, 192, 256].map((n) => [n, String(n)]), 128, () => update(), 'head_dim');
  const base = new Slider({ label: 'Base', min: 1000, max: 1e6, step: 1000, value: 10000, least: 2, most: 1e12, key: 'base', change: () => update() });
  const factor = new Slider({ label: 'Factor', min: 1, max: 64, step: 0.5, value: 8, most: 1e4, key: 'factor', change: () => update() });
  form.append(base.element, dim.element, rule.element, factor.element, trained.element, pairing.element);
  const show = () => {
    const unused = rule.select.value === '0';
    for (const input of [factor.range, factor.box]) input.disabled = unused;
    factor.element.classList.toggle('unused', unused);
    document.querySelector('#settings .now').textContent = `base ${grouped(base.value)}, head_dim ${dim.select.value}, ${unused
      ? 'no scaling' : `${labelsOfRules[rule.select.value]} ${factor.value}`}, ${pairing.select.value === '0' ? 'interleaved' : 'half'}`;
  };
  const update = () => { show(); change(); };
  show();
  const number = ({ select }) => Number(select.value);
  return () => [number(rule), base.value, number(dim), factor.value, number(trained), number(pairing)];
}

/** Keeps settings that differ from the first ones in the address, as #base=500000&rule=3, and reads them from there. */
function followAddress() {
  const read = () => {
    for (const [name, text] of new URLSearchParams(location.hash.slice(1))) keyed.get(name)?.set(text);
  };
  const write = () => {
    const changed = [...keyed].filter(([, { start, get }]) => String(get()) !== String(start)).map(([name, { get }]) => [name, get()]);
    history.replaceState(null, '', `#${new URLSearchParams(changed)}`);
  };
  read();
  window.addEventListener('hashchange', read);
  for (const type of ['input', 'change']) document.addEventListener(type, write);
}

/** Folds the settings away where they would cover the figures. */
function foldSettings() {
  const details = document.querySelector('#settings details'), wide = matchMedia('(min-width: 62rem)');
  const follow = () => { details.open = wide.matches; };
  wide.addEventListener('change', follow);
  follow();
}

async function start() {
  const library = await Library.unpack(document.getElementById('library').textContent.trim());
  const place = (id) => document.querySelector(`#${id} .figure`);
  const redraws = [];
  const settings = settingsForm(document.querySelector('#settings form'), () => redraws.forEach((redraw) => redraw()));
  for (const [id, figure] of Object.entries({ clocks: clockFigure, together: togetherFigure, scores: scoreFigure, wavelengths: wavelengthFigure,
    pairing: pairingFigure, maps: mapFigure, errors: errorFigure })) {
    redraws.push(figure(place(id), library, settings));
  }
  inspectFigure(place('inspect'), library, JSON.parse(document.getElementById('examples').textContent));
  foldSettings();
  followAddress();
  document.body.dataset.ready = 'yes';
}
start().catch((error) => {
  document.querySelector('#intro').append(make('p', { class: 'error', role: 'alert' }, `The figures cannot start in this browser: ${error.message}`));
});

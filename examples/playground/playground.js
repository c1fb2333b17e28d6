// SPDX-License-Identifier: MIT
// The page: settings, the figures that only it has, and the reader of config.json.
'use strict';

const labelsOfRules = ['none', 'linear', 'NTK-aware', 'YaRN', 'Llama 3'];
const encodings = ['Sinusoidal, added', 'RoPE, rotated', 'ALiBi, slope 1/4', 'T5, 32 buckets'];

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
      ...(rule !== 0 ? [{ name: 'without scaling', kind: 'ring', tone: 'soft', xs, ys: plain }] : []),
      { name: rule !== 0 ? `with the rule ${rules[rule]}` : 'wavelength', kind: 'dots', tone: 'first', xs, ys: scaled },
    ];
    const high = 10 ** Math.ceil(Math.log10(Math.max(trained, ...scaled, ...plain)));
    space.replaceChildren(plot({
      width: space.clientWidth, title: 'Wavelength of each pair', series, levels: [{ value: trained, name: `trained length, ${grouped(trained)} tokens` }],
      x: { label: 'pair', low: 0, high: Math.max(pairs - 1, 1) },
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
  const channel = new Slider({ label: 'Channel', min: 0, max: 127, step: 1, value: 5, change: () => redraw() });
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
      svg.append(makeSvg('rect', { class: first ? 'cell even' : 'cell', x: left + c * cell + 1, y: base, width: cell - 2, height: cell - 2, rx: 3 }),
        makeSvg('text', { x: middle(c), y: base + cell / 2 + 4, 'text-anchor': 'middle', class: cell < 26 ? 'small' : '' }, String(c)),
        makeSvg('title', {}, `channel ${c} is in a pair with ${other}; the pair begins at ${pair}`));
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
  container.replaceChildren(make('div', { class: 'check' }, causal, make('label', { for: id }, 'Causal mask: a token sees itself and the tokens before it')), space, bar);
  const draw = showingErrors(container, () => {
    const maps = encodings.map((_, n) => library.call('map', ...settings(), n, causal.checked ? 1 : 0));
    container.numbers = { maps };
    const side = Math.sqrt(maps[0].length);
    // Early rows of a causal map have few keys, whose large weights would darken all others.
    const largest = Math.max(...maps.map((m) => Math.max(...m.subarray(side * (side >> 1)))));
    const axis = (text, place) => make('span', { class: `of-axis ${place}` }, text);
    space.replaceChildren(...maps.map((map, n) => make('figure', {}, make('figcaption', {}, encodings[n]),
      make('div', { class: 'map' }, axis('query', 'down'), makeHeatmap(map, side, largest, `Attention weights: ${encodings[n]}`),
        axis('0', 'start'), axis('key, position', 'middle'), axis(String(side - 1), 'end')))));
    const steps = Array.from({ length: 9 }, (_, i) => `rgb(${colourOf(i / 8).join(' ')})`);
    bar.replaceChildren(make('span', {}, '0'), make('i', { style: `background: linear-gradient(to right, ${steps.join(', ')})`, 'aria-hidden': 'true' }),
      make('span', {}, 'attention weight ', make('output', {}, compact(largest, 3)), causal.checked ? ' and more' : ''));
  });
  causal.addEventListener('change', () => draw());
  draw();
  return draw;
}

/** Draws the error of each pair's cos and sin at a position. */
function errorFigure(container, library, settings) {
  const slider = new Slider({ label: 'Position', min: 0, max: 1e6, step: 1000, value: 1e6, most: 1e9, change: () => redraw() });
  const space = make('div', { class: 'drawing' }), keys = make('div'), note = make('p', { class: 'note' });
  container.replaceChildren(slider.element, space, keys, note);
  const draw = showingErrors(container, () => {
    const numbers = library.call('errors', ...settings(), slider.value), pairs = numbers.length / 2;
    container.numbers = { errors: numbers };
    const xs = Array.from({ length: pairs }, (_, i) => i);
    const ours = numbers.subarray(0, pairs), others = numbers.subarray(pairs);
    const series = [
      { name: 'float32 angles, as in other libraries', kind: 'dots', tone: 'second', xs, ys: others },
      { name: 'posenc, float', kind: 'dots', tone: 'first', xs, ys: ours },
    ];
    space.replaceChildren(plot({
      width: space.clientWidth, title: 'Error of cos and sin of each pair', series,
      levels: [{ value: 2 ** -25, name: 'half an ulp of a float, 3e-8' }],
      x: { label: 'pair', low: 0, high: Math.max(pairs - 1, 1) },
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
  const rule = makeSelect('Scaling rule', labelsOfRules.map((name, n) => [n, name]), 0, () => update());
  const pairing = makeSelect('Pairing', [[0, 'interleaved'], [1, 'half']], 0, () => update());
  const trained = makeSelect('Trained length', [2048, 4096, 8192, 32768, 131072].map((n) => [n, `${grouped(n)} tokens`]), 4096, () => update());
  const dim = makeSelect('head_dim', [32, 64, 80, 96, 128, 192, 256].map((n) => [n, String(n)]), 128, () => update());
  const base = new Slider({ label: 'Base', min: 1000, max: 1e6, step: 1000, value: 10000, least: 2, most: 1e12, change: () => update() });
  const factor = new Slider({ label: 'Factor', min: 1, max: 64, step: 0.5, value: 8, most: 1e4, change: () => update() });
  form.append(base.element, dim.element, rule.element, factor.element, trained.element, pairing.element);
  const show = () => {
    const unused = rule.select.value === '0';
    for (const input of [factor.range, factor.box]) input.disabled = unused;
    factor.element.classList.toggle('unused', unused);
  };
  const update = () => { show(); change(); };
  show();
  const number = ({ select }) => Number(select.value);
  return () => [number(rule), base.value, number(dim), factor.value, number(trained), number(pairing)];
}

async function start() {
  const library = await Library.unpack(document.getElementById('library').textContent.trim());
  const place = (id) => document.querySelector(`#${id} .figure`);
  const redraws = [];
  const settings = settingsForm(document.querySelector('#settings form'), () => redraws.forEach((redraw) => redraw()));
  for (const [id, figure] of Object.entries({ clocks: clockFigure, scores: scoreFigure, wavelengths: wavelengthFigure,
    pairing: pairingFigure, maps: mapFigure, errors: errorFigure })) {
    redraws.push(figure(place(id), library, settings));
  }
  inspectFigure(place('inspect'), library, JSON.parse(document.getElementById('examples').textContent));
  document.body.dataset.ready = 'yes';
}
start().catch((error) => {
  document.querySelector('#intro').append(make('p', { class: 'error', role: 'alert' }, `The figures cannot start in this browser: ${error.message}`));
});

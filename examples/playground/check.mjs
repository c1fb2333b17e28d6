// SPDX-License-Identifier: MIT
// Drives the playground in headless Chromium by keyboard, and compares its numbers with native ones:
// node check.mjs <chromium> <playground.html> <posenc_playground_numbers> <posenc_inspect> <folder of configs> [<folder for pictures>]
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Browser } from './browser.mjs';
import { compare, drawn, expect, finish, nativeNumbers } from './native.mjs';

const [chromium, page, program, inspect, configs, pictures] = process.argv.slice(2);
const browser = new Browser(chromium);
let compared = 0;

const box = (section, n) => `document.querySelectorAll('#${section} input[type=number]')[${n}]`;
const choice = (section, label) => `[...document.querySelectorAll('#${section} .field')].find((f) => f.firstChild.textContent === '${label}').querySelector('select')`;
const focused = 'document.activeElement';

/** Moves the focus to an element by Tab alone. */
async function tabTo(element) {
  for (let n = 0; n < 160; ++n) {
    if (await browser.value(`${focused} === ${element}`)) {
      const outline = await browser.value(`getComputedStyle(${focused}).outlineStyle`);
      expect(outline !== 'none', `${element} shows no focus`);
      return;
    }
    await browser.press('Tab');
  }
  throw new Error(`Tab does not reach ${element}`);
}

async function typeInto(element, number) {
  await tabTo(element);
  await browser.value(`${element}.select()`);
  await browser.type(String(number));
}

/** Chooses an option by the arrow keys. */
async function choose(element, value) {
  await tabTo(element);
  for (let n = 0; n < 20 && await browser.value(`${element}.value`) !== value; ++n) {
    const at = await browser.value(`[...${element}.options].findIndex((o) => o.value === '${value}') - ${element}.selectedIndex`);
    await browser.press(at > 0 ? 'ArrowDown' : 'ArrowUp');
  }
  expect(await browser.value(`${element}.value`) === value, `${element} cannot be set to ${value}`);
}

/** Compares everything that is drawn with native numbers for these settings. */
async function compareAll(settings, { position, distance, key, far, longest = 512, causal = 0, pair = [4, 15, 12] }) {
  const calls = [['clocks', 'hands', [position]], ['together', 'pair', pair], ['scores', 'curve', [longest]], ['scores', 'score', [key + distance, key], 1e-7],
    ['wavelengths', 'wavelengths', []], ['pairing', 'partners', []], ['errors', 'errors', [far]]];
  for (const [section, name, rest, tolerance] of calls) {
    const native = nativeNumbers(program, name, [...settings, ...rest]);
    compared += compare(`${name} of ${settings}`, await browser.value(drawn(`#${section} .figure`, name)), native, tolerance);
  }
  const maps = [0, 1, 2, 3].flatMap((n) => nativeNumbers(program, 'map', [...settings, n, causal]));
  compared += compare(`maps of ${settings}`, await browser.value(drawn('#maps .figure', 'maps')), maps, 1e-6);
}

/** True if a number in the page, as printed, is this number up to its last digit. */
const isShown = (text, number) => Math.abs(Number(text.replaceAll(',', '')) - number) <= Math.abs(number) * 0.05 + 1e-6;

const fits = async (width) => {
  expect(await browser.value('document.documentElement.scrollWidth') <= width, `the page is wider than ${width} pixels`);
  const cut = await browser.value(`[...document.querySelectorAll('input, select, textarea, .figure svg')].filter((e) => e.getBoundingClientRect().right > ${width}).length`);
  expect(cut === 0, `${cut} elements end beyond ${width} pixels`);
};

for (const width of [1400, 390]) {
  for (const dark of [false, true]) {
    await browser.open(page, { width, dark });
    await browser.until("document.body.dataset.ready === 'yes' && document.querySelectorAll('.drawing svg').length === 6");
    await fits(width);
    const paper = await browser.value('getComputedStyle(document.body).backgroundColor');
    expect((paper === 'rgb(255, 255, 255)') !== dark, `${dark ? 'dark' : 'light'} colours: the background is ${paper}`);
    if (pictures) await browser.picture(join(pictures, `playground-${width}-${dark ? 'dark' : 'light'}.png`));
  }
}
const unlabelled = await browser.value("[...document.querySelectorAll('input, select, textarea')].filter((e) => !e.labels.length && !e.ariaLabel).length");
expect(unlabelled === 0, `${unlabelled} controls have no label`);

// The page as it opens, then other settings by keyboard, once at each width.
for (const width of [390, 1400]) {
  await browser.open(page, { width });
  await browser.until("document.querySelectorAll('.drawing svg').length === 6");
  await compareAll([0, 10000, 128, 8, 4096, 0], { position: 40, distance: 24, key: 0, far: 1e6 });

  if (width < 600) {  // the settings are folded away, and stay at the top of the window
    await tabTo("document.querySelector('#settings summary')");
    expect(!await browser.value("document.querySelector('#settings details').open"), 'the settings of a phone are folded');
    await browser.press('Enter');
  }
  await typeInto(box('settings', 0), 500000);
  await choose(choice('settings', 'head_dim'), '64');
  await choose(choice('settings', 'Scaling rule'), '4');
  await typeInto(box('settings', 1), 32);
  await choose(choice('settings', 'Trained length'), '8192');
  await choose(choice('settings', 'Pairing'), '1');
  const range = "document.querySelector('#clocks input[type=range]')";
  await tabTo(range);
  await browser.press('ArrowRight', 3);
  await typeInto(box('scores', 0), 100);
  await typeInto(box('scores', 1), 1000000);
  await choose(choice('scores', 'Distances shown'), '4096');
  await tabTo("document.querySelector('#causal')");
  await browser.press(' ');
  await typeInto(box('errors', 0), 123456);
  const settings = [4, 500000, 64, 32, 8192, 1];
  await typeInto(box('together', 0), 1000);
  await compareAll(settings, { position: 43, distance: 100, key: 1e6, far: 123456, longest: 4096, causal: 1, pair: [4, 1003, 1000] });

  // The address keeps what was set, and a page that is opened by it is the same.
  const address = 'base=500000&head_dim=64&rule=4';
  const hash = new URLSearchParams((await browser.value('location.hash')).slice(1));
  expect(hash.get('base') === '500000' && hash.get('rule') === '4' && hash.get('causal') === '1' && hash.get('far') === '123456' && !hash.has('distances'), `the address is ${hash}`);
  await browser.value(`location.hash = '#${address}&position=77&rule=9&base=-4&unknown=1'`);
  await browser.until("document.querySelector('#clocks output').textContent === '77'");
  expect(await browser.value(`${box('settings', 0)}.value`) === '500000', 'an address cannot set a base of -4');
  await browser.value("location.hash = '#position=43'");
  await browser.until("document.querySelector('#clocks output').textContent === '43'");

  // Numbers that are printed, and a hand as it is drawn.
  const text = (selector) => browser.value(`document.querySelector('${selector}').textContent`);
  const waves = nativeNumbers(program, 'wavelengths', settings), pairs = 32;
  expect(isShown(await text('#wavelengths .longest'), waves[pairs - 1]), `the longest wavelength is not ${waves[pairs - 1]}`);
  const errors = nativeNumbers(program, 'errors', [...settings, 123456]);
  expect(isShown(await text('#errors .ours'), Math.max(...errors.slice(0, pairs))), 'the largest error of posenc');
  expect(isShown(await text('#errors .others'), Math.max(...errors.slice(pairs))), 'the largest error of float32 angles');
  const scores = nativeNumbers(program, 'score', [...settings, 1000100, 1000000]);
  const shown = await browser.value("[...document.querySelectorAll('#scores output')].map((o) => o.textContent)");
  scores.forEach((score, i) => expect(Math.abs(Number(shown[i]) - score) <= 6e-7, `score ${shown[i]}, not ${score}`));
  const [near] = nativeNumbers(program, 'score', [...settings, 100, 0]);
  expect(Math.abs(scores[0] - near) < 1e-12 && Math.abs(scores[2] - near) > 1e-5, 'q·k must stand still in posenc, and not with float32 angles');
  const hands = nativeNumbers(program, 'hands', [...settings, 43]);
  const [x, y] = await browser.value("['x2', 'y2'].map((n) => Number(document.querySelectorAll('.hand')[2].getAttribute(n)))");
  expect(Math.abs(Math.atan2(-y, x) - Math.atan2(hands[pairs + 2], hands[2])) < 1e-9, 'the hand of pair 2');
  expect(await text('#pairing output') === '37', 'channel 5 of 64 is paired with 37 by halves');

  // Values under the pointer or by arrow keys, and the button that moves both.
  const plot = "document.querySelector('#wavelengths svg')";
  await tabTo(plot);
  await browser.press('ArrowRight', 3);
  expect(/^pair 2: without [\d.]+, scaled [\d.]+$/.test(await text('#wavelengths .readout')), `the plot reads ${await text('#wavelengths .readout')}`);
  await tabTo("document.querySelector('#maps canvas')");
  await browser.press('ArrowDown', 2);
  await browser.press('ArrowRight');
  const [weight] = nativeNumbers(program, 'map', [...settings, 0, 1]).slice(2 * 48 + 1);
  const read = /query at 2 gives the key at 1 the weight ([\d.e-]+)/.exec(await text('#maps .cell-value'));
  expect(read && isShown(read[1].replace(/\.$/, ''), weight), `the map reads ${await text('#maps .cell-value')}, not ${weight}`);
  const hover = await browser.value("(() => { const c = document.querySelectorAll('#maps canvas')[1]; c.scrollIntoView({ block: 'center' }); const r = c.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()");
  await browser.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x: hover[0], y: hover[1] });
  await browser.until("/^RoPE, rotated: the query at 2[34] gives/.test(document.querySelector('#maps .cell-value').textContent)");
  await tabTo("document.querySelector('#together button')");
  const part = await text('#together .part'), began = await browser.value(`Number(${box('together', 0)}.value)`);
  await browser.press('Enter');
  await browser.until(`Number(${box('together', 0)}.value) !== ${began}`);
  await browser.press('Enter');
  const stopped = await browser.value(`Number(${box('together', 0)}.value)`);
  expect(Number.isInteger(stopped) && await text('#together button') === '▶ Play', `the button stops at ${stopped}`);
  expect(await text('#together .part') === part, 'what a pair adds to the score stays when both move');
  await fits(width);
}
for (const link of await browser.value("[...document.querySelectorAll('#intro a')].map((a) => a.getAttribute('href')).filter((a) => !a.startsWith('https:'))")) {
  expect(existsSync(join(dirname(page), link)), `${link} is not there`);
}
expect(await browser.value("[...document.querySelectorAll('pre')].every((e) => e.scrollWidth <= e.clientWidth)"), 'a line of a pre is cut');

// config.json: examples by keyboard, a file that is picked or dropped, and errors.
const config = "document.querySelector('#config')";
const report = "document.querySelector('pre.report')";
const isNative = async (name) => {
  const native = execFileSync(inspect, [join(configs, `${name}.json`)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const text = await browser.value(`${report}.textContent`);
  expect(text === native, `${name}: not the text of posenc_inspect, but\n${text}`);
};
for (const name of ['gemma-3-4b', 'gpt-oss-20b', 'deepseek-v3']) {
  await choose(choice('inspect', 'Example'), name);
  await isNative(name);
}
const { root } = await browser.send('DOM.getDocument');
const { nodeId } = await browser.send('DOM.querySelector', { nodeId: root.nodeId, selector: '#file' });
await browser.send('DOM.setFileInputFiles', { nodeId, files: [join(configs, 'mistral-7b-v0.1.json')] });
await browser.until(`${report}.textContent.startsWith('mistral')`);
await isNative('mistral-7b-v0.1');
expect(await browser.value(`${choice('inspect', 'Example')}.value`) === '', 'a picked file is no example');
for (const place of ['#inspect .figure', 'h1']) {
  const name = place === 'h1' ? 'llama-3.1-8b' : 'qwen2.5-7b-yarn';
  const file = ['config.json', readFileSync(join(configs, `${name}.json`), 'utf8')], element = `document.querySelector('${place}')`;
  await browser.drag('dragover', element, ...file);
  const outline = () => browser.value("getComputedStyle(document.querySelector('#inspect .figure')).outlineStyle");
  expect(await outline() === 'dashed', `a file that is held over ${place} shows where it goes`);
  await browser.drag('drop', element, ...file);
  await browser.until(`${report}.textContent.startsWith('${name.slice(0, 5)}')`);
  await isNative(name);
  const isInSight = await browser.value(`(() => { const r = ${report}.getBoundingClientRect(); return r.top < innerHeight && r.bottom > 0; })()`);
  expect(isInSight && await outline() === 'none', `dropped on ${place}: the report is in sight, without an outline`);
}
const paste = async (text) => {
  await tabTo(config);
  await browser.value(`${config}.select()`);
  await browser.type(text);
  return browser.value(`${report}.textContent`);
};
expect(/not JSON.*line 3/.test(await paste('{\n"model_type": "llama",\n}')), 'an error of JSON has a line');
expect(/unheard_of' is unknown; .*pairing/.test(await paste('{"model_type": "unheard_of", "head_dim": 64, "rope_theta": 10000}')), 'an unknown model is rejected');
const plain = '{"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2, "max_position_embeddings": 2048, "rope_theta": 10000}';
expect(/HalfRotate/.test(await paste(plain)), "Llama's pairing is that of halves");
await choose(choice('inspect', 'Pairing'), '1');
expect(/Interleaved/.test(await browser.value(`${report}.textContent`)), 'a pairing can be chosen');
await choose(choice('inspect', 'Pairing'), '0');
expect(/begins with no \{/.test(await paste('notes')), 'a text is no configuration');
expect((await paste(readFileSync(join(configs, 'llama-3.1-8b.json'), 'utf8'))).startsWith('llama'), 'the reader works after errors');

expect(browser.problems.length === 0, browser.problems.join('\n'));
await browser.close();
finish(`${compared} numbers of the page are the native ones`);

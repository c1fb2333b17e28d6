// SPDX-License-Identifier: MIT
// Checks the figures of the playground in the tour's report, with scripts and without:
// node check_tour.mjs <chromium> <report.html> <posenc_playground_numbers>
import { Browser } from './browser.mjs';
import { compare, drawn, expect, finish, nativeNumbers } from './native.mjs';

const [chromium, page, program] = process.argv.slice(2);
const browser = new Browser(chromium);
let compared = 0;

for (const width of [390, 1400]) {
  await browser.open(page, { width, dark: width === 390 });
  await browser.until("document.querySelectorAll('.figure .drawing svg').length === 2");
  expect(await browser.value('document.documentElement.scrollWidth') <= width, `the report is wider than ${width} pixels`);
  compared += compare('clocks', await browser.value(drawn('#rope_arrows .figure', 'hands')), nativeNumbers(program, 'hands', [0, 10000, 32, 1, 4096, 0, 40]));
  compared += compare('scores', await browser.value(drawn('#rope_distance .figure', 'curve')), nativeNumbers(program, 'curve', [0, 10000, 128, 1, 4096, 1, 512]));
  await browser.value("document.querySelector('#rope_arrows input[type=range]').focus()");
  await browser.press('ArrowRight', 2);
  compared += compare('clocks', await browser.value(drawn('#rope_arrows .figure', 'hands')), nativeNumbers(program, 'hands', [0, 10000, 32, 1, 4096, 0, 42]));
}
expect(await browser.value("document.querySelector('a[href=\"playground.html\"]') !== null"), 'the report links to the playground');

await browser.open(page, { scripts: false });
const { root } = await browser.send('DOM.getDocument', { depth: -1 });
const found = async (selector) => (await browser.send('DOM.querySelectorAll', { nodeId: root.nodeId, selector })).nodeIds.length;
expect(await found('.figure') === 0 && await found('details') === 0, 'without scripts nothing is replaced');
expect(await found('#rope_arrows > .wide > img') === 1 && await found('#rope_distance > .wide > img') === 1, 'without scripts the pictures are there');

expect(browser.problems.length === 0, browser.problems.join('\n'));
await browser.close();
finish(`${compared} numbers of the report's figures are the native ones`);

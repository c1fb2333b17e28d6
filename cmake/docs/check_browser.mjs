// SPDX-License-Identifier: MIT
// Opens pages of the site in headless Chromium, from the disk: node check_browser.mjs <chromium> <folder of the site>.
// Fails at an error of a script, a request, a page wider than its window, or colours that do not follow the system.
import { join } from 'node:path';

import { Browser } from '../../examples/playground/browser.mjs';

const [, , chromium, folder] = process.argv;
const browser = new Browser(chromium);
const failures = [];
for (const page of ['index.html', 'overview.html', 'guide/attention.html', 'search.html']) {
  const backgrounds = [];
  for (const [width, dark] of [[390, false], [390, true], [1400, false], [1400, true]]) {
    await browser.open(join(folder, page), { width, dark });
    const what = `${page} at ${width} px, ${dark ? 'dark' : 'light'}`;
    for (const problem of browser.problems.splice(0)) failures.push(`${what}: ${problem}`);
    const wide = await browser.value('document.documentElement.scrollWidth');
    if (wide > width) failures.push(`${what}: the page is ${wide} px wide`);
    const [r, g, b] = (await browser.value('getComputedStyle(document.body).backgroundColor')).match(/\d+/g).map(Number);
    if ((r + g + b < 3 * 128) !== dark) failures.push(`${what}: the background is rgb(${r}, ${g}, ${b})`);
    if (await browser.value('document.documentElement.classList.contains("no-js")')) failures.push(`${what}: the theme's script did not start`);
  }
}
await browser.close();
for (const failure of failures) console.error(failure);
process.exit(failures.length ? 1 : 0);

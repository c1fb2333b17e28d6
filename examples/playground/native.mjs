// SPDX-License-Identifier: MIT
// Numbers of the native program, and comparisons with them.
import { execFileSync } from 'node:child_process';

let failures = 0;

/** Prints the message unless the condition holds. */
export function expect(condition, message) {
  if (condition) return;
  ++failures;
  console.error(`FAILED: ${message}`);
}

/** Exits with status 1 if an expectation failed. */
export function finish(counted) {
  console.log(failures ? `${failures} expectations failed` : counted);
  process.exit(failures ? 1 : 0);
}

export function nativeNumbers(program, name, values) {
  return execFileSync(program, [name, ...values.map(String)], { encoding: 'utf8' }).trim().split('\n').map(Number);
}

/** Compares the page's numbers with the native ones. The two C libraries may round functions differently. */
export function compare(what, page, native, tolerance = 1e-12) {
  expect(page.length === native.length && native.length > 0, `${what}: ${page.length} numbers, not ${native.length}`);
  const wrong = native.findIndex((n, i) => !(page[i] === n || Math.abs(page[i] - n) <= tolerance * Math.max(1, Math.abs(n))));
  expect(wrong < 0, `${what}: number ${wrong} is ${page[wrong]}, not ${native[wrong]}`);
  return native.length;
}

/** Returns the expression of the numbers that a figure has drawn. */
export const drawn = (selector, name) =>
  `(() => { const n = document.querySelector('${selector}').numbers['${name}']; return n[0].length ? n.map((m) => Array.from(m)).flat() : Array.from(n); })()`;

// SPDX-License-Identifier: MIT
// Headless Chromium over its debugging pipe, which needs node alone.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const keys = { Tab: 9, ArrowRight: 39, ArrowLeft: 37, ArrowDown: 40, ArrowUp: 38, Home: 36, End: 35, ' ': 32, Enter: 13 };

export class Browser {
  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), 'posenc-browser-'));
    this.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
      '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${this.folder}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.waiting = new Map();
    this.problems = [];  // errors and requests of the page
    this.last = 0;
    let text = '';
    this.process.stdio[4].setEncoding('utf8').on('data', (part) => {
      text += part;
      for (let end; (end = text.indexOf('\0')) >= 0; text = text.slice(end + 1)) this.receive(JSON.parse(text.slice(0, end)));
    });
    this.process.on('error', (error) => { throw error; });
    this.process.on('exit', () => { for (const { reject } of this.waiting.values()) reject(new Error('the browser ended')); });
  }

  receive(message) {
    const { id, method, params } = message;
    if (id) {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      message.error ? reject(new Error(message.error.message)) : resolve(message.result);
    } else if (method === 'Page.loadEventFired') this.loaded?.();
    else if (method === 'Runtime.exceptionThrown') this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    else if (method === 'Network.requestWillBeSent' && /^(https?|wss?|ftp):/.test(params.request.url)) this.problems.push(`request of ${params.request.url}`);
  }

  send(method, params = {}, session = this.session) {
    const id = ++this.last;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, ...(session ? { sessionId: session } : {}) })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** Opens a page of this width in light or dark colours. */
  async open(file, { width = 1400, height = 900, dark = false, scripts = true } = {}) {
    if (!this.session) {
      const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
      this.session = (await this.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
      for (const domain of ['Page', 'Runtime', 'Network', 'DOM']) await this.send(`${domain}.enable`);
    }
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    await this.send('Emulation.setScriptExecutionDisabled', { value: !scripts });
    const done = new Promise((resolve) => { this.loaded = resolve; });
    await this.send('Page.navigate', { url: pathToFileURL(file).href });
    await done;
  }

  /** Returns the value of an expression in the page. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  async until(expression) {
    for (let tries = 0; tries < 400; ++tries) {
      if (await this.value(expression)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`not within 20 seconds: ${expression}`);
  }

  async press(key, times = 1) {
    const text = key === ' ' ? ' ' : key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
    const code = { key, windowsVirtualKeyCode: keys[key] ?? key.toUpperCase().charCodeAt(0), ...(text ? { text } : {}) };
    for (let n = 0; n < times; ++n) {
      await this.send('Input.dispatchKeyEvent', { type: 'keyDown', ...code });
      await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...code });
    }
  }

  async type(text) { await this.send('Input.insertText', { text }); }

  /** Dispatches an event of a file that is dragged over, or dropped on, an element. */
  async drag(type, element, name, text) {
    await this.value(`(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}, { type: 'application/json' }));
      const taken = !${element}.dispatchEvent(new DragEvent('${type}', { dataTransfer, bubbles: true, cancelable: true }));
      if (!taken) throw new Error('the page leaves ${type} to the browser');
    })()`);
  }

  /** Writes a picture of a part {x, y, width, height} of the page, or of all of it. */
  async picture(file, clip) {
    const size = (await this.send('Page.getLayoutMetrics')).cssContentSize;
    const { data } = await this.send('Page.captureScreenshot', { captureBeyondViewport: true, clip: { ...size, x: 0, y: 0, ...clip, scale: 1 } });
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  async close() {
    await this.send('Browser.close', {}, null).catch(() => {});
    await new Promise((resolve) => (this.process.exitCode !== null ? resolve() : this.process.once('exit', resolve)));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

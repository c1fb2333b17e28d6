// SPDX-License-Identifier: MIT
// The library as a WebAssembly module.
'use strict';

/** Error of the library, with its message. */
class LibraryError extends Error {}

/** The library's calls. Every number of the figures is a result of call(). */
class Library {
  /** Returns the library from a module that was packed by gzip and base64. */
  static async unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Library(await WebAssembly.compile(await new Response(stream).arrayBuffer()));
  }

  constructor(module) {
    this.module = module;
    this.start();
  }

  start() {
    this.errors = '';
    const wasi = {
      // The library prints an error before it aborts, as it was compiled without exceptions.
      fd_write: (file, vectors, count, written) => {
        const view = new DataView(this.memory());
        let bytes = 0;
        for (let i = 0; i < count; ++i) {
          const at = view.getUint32(vectors + 8 * i, true), size = view.getUint32(vectors + 8 * i + 4, true);
          this.errors += new TextDecoder().decode(new Uint8Array(this.memory(), at, size));
          bytes += size;
        }
        view.setUint32(written, bytes, true);
        return 0;
      },
      proc_exit: (status) => { throw new Error(`exit status ${status}`); },
      environ_get: () => 0,
      environ_sizes_get: (count, size) => {
        const view = new DataView(this.memory());
        view.setUint32(count, 0, true);
        view.setUint32(size, 0, true);
        return 0;
      },
      fd_close: () => 0,
      fd_seek: () => 29,  // ESPIPE
    };
    this.instance = new WebAssembly.Instance(this.module, { wasi_snapshot_preview1: wasi });
    this.instance.exports._initialize();
  }

  memory() { return this.instance.exports.memory.buffer; }

  /** Returns use(exports, address of each array of bytes); throws LibraryError. */
  run(arrays, use) {
    const { exports } = this.instance;
    try {
      const at = arrays.map((bytes) => {
        const address = exports.allocate(Math.max(bytes.length, 1));
        new Uint8Array(this.memory(), address, bytes.length).set(bytes);
        return address;
      });
      const result = use(exports, ...at);
      at.forEach((address) => exports.release(address));
      return result;
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      const message = this.errors.trim() || String(error);
      this.start();  // memory and globals of the aborted instance are unusable
      throw new LibraryError(message);
    }
  }

  /** Returns the numbers of one of the calls in calls.cpp. */
  call(name, ...values) {
    const text = new TextEncoder().encode(name);
    const numbers = new Uint8Array(Float64Array.from(values).buffer);
    return this.run([text, numbers], (exports, at, from) => {
      const count = exports.call(at, text.length, from, values.length);
      return new Float64Array(this.memory(), exports.numbers_data(), count).slice();
    });
  }

  /** Returns what posenc_inspect prints of a config.json. */
  inspect(bytes, pairing) {
    return this.run([bytes], (exports, at) => {
      const length = exports.inspect_config(at, bytes.length, pairing);
      return new TextDecoder().decode(new Uint8Array(this.memory(), exports.text_data(), length));
    });
  }
}

import { createRequire } from 'node:module';
import { onTestFinished } from 'vitest';

/** A page of that origin: requests, files and storage as a browser has them. */
export interface Page {
  readonly storage: Kept;
  file(bytes: Uint8Array, name: string, type?: string): File;
}

interface Kept {
  readonly length: number;
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}

interface Window extends Record<string, unknown> {
  readonly localStorage: Kept;
  readonly File: new (parts: Uint8Array[], name: string, options: object) => File;
  close(): void;
}

/** Its types would bring a browser's globals into every test. */
const { JSDOM, VirtualConsole } = createRequire(import.meta.url)('jsdom') as {
  JSDOM: new (html: string, options: object) => { readonly window: Window };
  VirtualConsole: new () => object;
};

const NAMES = ['XMLHttpRequest', 'localStorage', 'location', 'File', 'Blob'] as const;

export function openPage(url: string, storage?: Kept): Page {
  // It would print every connection that a test cuts.
  const { window } = new JSDOM('', { url, virtualConsole: new VirtualConsole() });
  const before = NAMES.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  const put = (name: string, value: unknown): void => {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  };
  // Node's own fetch is loaded when it is first used, and would keep the page's File for good.
  new FormData();
  for (const name of NAMES) put(name, window[name]);
  if (storage) put('localStorage', storage);
  onTestFinished(() => {
    for (const [at, name] of NAMES.entries()) {
      const old = before[at];
      if (old) Object.defineProperty(globalThis, name, old);
      else delete (globalThis as Record<string, unknown>)[name];
    }
    window.close();
  });
  return {
    storage: storage ?? window.localStorage,
    file: (bytes, name, type = '') => new window.File([bytes], name, { type, lastModified: 1 }),
  };
}

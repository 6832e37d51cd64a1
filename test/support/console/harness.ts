import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { makeApiKey, SCOPES, writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { type Gateway, type GatewayInput, startGateway } from '../../../gateway/dist/start.js';
import { requirement } from '../requirements.js';
import { temporaryFolder } from '../temporary.js';

/** The console in a browser, in front of a whole gateway. */

const CHROMIUM = '/usr/bin/chromium';
const ARGUMENTS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];
/** Where the console keeps the key of its tab. */
const KEY_NAME = 'stevedore-key';

export const needsChromium = requirement('chromium', () => existsSync(CHROMIUM));

/** One for all tests of a process; it ends with the process. */
let browser: Promise<Browser> | undefined;

export const VIEWS = ['files', 'diagnostics', 'access'] as const;

export interface Guarded {
  readonly gateway: Gateway;
  /** A key that may do everything. */
  readonly key: string;
}

/** A gateway with an embedded node and API keys, ended with the test. */
export async function guardedGateway(options: GatewayInput = {}): Promise<Guarded> {
  const apiKeys = join(temporaryFolder(), 'keys.json');
  const made = makeApiKey({ name: 'tests', scopes: SCOPES, bytesPerDay: 2 ** 30 }, new Date());
  await writeKeyFile(apiKeys, [made.key]);
  return { gateway: await gatewayOf({ apiKeys, ...options }), key: made.text };
}

export async function gatewayOf(options: GatewayInput = {}): Promise<Gateway> {
  const own = { port: 0, trackerPort: 0, storagePort: 0, logLevel: 'silent', idMaxAge: 0 } as const;
  const gateway = await startGateway({ directory: temporaryFolder(), ...own, ...options });
  onTestFinished(() => gateway.close());
  return gateway;
}

export interface Opening extends BrowserContextOptions {
  readonly key?: string;
  readonly view?: (typeof VIEWS)[number] | `files?${string}` | `key=${string}`;
  /** Troubles of the page that the test is about. */
  readonly expected?: RegExp;
  /** Called before anything is loaded. */
  readonly prepare?: (page: Page) => Promise<unknown>;
}

/** Opens the console, once it has asked the gateway. Nothing may go wrong on the page meanwhile. */
export async function openConsole(
  url: string,
  { key, view = 'diagnostics', expected, prepare, ...options }: Opening = {},
): Promise<Page> {
  browser ??= chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
  const context = await (await browser).newContext({ locale: 'en', ...options });
  onTestFinished(() => context.close());
  if (key !== undefined) {
    await context.addInitScript(`sessionStorage.setItem('${KEY_NAME}', '${key}')`);
  }
  const page = await context.newPage();
  const troubles: string[] = [];
  page.on('pageerror', ({ message }) => troubles.push(message));
  page.on('console', (message) => {
    if (message.type() === 'error') troubles.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('blob:')) {
      troubles.push(`loaded ${request.url()}`);
    }
  });
  onTestFinished(() => expect(troubles.filter((text) => !expected?.test(text))).toEqual([]));
  await prepare?.(page);
  await page.goto(`${url}/#${view}`);
  await page.locator('#status:not([data-state="waiting"])').waitFor();
  return page;
}

/** For `expect.poll`: a busy machine takes its time. */
export const PATIENT = { timeout: 20_000 } as const;

/** Uploads by hand, and waits until all are stored. */
export async function uploadFiles(page: Page, files: Record<string, [string, Buffer]>, group = '') {
  await openFolder(page, group);
  await page
    .locator('#files')
    .setInputFiles(
      Object.entries(files).map(([name, [mimeType, buffer]]) => ({ name, mimeType, buffer })),
    );
  const count = Object.keys(files).length;
  const text = `${count} ${count === 1 ? 'file' : 'files'} stored`;
  await page.locator('#uploads').getByText(text, { exact: true }).waitFor();
}

/** Shows the files of a group; of all without one. */
export async function openFolder(page: Page, group: string): Promise<void> {
  const address = group === '' ? '#files' : `#files?${new URLSearchParams({ group })}`;
  await page.evaluate(`location.hash = '${address}'`);
  await page
    .locator('#path strong')
    .getByText(group || 'All files', { exact: true })
    .waitFor();
}

/** A file of the list, by the beginning of its name. */
export function listed(page: Page, name: string): Locator {
  return page.locator('#list').getByRole('option', { name: new RegExp(`^${name}`) });
}

/** A PNG of one red point. */
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
);

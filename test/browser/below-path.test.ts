import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { GatewayInput } from '../../gateway/dist/start.js';
import {
  guardedGateway,
  listed,
  needsChromium,
  openConsole,
  PATIENT,
  PNG,
  uploadFiles,
} from '../support/console/harness.js';
import { strippingProxy } from '../support/stripping-proxy.js';

/** The console below a path, and at an address that is not the public one. */

test.skipIf(needsChromium.missing).each<[string, GatewayInput, string]>([
  ['below a path that a proxy names', { trustProxy: ['loopback'] }, '/storage'],
  ['below a path of which the gateway does not know', { trustProxy: ['10.0.0.1'] }, '/storage'],
  ['past the public address', { publicUrl: 'https://cdn.example/storage' }, ''],
])('the console works %s', { timeout: 120_000 }, async (_, input, path) => {
  const { gateway, key } = await guardedGateway(input);
  const base = path === '' ? gateway.url : (await strippingProxy(gateway.url, path)) + path;
  const page = await openConsole(base, { key, view: 'files' });
  const text = Buffer.from('hello');
  await uploadFiles(page, { 'a.txt': ['text/plain', text], 'b.png': ['image/png', PNG] }, 'g');
  await listed(page, 'a.txt').click();
  const shown = page.getByRole('group', { name: 'Preview of a.txt' });
  await expect.poll(() => shown.textContent(), PATIENT).toBe('hello');
  await page.locator('.story').waitFor();
  const downloading = page.waitForEvent('download');
  await page.locator('#details').getByRole('button', { name: 'Download', exact: true }).click();
  expect(readFileSync(await (await downloading).path())).toEqual(text);
  await listed(page, 'b.png').click();
  const width = `document.querySelector('img[alt="Preview of b.png"]').naturalWidth`;
  await expect.poll(() => page.evaluate(width), PATIENT).toBe(1);
  await page.getByRole('button', { name: 'Select none' }).click();
  const zipping = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download as ZIP' }).click();
  expect((await zipping).suggestedFilename()).toBe('g.zip');
  const [file] = (await gateway.store.list({ group: 'g' })).files;
  await page.locator('#find').fill(`https://cdn.example/storage/files/${file!.key}`);
  await page.keyboard.press('Enter');
  await page.locator('#details .story').waitFor();
  await page.getByRole('link', { name: 'Diagnostics' }).click();
  for (const link of ['API description', 'Health']) {
    const href = await page.getByRole('link', { name: link }).evaluate((at) => `${at}`);
    expect((await fetch(href)).status).toBe(200);
    expect(href.startsWith(`${base}/`)).toBe(true);
  }
});

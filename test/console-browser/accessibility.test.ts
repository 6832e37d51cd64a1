import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';
import {
  type Guarded,
  gatewayOf,
  guardedGateway,
  listed,
  needsChromium,
  openConsole,
  openFolder,
  PNG,
  uploadFiles,
  VIEWS,
} from './harness.js';

/** Each view with all that it can show, for everybody, on a small screen, in both palettes. */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A gateway with a policy, a merged text and a merged picture. */
async function filledGateway(): Promise<Guarded & { readonly file: string }> {
  const policies = join(temporaryFolder(), 'policies.json');
  writeFileSync(policies, JSON.stringify({ avatars: { types: ['image/*'], ttl: '30d' } }));
  const guarded = await guardedGateway({ policies });
  const { store } = guarded.gateway;
  const options = { name: 'note.txt', type: 'text/plain', group: 'album' };
  const { key: file } = await store.put('hello', options);
  await store.put(PNG, { name: 'red.png', type: 'image/png', group: 'album' });
  await store.flush();
  return { ...guarded, file };
}

/** As text, so that a failure says what is wrong with what. */
async function violations(page: Page): Promise<unknown> {
  await page.evaluate(AXE);
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`);
}

/** With a story and a preview, or the keys. */
async function filled(page: Page, view: (typeof VIEWS)[number], file: string): Promise<void> {
  if (view === 'diagnostics') await page.locator('#charts canvas').first().waitFor();
  if (view === 'access') await page.locator('#policies table').waitFor();
  if (view !== 'files') return;
  await openFolder(page, 'album');
  await listed(page, 'red.png').locator('.check').click();
  await page.locator('#find').fill(file);
  await page.keyboard.press('Enter');
  await page.locator('#details .story').waitFor();
  await page.locator('#details pre').getByText('hello').waitFor();
}

describe.skipIf(needsChromium.missing)('each view', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const view of VIEWS) {
      test(`axe finds nothing: ${view}, ${colorScheme}`, async () => {
        const { gateway, key, file } = await filledGateway();
        const page = await openConsole(gateway.url, { key, view, colorScheme });
        await filled(page, view, file);
        expect(await violations(page)).toEqual([]);
      });
    }

    test(`axe finds nothing in tables, uploads and deletions, ${colorScheme}`, async () => {
      const { gateway, key } = await filledGateway();
      const page = await openConsole(gateway.url, { key, view: 'files', colorScheme });
      await page.getByText('Table', { exact: true }).click();
      await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] });
      await listed(page, 'a.txt').click();
      await page.locator('#chosen').getByRole('button', { name: 'Delete' }).click();
      expect(await violations(page)).toEqual([]);
      await page.getByRole('button', { name: 'Delete it' }).click();
      await page.getByRole('button', { name: 'Undo' }).waitFor();
      expect(await violations(page)).toEqual([]);
    });

    test(`axe finds nothing where much needs attention, ${colorScheme}`, async () => {
      const away = await gatewayOf({ trackers: ['127.0.0.1:1'] });
      const page = await openConsole(away.url, { colorScheme });
      await page.locator('#attention li').waitFor();
      expect(await violations(page)).toEqual([]);
    });

    test(`axe finds nothing where a key is asked for, ${colorScheme}`, async () => {
      const { gateway } = await guardedGateway();
      const page = await openConsole(gateway.url, { colorScheme, expected: /401/ });
      await page.getByRole('dialog', { name: 'This gateway requires an API key' }).waitFor();
      expect(await violations(page)).toEqual([]);
    });
  }

  for (const view of VIEWS) {
    test(`fits a phone without scrolling sideways: ${view}`, async () => {
      const { gateway, key, file } = await filledGateway();
      const page = await openConsole(gateway.url, {
        ...{ key, view, viewport: { width: 320, height: 640 } },
        ...{ isMobile: true, hasTouch: true },
      });
      await filled(page, view, file);
      const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
      expect(await page.evaluate(wide)).toBe(0);
    });
  }
});

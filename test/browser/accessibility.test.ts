import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
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
} from '../support/console/harness.js';
import { temporaryFolder } from '../support/temporary.js';

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

/** The first palette is that of the page when it is opened. */
const PALETTES = ['light', 'dark'] as const;

async function expectNothing(page: Page): Promise<void> {
  for (const colorScheme of PALETTES) {
    await page.emulateMedia({ colorScheme });
    expect(await violations(page), colorScheme).toEqual([]);
  }
}

describe.skipIf(needsChromium.missing)('axe finds nothing, and nothing is too wide', () => {
  test.each(VIEWS)('in the view of %s, on a phone too', async (view) => {
    const { gateway, key, file } = await filledGateway();
    const page = await openConsole(gateway.url, { key, view });
    await filled(page, view, file);
    await expectNothing(page);
    const phone = await openConsole(gateway.url, {
      ...{ key, view, viewport: { width: 320, height: 640 } },
      ...{ isMobile: true, hasTouch: true },
    });
    await filled(phone, view, file);
    const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    expect(await phone.evaluate(wide), 'scrolls sideways').toBe(0);
    for (const each of [page, phone]) {
      await each.evaluate(`document.querySelector('main').scrollTop = 1e6`);
      const long = 'document.documentElement.scrollHeight - document.documentElement.clientHeight';
      expect(await each.evaluate(long), 'scrolls past its end').toBe(0);
    }
  });

  test('in tables, uploads and deletions', async () => {
    const { gateway, key } = await filledGateway();
    const page = await openConsole(gateway.url, { key, view: 'files' });
    await page.getByText('Table', { exact: true }).click();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] });
    await listed(page, 'a.txt').click();
    await page.locator('#chosen').getByRole('button', { name: 'Delete' }).click();
    await expectNothing(page);
    for (const colorScheme of PALETTES) {
      await page.emulateMedia({ colorScheme });
      await page.getByRole('button', { name: 'Delete it' }).click();
      await page.getByRole('button', { name: 'Undo' }).waitFor();
      expect(await violations(page), colorScheme).toEqual([]);
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.locator('#chosen').getByRole('button', { name: 'Delete' }).click();
    }
  });

  test('where a picture fills the window', async () => {
    const { gateway, key } = await filledGateway();
    const page = await openConsole(gateway.url, { key, view: 'files' });
    await listed(page, 'red.png').click();
    await page.getByRole('button', { name: 'Full screen' }).click();
    await expectNothing(page);
  });

  test('where there are no keys', async () => {
    const { url } = await gatewayOf();
    const page = await openConsole(url, { view: 'access' });
    await page.getByText('This gateway has no API keys', { exact: false }).waitFor();
    await expectNothing(page);
  });

  test('where much needs attention', async () => {
    const away = await gatewayOf({ trackers: ['127.0.0.1:1'] });
    const page = await openConsole(away.url);
    await page.locator('#attention li').waitFor();
    await expectNothing(page);
  });

  test('where a key is asked for', async () => {
    const { gateway } = await guardedGateway();
    const page = await openConsole(gateway.url, { expected: /401/ });
    await page.getByRole('dialog', { name: 'This gateway requires an API key' }).waitFor();
    await expectNothing(page);
  });
});

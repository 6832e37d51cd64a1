import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FileStore } from '@stevedore/client';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';
import {
  findGroup,
  gatewayOf,
  guardedGateway,
  needsChromium,
  openConsole,
  PATIENT,
  PNG,
  uploadFiles,
} from './harness.js';

/** What people do with files in the console. */

describe.skipIf(needsChromium.missing)('files', () => {
  const open = async (): Promise<{ page: Page; store: FileStore }> => {
    const { gateway, key } = await guardedGateway();
    return { page: await openConsole(gateway.url, { key, view: 'files' }), store: gateway.store };
  };

  test('are uploaded, found, previewed, downloaded, selected and deleted', async () => {
    const { page, store } = await open();
    const text = 'hello <script>document.title = "owned"</script>';
    await uploadFiles(
      page,
      {
        'note.txt': ['text/plain', Buffer.from(text)],
        'page.html': ['text/html', Buffer.from(text)],
        'red.png': ['image/png', PNG],
        'drawing.svg': ['image/svg+xml', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')],
        'data.bin': ['application/octet-stream', randomBytes(1000)],
      },
      'album',
    );
    await findGroup(page, 'album');
    const rows = page.locator('#find-results tbody tr:not(.opened)');
    await expect.poll(() => rows.count(), PATIENT).toBe(5);

    for (const name of ['note.txt', 'page.html']) {
      await page.getByRole('button', { name: `Show ${name}` }).click();
      const shown = page.getByRole('group', { name: `Preview of ${name}` });
      await expect.poll(() => shown.textContent(), PATIENT).toBe(text);
      expect(await shown.locator('script').count()).toBe(0);
    }
    expect(await page.title()).toBe('Stevedore');
    await page.getByRole('button', { name: 'Show red.png' }).click();
    const width = `document.querySelector('img[alt="Preview of red.png"]').naturalWidth`;
    await expect.poll(() => page.evaluate(width), PATIENT).toBe(1);
    // A drawing can contain scripts, and other bytes are no text.
    expect(await page.getByRole('button', { name: /^Show (drawing|data)/ }).count()).toBe(0);
    await page.getByRole('button', { name: 'Hide note.txt' }).click();
    expect(await page.getByRole('group', { name: 'Preview of note.txt' }).count()).toBe(0);

    await page.getByLabel('Select note.txt').check();
    const downloading = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download', exact: true }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toBe('note.txt');
    expect(readFileSync(await download.path(), 'utf8')).toBe(text);

    await page.getByRole('button', { name: 'Select all shown' }).click();
    await page.getByRole('button', { name: 'Delete 5 files' }).click();
    expect(await rows.count()).toBe(5);
    await page.getByRole('button', { name: 'Delete 5 files permanently?' }).click();
    await page.getByText('No file matches.', { exact: true }).waitFor();
    expect((await store.list({ group: 'album' })).files).toEqual([]);
  });

  test('are found without API keys, at the address that the gateway prints', async () => {
    const directory = temporaryFolder();
    const { url } = await gatewayOf({ directory });
    const key = readFileSync(join(directory, 'local-key'), 'utf8').trim();
    const page = await openConsole(url, { view: `key=${key}` });
    await page.getByRole('link', { name: 'Files' }).click();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'album');
    await findGroup(page, 'album');
    await expect.poll(() => page.locator('#find-results tbody tr').count(), PATIENT).toBe(1);
    expect(page.url()).toBe(`${url}/#files`);
  });

  test('of servers that do not answer are said to be missing', async () => {
    const { page } = await open();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'album');
    await page.route('**/files?*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), away: [9, 4711] } });
    });
    await findGroup(page, 'album');
    const said = page.locator('#find-results [role="status"]');
    await said.waitFor();
    expect(await said.textContent()).toBe(
      'Files are missing: 2 servers did not answer (origins 9, 4711).',
    );
    expect(await page.locator('#find-results tbody tr').count()).toBe(1);
    await findGroup(page, 'none');
    await page.getByText('No file matches.', { exact: true }).waitFor();
    expect(await said.count()).toBe(1);
  });

  test('have a story, from the upload to the storages', async () => {
    const { page, store } = await open();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'story');
    await page.locator('#transfers').getByRole('button', { name: 'Look up' }).click();
    const story = page.locator('.story');
    await story.waitFor();
    expect(await story.textContent()).toMatch(
      /Uploaded.*segment \d+, the only copy so far.*not yet/,
    );
    await store.flush();
    await expect.poll(() => store.stats().unconfirmedTrunks, PATIENT).toBe(0);
    await page.locator('#look').getByRole('button', { name: 'Look up' }).click();
    await expect.poll(() => story.textContent(), PATIENT).toContain('confirmed');
    const key = await page.locator('#id').inputValue();
    const { trunk, storages } = await store.locate(key);
    const told = (await story.textContent())!;
    expect(told).toContain(trunk!.fileId);
    expect(told).toContain(`Begins at byte${trunk!.offset}`);
    expect(told).toContain(await store.settled(key));
    expect(told).toContain(`${storages[0]!.address}has it`);
    // The same by its FastDFS id.
    await page.locator('#id').fill(await store.settled(key));
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('#found').textContent(), PATIENT).toContain(key);
  });

  test('resume after a reload where they were cut off', async () => {
    const { page, store } = await open();
    const bytes = randomBytes(12 * 2 ** 20);
    const path = join(temporaryFolder(), 'large.bin');
    writeFileSync(path, bytes);
    const session = await page.context().newCDPSession(page);
    const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 2 ** 21 };
    await session.send('Network.emulateNetworkConditions', slow);
    await page.locator('#files').setInputFiles(path);
    await expect.poll(() => store.stats().unfinishedBytes, PATIENT).toBeGreaterThan(2 ** 20);
    await session.send('Network.emulateNetworkConditions', { ...slow, uploadThroughput: -1 });
    await page.reload();
    await page.locator('#status[data-state="good"]').waitFor();
    const offsets: number[] = [];
    page.on('request', (request) => {
      if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']));
    });
    await page.locator('#files').setInputFiles(path);
    const stored = page.locator('#transfers').getByText('Stored', { exact: true });
    await stored.waitFor();
    expect(offsets[0]).toBeGreaterThan(0);
    const key = (await page.locator('#transfers .id').textContent())!;
    expect(bytes.equals(await (await store.get(key)).bytes())).toBe(true);
  });

  test('need no mouse', async () => {
    const { gateway, key: apiKey } = await guardedGateway();
    const { store } = gateway;
    const { key } = await store.put('by hand', { name: 'by-hand.txt', type: 'text/plain' });
    const page = await openConsole(gateway.url, { key: apiKey });
    const focused = () =>
      page.evaluate('document.activeElement.textContent || document.activeElement.id');
    const tabTo = async (name: string) => {
      for (let presses = 0; presses < 40; presses += 1) {
        await page.keyboard.press('Tab');
        if (((await focused()) as string).trim() === name) return;
      }
      throw new Error(`the keyboard does not reach ${name}`);
    };
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Skip to the content');
    await tabTo('Files');
    await page.keyboard.press('Enter');
    await page.locator('#view-files:not([hidden])').waitFor();
    await tabTo('id');
    await page.keyboard.type(key);
    await page.keyboard.press('Enter');
    await page.locator('.story').waitFor();
    await tabTo('Delete');
    const outline = 'getComputedStyle(document.activeElement).outlineStyle';
    expect(await page.evaluate(outline)).toBe('solid');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await page.getByText('by-hand.txt was deleted.').waitFor();
    await expect(store.get(key)).rejects.toMatchObject({ code: 'not_found' });
  });
});

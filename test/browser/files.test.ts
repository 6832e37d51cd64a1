import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FileStore } from '@stevedore/client';
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import {
  gatewayOf,
  guardedGateway,
  listed,
  needsChromium,
  openConsole,
  openFolder,
  PATIENT,
  PNG,
  uploadFiles,
} from '../support/console/harness.js';
import { temporaryFolder } from '../support/temporary.js';

/** What people do with files in the console. */

describe.skipIf(needsChromium.missing)('files', () => {
  const open = async (expected?: RegExp): Promise<{ page: Page; store: FileStore }> => {
    const { gateway, key } = await guardedGateway();
    const options = { key, view: 'files', ...(expected && { expected }) } as const;
    return { page: await openConsole(gateway.url, options), store: gateway.store };
  };

  test('are uploaded, previewed, downloaded, selected and deleted', async () => {
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
    await expect.poll(() => page.locator('.file').count(), PATIENT).toBe(5);

    for (const name of ['note.txt', 'page.html']) {
      await listed(page, name).click();
      const shown = page.getByRole('group', { name: `Preview of ${name}` });
      await expect.poll(() => shown.textContent(), PATIENT).toBe(text);
      expect(await shown.locator('script').count()).toBe(0);
    }
    expect(await page.title()).toBe('Stevedore');
    await listed(page, 'red.png').click();
    const width = `document.querySelector('img[alt="Preview of red.png"]').naturalWidth`;
    await expect.poll(() => page.evaluate(width), PATIENT).toBe(1);
    expect(await listed(page, 'red.png').locator('canvas').count()).toBe(1);
    // A drawing can contain scripts, and other bytes are no text.
    for (const name of ['drawing.svg', 'data.bin']) {
      await listed(page, name).click();
      await page.locator('#details').getByText(name, { exact: true }).waitFor();
      expect(await page.locator('.preview, .list img').count()).toBe(0);
    }

    await listed(page, 'note.txt').click();
    const downloading = page.waitForEvent('download');
    await page.locator('#chosen').getByRole('button', { name: 'Download' }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toBe('note.txt');
    expect(readFileSync(await download.path(), 'utf8')).toBe(text);

    await page.getByRole('button', { name: 'Select all' }).click();
    await page.locator('#chosen').getByRole('button', { name: 'Delete' }).dblclick();
    await page.getByText(/^All are in the folder “\u2068album\u2069”; /).waitFor();
    await page.getByRole('button', { name: 'Delete 5 files' }).click();
    await page.getByText('This folder has no files. Drop some here.').waitFor();
    expect((await store.list()).files).toHaveLength(5);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(() => page.locator('.file').count(), PATIENT).toBe(5);
    await page.locator('#chosen').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete 5 files' }).click();
    await page.getByRole('button', { name: 'Delete now' }).click();
    const toast = page.locator('#toast');
    await toast.getByText('5 files deleted').waitFor();
    // It covers nothing, and goes.
    const below = `document.querySelector('main').getBoundingClientRect().bottom <=
      document.querySelector('#toast').getBoundingClientRect().top`;
    expect(await page.evaluate(below)).toBe(true);
    await toast.waitFor({ state: 'hidden' });
    expect((await store.list()).files).toEqual([]);
  });

  test('whose deletion is confirmed are deleted when the page is left', async () => {
    const { page, store } = await open();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] });
    await listed(page, 'a.txt').click();
    await page.locator('#details').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete it' }).click();
    await page.getByRole('button', { name: 'Undo' }).waitFor();
    expect((await store.list()).files).toHaveLength(1);
    // A page with an icon of its own: the browser would ask for one.
    await page.goto(new URL('/?left', page.url()).href);
    await expect.poll(async () => (await store.list()).files, PATIENT).toEqual([]);
  });

  test('are newest first, in folders, and found by part of a name, type and order', async () => {
    const { page, store } = await open();
    for (const [name, type, group, size] of [
      ['old.txt', 'text/plain', 'texts', 30],
      ['Letter-2.txt', 'text/plain', 'texts', 10],
      ['letter-10.pdf', 'application/pdf', 'papers', 20],
    ] as const) {
      await store.put(Buffer.alloc(size), { name, type, group });
    }
    await page.reload();
    const names = () => page.locator('.file .name').allTextContents();
    const inOrder = () =>
      page.evaluate(`[...document.querySelectorAll('.file')]
        .sort((a, b) => a.dataset.index - b.dataset.index)
        .map((each) => each.querySelector('.name').textContent)`) as Promise<string[]>;
    await expect.poll(inOrder, PATIENT).toEqual(['letter-10.pdf', 'Letter-2.txt', 'old.txt']);
    for (const [order, expected] of [
      ['oldest', ['old.txt', 'Letter-2.txt', 'letter-10.pdf']],
      ['name', ['Letter-2.txt', 'letter-10.pdf', 'old.txt']],
      ['-size', ['old.txt', 'letter-10.pdf', 'Letter-2.txt']],
    ] as const) {
      await page.getByLabel('Order').selectOption(order);
      await expect.poll(inOrder, PATIENT).toEqual(expected);
    }
    await page.locator('#find').fill('LETTER');
    await expect.poll(inOrder, PATIENT).toEqual(['letter-10.pdf', 'Letter-2.txt']);
    await page.getByLabel('Type', { exact: true }).selectOption('text/*');
    await expect.poll(inOrder, PATIENT).toEqual(['Letter-2.txt']);
    await page.getByLabel('From').fill('2000-01-01');
    await page.getByLabel('to', { exact: true }).fill('2000-01-02');
    await page.getByText('No file matches.', { exact: true }).waitFor();
    await openFolder(page, '');
    await page.locator('#folders').getByRole('link', { name: 'papers' }).click();
    await expect.poll(inOrder, PATIENT).toEqual(['letter-10.pdf']);
    await page.goBack();
    await expect.poll(names, PATIENT).toHaveLength(3);
    // What is uploaded elsewhere comes to the top.
    await page.getByLabel('Order').selectOption('newest');
    await store.put('new', { name: 'new.txt', type: 'text/plain' });
    await expect.poll(async () => (await inOrder())[0], PATIENT).toBe('new.txt');
  });

  test('are in folders that come as they are scrolled to or searched for, and go', async () => {
    const { page, store } = await open();
    const nameOf = (number: number) => `album ${String(number).padStart(3, '0')}`;
    const put = (number: number) => store.put('x', { name: 'x.txt', group: nameOf(number) });
    const [{ key }] = [await put(0)];
    for (let from = 1; from < 500; from += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, index) => put(from + index)));
    }
    await page.reload();
    const folders = page.locator('#folders').getByRole('link');
    await expect.poll(() => folders.count(), PATIENT).toBe(200);
    // That of the oldest file, which no page of the newest files names.
    expect(await folders.first().textContent()).toBe(nameOf(0));
    for (const count of [400, 501]) {
      await folders.last().scrollIntoViewIfNeeded();
      await expect.poll(() => folders.count(), PATIENT).toBe(count);
    }
    await folders.first().focus();
    await page.keyboard.press('ArrowRight');
    const focused = () => page.evaluate('document.activeElement.title');
    expect(await focused()).toBe(nameOf(1));
    await page.locator('#find').fill('ALBUM 00');
    await expect.poll(() => folders.count(), PATIENT).toBe(10);
    await store.delete(key);
    await page.locator('#find').fill('album 000');
    await expect.poll(() => page.locator('#folders').isHidden(), PATIENT).toBe(true);
    await page.locator('#find').fill('album 001');
    await folders.click();
    await page.locator('#path strong').getByText(nameOf(1), { exact: true }).waitFor();
  });

  test('are drawn as they come into sight, however many there are', async () => {
    const { page, store } = await open();
    const all = Array.from({ length: 1_500 }, (_, number) => number);
    await Promise.all(all.map((number) => store.put('x', { name: `file-${number}.txt` })));
    await page.reload();
    await page.getByText('Table', { exact: true }).click();
    await page.locator('.file').first().waitFor();
    await page.locator('#list').focus();
    for (const count of [1_200, 1_500]) {
      await page.keyboard.press('End');
      await page.locator(`[aria-setsize="${count}"]`).first().waitFor();
    }
    await page.keyboard.press('End');
    await page.keyboard.press('Control+a');
    await page.getByText(/^1,500 files selected/).waitFor();
    expect(await page.locator('.file').count()).toBeLessThan(60);
    expect(await page.locator('.file.active').getAttribute('aria-posinset')).toBe('1500');
  });

  test('are uploaded by the hundred, small ones several to a request', async () => {
    const { page, store } = await open();
    const requests: string[] = [];
    page.on('request', (request) => {
      if (request.method() !== 'GET') requests.push(request.method());
    });
    const files = Array.from({ length: 300 }, (_, number) => `f${number}.txt`);
    await uploadFiles(
      page,
      Object.fromEntries(files.map((name) => [name, ['text/plain', Buffer.from(name)]])),
    );
    expect(requests.length).toBeLessThan(10);
    const stored = (await store.list()).files;
    expect(stored.map(({ name }) => name).sort()).toEqual(files.sort());
    expect(stored.filter(({ group }) => group !== undefined)).toEqual([]);
  });

  test('that fail are listed, and sent again', async () => {
    const { page, store } = await open(/403/);
    await page.route('**/files', (route) =>
      route.fulfill({ status: 403, json: { detail: 'Not today.' } }),
    );
    await page.route('**/uploads', (route) =>
      route.fulfill({ status: 403, json: { detail: 'Not today.' } }),
    );
    const files = ['a.txt', 'b.txt'].map((name) => ({
      ...{ name, mimeType: 'text/plain', buffer: Buffer.from(name) },
    }));
    await page.locator('#files').setInputFiles(files);
    await page.locator('#uploads').getByText('0 files stored, 2 failed').waitFor();
    expect(await page.locator('.transfers .bad').allTextContents()).toEqual([
      ...['Not today.', 'Not today.'],
    ]);
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Retry failed' }).click();
    await page.locator('#uploads').getByText('2 files stored', { exact: true }).waitFor();
    expect((await store.list()).files).toHaveLength(2);
  });

  test('are taken from a drop, of a script too', async () => {
    const { page, store } = await open();
    await page.evaluate(`{
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['hello'], 'dropped.txt', { type: 'text/plain' }));
      const about = { dataTransfer, bubbles: true };
      document.body.dispatchEvent(new DragEvent('dragenter', about));
      document.body.dispatchEvent(new DragEvent('drop', { ...about, cancelable: true }));
    }`);
    await page.locator('#uploads').getByText('1 file stored', { exact: true }).waitFor();
    expect((await store.list()).files).toMatchObject([{ name: 'dropped.txt', size: 5 }]);
    expect(await page.locator('#drop').isVisible()).toBe(false);
  });

  test('are found without API keys, at the address that the gateway prints', async () => {
    const directory = temporaryFolder();
    const { url } = await gatewayOf({ directory });
    const key = readFileSync(join(directory, 'local-key'), 'utf8').trim();
    const page = await openConsole(url, { view: `key=${key}` });
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'album');
    await expect.poll(() => page.locator('.file').count(), PATIENT).toBe(1);
    expect(page.url()).toBe(`${url}/#files?group=album`);
  });

  test('are not listed without a key, and the page says so', async () => {
    const { url } = await gatewayOf();
    const page = await openConsole(url, { view: 'files', expected: /401/ });
    await page.locator('#nothing [role="alert"]').getByText(/key/).waitFor();
    await page.getByRole('button', { name: 'Enter a key' }).first().waitFor();
  });

  test('of servers that do not answer are said to be missing', async () => {
    const { page } = await open();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'album');
    await page.route('**/files?*', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), away: [9, 4711] } });
    });
    await openFolder(page, 'none');
    await page.getByText('This folder has no files. Drop some here.').waitFor();
    const said = page.locator('#missing');
    expect(await said.textContent()).toBe(
      'Files are missing: 2 servers did not answer (origins 9, 4711).',
    );
    await openFolder(page, 'album');
    await expect.poll(() => page.locator('.file').count(), PATIENT).toBe(1);
    expect(await said.isVisible()).toBe(true);
  });

  test('fill the window as pictures, with keys, buttons and swipes, and details follow', async () => {
    const { page, store } = await open();
    for (const [name, type, body] of [
      ['c.png', 'image/png', PNG],
      ['b.txt', 'text/plain', 'no picture'],
      ['a.png', 'image/png', PNG],
    ] as const) {
      await store.put(body, { name, type });
    }
    await page.reload();
    await listed(page, 'a.png').click();
    await page.getByRole('button', { name: 'Full screen' }).click();
    const viewer = page.locator('#viewer');
    const shows = async (name: string) => {
      await viewer.getByText(name, { exact: true }).waitFor();
      const width = `document.querySelector('#viewer img[alt="Preview of ${name}"]')?.naturalWidth`;
      await expect.poll(() => page.evaluate(width), PATIENT).toBe(1);
      expect(await page.locator('#details h3').first().textContent()).toBe(name);
      expect(await page.locator('.file[aria-selected="true"] .name').textContent()).toBe(name);
    };
    await shows('a.png');
    await page.keyboard.press('ArrowLeft');
    await shows('a.png');
    await page.keyboard.press('ArrowRight');
    await shows('c.png');
    await viewer.getByRole('button', { name: 'Previous picture' }).click();
    await shows('a.png');
    const swipe = (toX: number) => `{
      const touch = (x) => new Touch({ identifier: 1, target: document.body, clientX: x, clientY: 9 });
      const [from, to] = [touch(200), touch(${toX})];
      const event = (name, touches) =>
        document.querySelector('#viewer img').dispatchEvent(
          new TouchEvent(name, { touches, changedTouches: [to], bubbles: true }));
      event('touchstart', [from]);
      event('touchend', []);
    }`;
    await page.evaluate(swipe(190));
    await shows('a.png');
    await page.evaluate(swipe(100));
    await shows('c.png');
    await page.evaluate(swipe(300));
    await shows('a.png');
    await page.keyboard.press('Escape');
    expect(await viewer.isVisible()).toBe(false);
    // Once more, a file that is open already.
    await listed(page, 'a.png').click();
    await shows('a.png');
  });

  test('are seen as the gateway makes them smaller, if it may', async () => {
    const { gateway, key } = await guardedGateway({ pictureSizes: ['64', '320x320', '1024'] });
    const png = await sharp({ create: { width: 900, height: 900, channels: 3, background: 'red' } })
      .png()
      .toBuffer();
    for (const [name, bytes] of [
      ['ok.png', png],
      ['broken.png', PNG.subarray(0, 30)],
    ] as const) {
      await gateway.store.put(bytes, { name, type: 'image/png' });
    }
    const asked: string[] = [];
    const page = await openConsole(gateway.url, {
      ...{ key, view: 'files', expected: /4\d\d/ },
      prepare: async (opened) =>
        opened.on('response', (answer) => {
          const { pathname, search } = new URL(answer.url());
          if (/^\/files\/[\w-]{22}$/.test(pathname)) asked.push(`${search} ${answer.ok()}`);
        }),
    });
    await listed(page, 'ok.png').locator('canvas').waitFor();
    await expect
      .poll(() => asked.toSorted(), PATIENT)
      .toEqual([' true', '?w=320&h=320 false', '?w=320&h=320 true']);
  });

  test('are counted, and selected to the end of the list', async () => {
    const { page, store } = await open();
    const all = Array.from({ length: 1_500 }, (_, number) => number);
    await Promise.all(all.map((number) => store.put('x', { name: `file-${number}.txt` })));
    await page.reload();
    await page.locator('#path').getByText('1,200 of 1,500 files loaded').waitFor();
    await listed(page, 'file-').first().click();
    await page.getByRole('button', { name: 'Select all' }).click();
    await page.getByText('1,500 files selected, 1.46 KiB').waitFor();
  });

  test('have the direction of their names', async () => {
    const { page, store } = await open();
    await store.put('x', { name: '\u0635\u0648\u0631\u0629 28.txt' });
    await page.reload();
    const direction = 'getComputedStyle(document.querySelector(".file .name")).direction';
    await page.locator('.file').waitFor();
    expect(await page.evaluate(direction)).toBe('rtl');
  });

  test('that wait for a gateway which does not answer say so, and go on', async () => {
    const { page, store } = await open(/Failed to load resource/);
    await page.route('**/*', (route) => route.abort());
    const files = ['a.txt', 'b.txt'].map((name) => ({ name, mimeType: 'text/plain' }));
    await page
      .locator('#files')
      .setInputFiles(files.map((file) => ({ ...file, buffer: Buffer.from('x') })));
    await page
      .locator('#uploads')
      .getByText(/No answer: uploads wait/)
      .waitFor();
    await page.unrouteAll();
    await page.locator('#uploads').getByText('2 files stored', { exact: true }).waitFor();
    expect((await store.list()).files).toHaveLength(2);
  });

  test('have a story, from the upload to the storages', async () => {
    const { page, store } = await open();
    await uploadFiles(page, { 'a.txt': ['text/plain', Buffer.from('hello')] }, 'story');
    await listed(page, 'a.txt').click();
    const story = page.locator('.story');
    await story.waitFor();
    expect(await story.textContent()).toMatch(
      /Uploaded.*segment \d+, the only copy so far.*not yet/,
    );
    const details = page.locator('#details');
    expect(await details.textContent()).toContain('StateOn disk');
    await store.flush();
    await expect.poll(() => store.stats().unconfirmedTrunks, PATIENT).toBe(0);
    await listed(page, 'a.txt').click();
    await expect.poll(() => story.textContent(), PATIENT).toContain('confirmed');
    expect(await details.textContent()).toContain('StateIn FastDFS');
    const [{ key } = { key: '' }] = (await store.list()).files;
    const { trunk, storages } = await store.locate(key);
    const told = (await story.textContent())!;
    expect(told).toContain(trunk!.fileId);
    expect(told).toContain(`Begins at byte${trunk!.offset}`);
    expect(told).toContain(await store.settled(key));
    expect(told).toContain(`${storages[0]!.address}has it`);
    // The same by its FastDFS id.
    await page.locator('#find').fill(await store.settled(key));
    await page.keyboard.press('Enter');
    await expect.poll(() => details.textContent(), PATIENT).toContain(key);
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
    await page.reload();
    await session.send('Network.emulateNetworkConditions', { ...slow, uploadThroughput: -1 });
    await page.locator('#status[data-state="good"]').waitFor();
    const offsets: number[] = [];
    page.on('request', (request) => {
      if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']));
    });
    await page.locator('#files').setInputFiles(path);
    await page.locator('#uploads').getByText('1 file stored', { exact: true }).waitFor();
    expect(offsets[0]).toBeGreaterThan(0);
    const [file] = (await store.list()).files;
    expect(bytes.equals(await (await store.get(file!.key)).bytes())).toBe(true);
  });

  test('need no mouse', async () => {
    const { gateway, key: apiKey } = await guardedGateway();
    const { store } = gateway;
    for (const name of ['c', 'b', 'a']) await store.put(name, { name: `${name}.txt` });
    const page = await openConsole(gateway.url, { key: apiKey });
    const focused = () =>
      page.evaluate('document.activeElement.id || document.activeElement.textContent');
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
    await page.locator('#list:not([hidden])').waitFor();
    await tabTo('list');
    const outline = 'getComputedStyle(document.activeElement).outlineStyle';
    expect(await page.evaluate(outline)).toBe('solid');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Shift+ArrowRight');
    await page.getByText(/^2 files selected/).waitFor();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Space');
    await page.getByText(/^3 files selected/).waitFor();
    await page.keyboard.press('Space');
    await page.keyboard.press('Enter');
    await page.locator('.story').waitFor();
    expect(await page.locator('.details-head h3').textContent()).toBe('c.txt');
    await page.keyboard.press('Delete');
    // The safe answer has the focus.
    await page.keyboard.press('Enter');
    expect(await page.locator('#delete-dialog').isVisible()).toBe(false);
    await page.locator('#list').focus();
    await page.keyboard.press('Delete');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText(/^2 files not deleted yet/).waitFor();
    await tabTo('Delete now');
    await page.keyboard.press('Enter');
    await page.locator('#toast').getByText('2 files deleted').waitFor();
    expect((await store.list()).files).toMatchObject([{ name: 'c.txt' }]);
  });
});

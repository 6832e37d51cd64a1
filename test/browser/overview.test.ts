import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { History, type HistoryTable, type Span } from '../../gateway/dist/console/history.js';
import {
  gatewayOf,
  guardedGateway,
  needsChromium,
  openConsole,
  PATIENT,
} from '../support/console/harness.js';
import { temporaryFolder } from '../support/temporary.js';

/** What the console says of the gateway: what needs attention, and the charts. */

/** A day in which the n-th step of 10 s had n mod 50 uploads a second. */
function dayUntil(now: number): History {
  const history = new History();
  let uploads = 0;
  for (let at = now - 86_400_000; at <= now; at += 10_000) {
    const step = Math.floor(at / 10_000);
    uploads += (step % 50) * 10;
    const load = { load: 0.4, forecast: 0.7 };
    history.add({
      ...{ at: step * 10_000, uploads, downloads: uploads * 2, cacheHits: step * 3, load },
      ...{ cacheMisses: step, trunks: step, fill: step * 0.9, stagedBytes: (step % 40) * 2 ** 20 },
    });
  }
  return history;
}

async function serveHistory(page: Page): Promise<Record<Span, HistoryTable>> {
  const history = dayUntil(Date.now());
  const tables = { hour: history.table('hour'), day: history.table('day') };
  await page.route('**/console/history*', (route) => {
    const span = new URL(route.request().url()).searchParams.get('span') as Span;
    return route.fulfill({ json: tables[span] });
  });
  return tables;
}

/** How many points of a chart have that colour of the page's palette, nearly. */
function pointsOf(title: string, colour: string): string {
  return `(() => {
    const figure = [...document.querySelectorAll('#charts figure')]
      .find((each) => each.querySelector('figcaption').textContent === '${title}');
    const canvas = figure.querySelector('canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const hex = getComputedStyle(document.documentElement).getPropertyValue('${colour}').trim();
    const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    let points = 0;
    for (let at = 0; at < data.length; at += 4) {
      const isNear = wanted.every((value, index) => Math.abs(data[at + index] - value) < 8);
      if (isNear && data[at + 3] > 240) points += 1;
    }
    return points;
  })()`;
}

const CHARTS = [
  'Uploads and downloads',
  'Staged on this disk',
  'Trunks stored',
  'Cache',
  'Load of the metadata tier',
];

describe.skipIf(needsChromium.missing)('the diagnostics', () => {
  test('says that nothing needs attention, and draws what the gateway remembers', async () => {
    const gateway = await gatewayOf();
    const page = await openConsole(gateway.url);
    await page.getByText('Nothing needs attention.', { exact: true }).waitFor();
    await expect.poll(() => page.locator('#charts canvas').count(), PATIENT).toBe(4);
    // There is a point already, from the start of the gateway.
    const legend = page.locator('#charts figure').nth(1).locator('.u-legend');
    await expect.poll(() => legend.textContent(), PATIENT).toMatch(/^Time\d\d:\d\d:\d\dStaged0 B$/);
    await page.reload();
    await expect.poll(() => page.locator('#charts canvas').count(), PATIENT).toBe(4);
  });

  test('stores staged files on request', async () => {
    const { gateway, key } = await guardedGateway({ mergeMaxAge: '1h', idMaxAge: '1h' });
    const file = await gateway.store.put('staged');
    const page = await openConsole(gateway.url, { key });
    await page.getByRole('button', { name: 'Store staged files now' }).click();
    await page.getByText('All of it is in FastDFS.', { exact: true }).waitFor();
    expect((await gateway.store.stat(file.key)).fileId).toBeDefined();
    await page.getByText('0 files, 0 B', { exact: true }).waitFor();
  });

  test('lists what needs attention, with what to do', async () => {
    const away = await gatewayOf({ trackers: ['127.0.0.1:1'] });
    const page = await openConsole(away.url);
    const items = page.locator('#attention li');
    await expect.poll(() => items.count(), PATIENT).toBe(1);
    expect(await items.textContent()).toMatch(
      /^problemFastDFS is away: no tracker answers \(127\.0\.0\.1:1\).*To do: start a tracker/,
    );
    expect(await page.locator('#status').textContent()).toBe(
      'Accepts uploads; FastDFS is unavailable',
    );
  });

  test('draws charts, and shows the values under the pointer', async () => {
    let tables: Record<Span, HistoryTable> | undefined;
    const gateway = await gatewayOf();
    const page = await openConsole(gateway.url, {
      prepare: async (opened) => {
        tables = await serveHistory(opened);
      },
    });
    const charts = page.locator('#charts figure');
    await expect
      .poll(() => charts.locator('figcaption').allTextContents(), PATIENT)
      .toEqual(CHARTS);
    for (const title of CHARTS) {
      await expect
        .poll(() => page.evaluate(pointsOf(title, '--accent')), PATIENT)
        .toBeGreaterThan(100);
    }
    const chart = charts.first();
    const legend = chart.locator('.u-legend');
    const { at, uploadsPerSecond, downloadsPerSecond } = tables!.hour;
    const clock = (seconds: number) => new Date(seconds * 1000).toTimeString().slice(0, 8);
    const texts = () => legend.locator('.u-value').allTextContents();
    const shownIndex = async () => {
      const [time] = await texts();
      return at.findIndex((seconds) => clock(seconds) === time);
    };
    const rate = (value: number) => `${value.toFixed(value >= 10 || value === 0 ? 0 : 1)} /s`;
    for (const share of [0.3, 0.6]) {
      const box = (await chart.locator('.u-over').boundingBox())!;
      await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
      await expect
        .poll(async () => (await shownIndex()) / at.length, PATIENT)
        .toBeCloseTo(share, 1);
      const index = await shownIndex();
      expect((await texts()).slice(1)).toEqual([
        rate(uploadsPerSecond[index]!),
        rate(downloadsPerSecond[index]!),
      ]);
    }
    await page.mouse.move(0, 0);
    // The keyboard does the same.
    await chart.locator('.plot').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    expect(await page.locator('#chart-said').textContent()).toMatch(
      /^\d\d:\d\d:\d\d: Uploads [\d.]+ \/s, Downloads [\d.]+ \/s$/,
    );
    await page.getByLabel('Last day').check();
    await expect
      .poll(() => legend.textContent(), PATIENT)
      .toMatch(/^Time\w+ \d+, 20\d\d, \d\d:\d\d:\d\d/);
  });

  test('is drawn anew in the colours that the system asks for', async () => {
    const gateway = await gatewayOf();
    const page = await openConsole(gateway.url, { prepare: serveHistory });
    const drawn = () => page.evaluate(pointsOf(CHARTS[0]!, '--accent')) as Promise<number>;
    const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    await expect.poll(drawn, PATIENT).toBeGreaterThan(100);
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    await expect.poll(drawn, PATIENT).toBeGreaterThan(100);
    expect(await ground()).not.toBe(light);
    expect(await page.locator('#charts canvas').count()).toBe(CHARTS.length);
  });
});

test.skipIf(needsChromium.missing)('API keys are made, limited and revoked', async () => {
  const { gateway, key } = await guardedGateway();
  const page = await openConsole(gateway.url, { key, view: 'access' });
  await page.getByRole('button', { name: 'New key' }).click();
  await page.locator('#made-name').fill('shop');
  await page.getByLabel('Uploads a day').fill('10GiB');
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByText('Copy it now: it is shown this one time.').waitFor();
  const made = (await page.locator('#made-said code').textContent())!;
  const status = async () =>
    (await fetch(`${gateway.url}/metrics`, { headers: { 'x-api-key': made } })).status;
  expect(await status()).toBe(200);
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Limit shop' }).click();
  await page.getByLabel('Requests a second').fill('7');
  await page.getByRole('button', { name: 'Set the limits' }).click();
  const row = page.getByRole('row', { name: /^shop/ });
  await row.getByText('7 a second').waitFor();
  expect(await row.textContent()).toContain('of 10.0 GiB');
  await page.getByRole('button', { name: 'Revoke shop' }).click();
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await expect.poll(() => row.count(), PATIENT).toBe(0);
  expect(await status()).toBe(401);
});

test.skipIf(needsChromium.missing)('upload policies are made, changed and removed', async () => {
  const policies = join(temporaryFolder(), 'policies.json');
  writeFileSync(policies, '{}');
  const { gateway, key } = await guardedGateway({ policies });
  const page = await openConsole(gateway.url, {
    key,
    view: 'access',
    // The page asks for a policy that is wrong.
    expected: /400/,
  });
  const status = async (content: string) => {
    const init = { method: 'POST', headers: { 'x-api-key': key }, body: content };
    return (await fetch(`${gateway.url}/uploads/icons`, init)).status;
  };
  await page.getByRole('button', { name: 'New policy' }).click();
  await page.locator('#policy-name').fill('icons');
  await page.getByLabel('Largest file').fill('much');
  await page.getByLabel('Files live').fill('36h');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('maxFileSize', { exact: false }).waitFor();
  await page.getByLabel('Largest file').fill('1536B');
  await page.getByRole('button', { name: 'Save' }).click();
  const row = page.getByRole('row', { name: /uploads\/icons/ });
  await row.getByText('1.50 KiB').waitFor();
  expect(await status('x'.repeat(1536))).toBe(201);
  expect(await status('x'.repeat(1537))).toBe(413);
  await page.getByRole('button', { name: 'Change icons' }).click();
  expect(await page.getByLabel('Largest file').inputValue()).toBe('1536B');
  expect(await page.getByLabel('Files live').inputValue()).toBe('36h');
  await page.getByLabel('Largest file').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect.poll(() => row.getByText('1.50 KiB').count(), PATIENT).toBe(0);
  expect(await status('x'.repeat(1537))).toBe(201);
  await page.getByRole('button', { name: 'Remove icons' }).click();
  await page.getByRole('button', { name: 'Remove it' }).click();
  await expect.poll(() => row.count(), PATIENT).toBe(0);
  expect(await status('x')).toBe(404);
});

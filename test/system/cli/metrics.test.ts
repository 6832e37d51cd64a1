import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, onTestFinished, test } from 'vitest';
import { Running, run, runApart } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

/** The figures of a tracker and a storage that run on their own. */

const STORAGE = ['storage', '--port', '0', '--store-paths'];
const FREE = ['--metrics', '0'];

async function figuresOf(node: Running): Promise<string> {
  const url = /"metrics":"(http:[^"]+)"/.exec(node.stdout)?.[1];
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  const answer = await fetch(url!);
  expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4');
  expect((await fetch(url!, { method: 'POST', body: 'x' })).status).toBe(405);
  expect((await fetch(new URL('/', url!))).status).toBe(404);
  return answer.text();
}

function figure(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  if (!line) throw new Error(`no ${name} in\n${text}`);
  return Number(line.slice(name.length + 1));
}

test('a storage and a tracker tell their figures', async () => {
  const tracker = new Running(['tracker', '--port', '0', ...FREE]);
  const trackers = ['--trackers', await tracker.ready()];
  const tiers = ['--metadata-tier', '--bandwidth', '100MiB'];
  const storage = new Running([...STORAGE, temporaryFolder(), ...trackers, ...tiers, ...FREE]);
  await storage.ready();
  await expect
    .poll(
      async () => figure(await figuresOf(tracker), 'stevedore_tracker_storages{state="active"}'),
      {
        timeout: 20_000,
      },
    )
    .toBe(1);
  const client = new FastdfsClient({ trackers: [trackers[1]!] });
  onTestFinished(() => client.close());
  const body = Buffer.alloc(20_000, 'a');
  const id = await client.upload(body, { extension: 'txt' });
  for (let count = 0; count < 3; count++) {
    expect((await client.downloadBytes(id)).equals(body)).toBe(true);
  }
  const text = await figuresOf(storage);
  const operation = (name: string, count: string): number =>
    figure(text, `stevedore_storage_operations{operation="${name}",count="${count}"}`);
  expect(operation('upload', 'success')).toBe(1);
  expect(operation('download', 'success')).toBe(3);
  expect(operation('downloadBytes', 'success')).toBe(60_000);
  expect(
    figure(text, 'stevedore_cache_hits_total') + figure(text, 'stevedore_cache_misses_total'),
  ).toBe(3);
  expect(figure(text, 'stevedore_rows')).toBe(1);
  expect(figure(await figuresOf(tracker), 'stevedore_tracker_groups')).toBe(1);
});

test('an address for figures that cannot be is refused before anything is served', async () => {
  const wrong = await run(['tracker', '--port', '0', '--metrics', 'here']);
  expect(wrong).toMatchObject({ code: 2, stdout: '' });
  expect(wrong.stderr).toContain('--metrics "here"');
  const other = new Running(['tracker', '--port', '0', ...FREE]);
  await other.ready();
  const port = /:(\d+)\/metrics/.exec(other.stdout)![1]!;
  const taken = await runApart(['tracker', '--port', '0', '--metrics', port]);
  expect(taken).toMatchObject({ code: 1, stdout: '' });
  expect(taken.stderr).toContain('Choose another --metrics');
});

import { expect, test } from 'vitest';
import { Running, run, temporaryDirectory } from './run.js';

const STORAGE = ['storage', '--port', '0', '--store-paths'];

test('migrate tells of a storage with a metadata tier, pauses it and lets it go on', async () => {
  const directory = await temporaryDirectory();
  const storage = new Running([...STORAGE, directory, '--metadata-tier', '--bandwidth', '100MiB']);
  const address = await storage.ready();
  const migrate = (action: string, ...flags: string[]) =>
    run(['migrate', action, '--storage', address, ...flags]);
  const status = await migrate('status');
  expect(status).toMatchObject({ code: 0, stderr: '' });
  // It grows while there is no load.
  expect(status.stdout).toMatch(/threshold \d\S* [KM]iB; 0 files in rows/);
  expect((await migrate('pause')).stdout).toContain('paused');
  expect(JSON.parse((await migrate('status', '--json')).stdout)).toMatchObject({ isPaused: true });
  expect((await migrate('resume')).stdout).toContain('moving files');
  expect((await migrate('status', '--prometheus')).stdout).toContain('stevedore_threshold_bytes');
  expect((await migrate('march')).code).toBe(2);
});

test('migrate says what is missing where a storage has no tiers', async () => {
  const storage = new Running([...STORAGE, await temporaryDirectory()]);
  const result = await run(['migrate', 'status', '--storage', await storage.ready()]);
  expect(result.code).toBe(1);
  expect(result.stderr).toContain('--metadata-tier');
});

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Running, run } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

const STORAGE = ['storage', '--port', '0', '--store-paths'];

test('migrate tells of a storage with a metadata tier, pauses it and lets it go on', async () => {
  const directory = temporaryFolder();
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
  expect((await migrate('march')).code).toBe(2);
});

test('daemons with a secret serve the commands that have it', async () => {
  const directory = temporaryFolder();
  const secret = join(directory, 'secret');
  await writeFile(secret, '# of this cluster\nthe secret of this cluster\n');
  const having = ['--cluster-secret-file', secret];
  const tracker = new Running(['tracker', '--port', '0', ...having]);
  const trackers = ['--trackers', await tracker.ready()];
  const tiers = ['--metadata-tier', '--bandwidth', '100MiB'];
  const storage = new Running([...STORAGE, join(directory, 'files'), ...trackers, ...tiers], {
    env: { STEVEDORE_CLUSTER_SECRET_FILE: secret },
  });
  const address = await storage.ready();
  const migrate = ['migrate', 'status', '--storage', address];
  expect((await run([...migrate, ...having])).code).toBe(0);
  expect((await run(migrate)).code).toBe(1);
  const free = ['--port', '0', '--directory', join(directory, 'gateway')];
  const gateway = new Running(['gateway', ...free, ...trackers, ...having]);
  const url = await gateway.ready();
  await expect
    .poll(async () => (await fetch(`${url}/health/ready`)).status, { timeout: 20_000 })
    .toBe(200);
  const doctor = await run(['doctor', '--json', ...free, ...trackers]);
  expect(doctor.stdout).toContain('without the secret');
  const wrong = await run(['tracker', '--port', '0', '--without-secret', 'read']);
  expect(wrong).toMatchObject({ code: 2 });
  const missing = join(directory, 'none');
  const gone = await run(['tracker', '--port', '0', '--cluster-secret-file', missing]);
  expect(gone).toMatchObject({ code: 2 });
  expect(gone.stderr).toContain(missing);
});

test('migrate says what is missing where a storage has no tiers', async () => {
  const storage = new Running([...STORAGE, temporaryFolder()]);
  const result = await run(['migrate', 'status', '--storage', await storage.ready()]);
  expect(result.code).toBe(1);
  expect(result.stderr).toContain('--metadata-tier');
});

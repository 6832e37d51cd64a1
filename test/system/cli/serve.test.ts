import { readdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Running, run, runApart } from '../../support/cli/run.js';
import { temporaryFolder } from '../../support/temporary.js';

const ANY_PORTS = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];

describe('stevedore gateway', () => {
  test('takes its options from flag, environment and file, and runs until SIGINT', async () => {
    const cwd = temporaryFolder();
    const file = { port: 1, directory: 'from-file', mergeMaxAge: '5s', serveTrunks: true };
    await writeFile(join(cwd, 'stevedore.config.json'), JSON.stringify(file));
    const env = { STEVEDORE_MERGE_MAX_AGE: '7s' };
    const gateway = new Running(['gateway', ...ANY_PORTS, '--cache-size', '0'], { cwd, env });
    const url = await gateway.ready();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(gateway.stdout).toContain(join(cwd, 'from-file'));
    for (const shown of ['no cache', 'packed after 7 s', 'whole trunks are served']) {
      expect(gateway.stdout).toContain(shown);
    }
    gateway.process.kill('SIGINT');
    expect(await gateway.result()).toMatchObject({ code: 0 });
  });

  test.runIf(process.platform === 'linux')(
    'has 16 threads for calls of the file system, or as many as the environment says',
    async () => {
      const threads = async (env: NodeJS.ProcessEnv): Promise<number> => {
        const tracker = new Running(['tracker', '--port', '0'], { env });
        await tracker.ready();
        return (await readdir(`/proc/${tracker.process.pid}/task`)).length;
      };
      const four = await threads({ UV_THREADPOOL_SIZE: '4' });
      expect((await threads({ UV_THREADPOOL_SIZE: undefined })) - four).toBeGreaterThanOrEqual(10);
    },
  );

  test.each(['{"prot": 1}', '{"port": "x"}', '[]', '{', 'null'])(
    'refuses the configuration %s with 2',
    async (text) => {
      const cwd = temporaryFolder();
      await writeFile(join(cwd, 'stevedore.config.json'), text);
      const { code, stderr } = await run(['gateway', ...ANY_PORTS], { cwd });
      expect(code).toBe(2);
      expect(stderr).toMatch(/^stevedore: .*stevedore\.config\.json.*\n$/);
    },
  );

  test('says in one sentence that its port is taken', async () => {
    const cwd = temporaryFolder();
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((done) => server.once('listening', done));
    const { port } = server.address() as AddressInfo;
    try {
      const ports = ['--tracker-port', '0', '--storage-port', '0', '--port', String(port)];
      const { code, stderr } = await runApart(['gateway', ...ports], { cwd });
      expect(code).toBe(1);
      expect(stderr).toMatch(new RegExp(`^stevedore: 127.0.0.1:${port} is already in use;.*\n$`));
      const embedded = ['--port', '0', '--storage-port', '0', '--tracker-port', String(port)];
      const second = await runApart(['gateway', ...embedded], { cwd });
      expect(second.code).toBe(1);
      expect(second.stderr).toMatch(/^stevedore: .*\n$/);
      expect(second.stderr).toContain(String(port));
    } finally {
      server.close();
    }
  });

  test('says in one sentence that its directory cannot be used, or is in use', async () => {
    const cwd = temporaryFolder();
    await writeFile(join(cwd, 'file'), '');
    const unusable = await runApart(['gateway', ...ANY_PORTS, '--directory', 'file/x'], { cwd });
    expect([unusable.code, unusable.stderr.match(/\n/g)?.length]).toEqual([1, 1]);
    expect(unusable.stderr).toContain(join(cwd, 'file/x'));
    const first = new Running(['gateway', ...ANY_PORTS], { cwd });
    await first.ready();
    const second = await runApart(['gateway', ...ANY_PORTS], { cwd });
    expect([second.code, second.stderr.match(/\n/g)?.length]).toEqual([1, 1]);
    expect(second.stderr).toContain('in use by another process');
  });
});

describe('stevedore tracker and storage', () => {
  test('a storage whose directory is in use does not start, and touches nothing', async () => {
    const cwd = temporaryFolder();
    const args = ['storage', '--port', '0', '--store-paths', 'disk'];
    const first = new Running(args, { cwd });
    await first.ready();
    const temporary = join(cwd, 'disk', 'data', '.tmp');
    await writeFile(join(temporary, 'an-upload'), 'half');
    const second = await runApart(args, { cwd });
    expect([second.code, second.stderr.match(/\n/g)?.length]).toEqual([1, 1]);
    expect(second.stderr).toContain('in use by another process');
    expect(await readdir(temporary)).toEqual(['an-upload']);
    first.process.kill('SIGTERM');
    expect(await first.result()).toMatchObject({ code: 0 });
    const third = new Running(args, { cwd });
    await third.ready();
  });
});

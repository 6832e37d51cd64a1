import { expect, it } from 'vitest';
import { ask } from '../support/gateway/workers/asking.js';
import { metricsOf, pidsOf } from '../support/gateway/workers/processes.js';
import { startGatewayProcess } from '../support/gateway-process.js';
import { soon } from '../support/soon.js';
import { temporaryFolder } from '../support/temporary.js';

it('a worker that is killed under load loses nothing, and is started again', async () => {
  const directory = temporaryFolder();
  const flags = ['--workers', '2', '--merge-max-age', '500ms'];
  const gateway = await startGatewayProcess(directory, ...flags);
  const { url } = gateway;
  const stored = new Map<string, string>();
  const deleted = new Set<string>();
  let isOver = false;
  const load = Array.from({ length: 8 }, async (_, client) => {
    for (let count = 0; !isOver; count += 1) {
      try {
        const body = `${client} ${count} `.repeat(500);
        const key = JSON.parse(
          (await ask(url, '/files', { method: 'POST', body })).body.toString(),
        ).key;
        if (typeof key !== 'string') continue;
        if (count % 5 === 0) {
          // Of one that is not answered, nobody knows whether it was made.
          const { status } = await ask(url, `/files/${key}`, { method: 'DELETE' });
          if (status !== 204) continue;
          deleted.add(key);
        }
        stored.set(key, body);
      } catch {
        // The connection was that of the killed worker.
      }
    }
  });
  const check = async () => {
    for (const [key, body] of stored) {
      const answer = await soon(async () => {
        const given = await ask(url, `/files/${key}`);
        if (given.status >= 500) throw new Error(`${key}: ${given.body}`);
        return given;
      });
      expect([key, answer.status]).toEqual([key, deleted.has(key) ? 404 : 200]);
      if (answer.status === 200) expect(answer.body.toString()).toBe(body);
    }
  };
  for (let kill = 0; kill < 2; kill += 1) {
    const pids = pidsOf(gateway);
    const before = stored.size;
    await soon(async () => expect(stored.size).toBeGreaterThan(before + 20));
    process.kill(pids[kill % 2]!, 'SIGKILL');
    await soon(async () => {
      const now = pidsOf(gateway);
      expect(now.length).toBe(2);
      expect(now).not.toContain(pids[kill % 2]);
      const figures = await metricsOf(gateway);
      expect(figures.get('stevedore_worker_up{worker="1"}')).toBe(1);
      expect(figures.get('stevedore_worker_up{worker="2"}')).toBe(1);
    });
  }
  isOver = true;
  await Promise.all(load);
  expect(deleted.size).toBeGreaterThan(0);
  await check();
  expect(await gateway.stop()).toBe(0);
});

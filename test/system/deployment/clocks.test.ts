import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { freePorts } from '../../support/kills/daemon.js';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Gateways whose clocks are wrong. */

vi.setConfig({ testTimeout: 120_000 });

const HOUR_MS = 3_600_000;

/** Processes started meanwhile have a clock that is off by so much. */
async function withClockOff<Result>(ms: number, start: () => Promise<Result>): Promise<Result> {
  const clock = `
    const now = Date.now;
    globalThis.Date = class extends Date {
      constructor(...given) { given.length === 0 ? super(now() + ${ms}) : super(...given); }
      static now() { return now() + ${ms}; }
    };`;
  vi.stubEnv('NODE_OPTIONS', `--import=data:text/javascript,${encodeURIComponent(clock)}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  const started = await start();
  vi.unstubAllEnvs();
  return started;
}

describe.skipIf(needsPostgres.missing)('gateways an hour apart', () => {
  let database: PostgresServer;
  beforeAll(async () => {
    database = await PostgresServer.start(true);
  });
  afterAll(() => database.stop());

  it.each(['1h', '300ms'])(
    'have files read and deleted at both, merged after %s',
    async (mergeMaxAge) => {
      const map = database.newDatabase();
      const ports = (await freePorts(2)).map(String);
      const start = (port: string, ...more: string[]) =>
        startGatewayProcess(
          ...[temporaryFolder(), '--map', map, '--merge-max-age', mergeMaxAge],
          ...['--port', port, '--peer-url', `http://127.0.0.1:${port}`, ...more],
        );
      const first = await start(ports[0]!);
      const second = await withClockOff(HOUR_MS, () =>
        start(ports[1]!, '--trackers', `127.0.0.1:${first.trackerPort}`),
      );
      const pairs = [[first, second] as const, [second, first] as const];
      for (const [from, to] of pairs) {
        const content = `staged at ${from.url}`;
        const answer = await fetch(`${from.url}/files`, { method: 'POST', body: content });
        expect(answer.status).toBe(201);
        const { key } = (await answer.json()) as { key: string };
        const statusAt = async ({ url }: typeof from) =>
          (await fetch(`${url}/files/${key}`)).status;
        await soon(async () => {
          const info = await fetch(`${to.url}/files/${key}/info`);
          const { state, stagedAt } = (await info.json()) as { state: string; stagedAt: string };
          // The clock is off indeed, and a file has the time of the server that took it.
          const hours = Math.round(Math.abs(Date.parse(stagedAt) - Date.now()) / HOUR_MS);
          expect(hours).toBe(from === first ? 0 : 1);
          expect(state).toBe(mergeMaxAge === '1h' ? 'staged' : 'merged');
        });
        for (const { url } of [from, to]) {
          expect(await (await fetch(`${url}/files/${key}`)).text()).toBe(content);
        }
        expect((await fetch(`${to.url}/files/${key}`, { method: 'DELETE' })).status).toBe(204);
        for (const each of [to, from]) {
          await soon(async () => expect(await statusAt(each)).toBe(404));
        }
      }
      for (const { url } of [first, second]) {
        expect((await fetch(`${url}/health/ready`)).status).toBe(200);
      }
      for (const each of [second, first]) expect(await each.stop()).toBe(0);
    },
  );
});

it('before 1970, files are stored, merged, read and deleted', async () => {
  const { url, stop } = await withClockOff(-Date.UTC(2040, 0), () =>
    startGatewayProcess(temporaryFolder(), '--merge-max-age', '300ms'),
  );
  const answer = await fetch(`${url}/files`, { method: 'POST', body: 'early' });
  expect(answer.status).toBe(201);
  const { key } = (await answer.json()) as { key: string };
  await soon(async () => {
    const info = (await (await fetch(`${url}/files/${key}/info`)).json()) as { state: string };
    expect(info.state).toBe('merged');
  });
  expect(await (await fetch(`${url}/files/${key}`)).text()).toBe('early');
  expect((await fetch(`${url}/files/${key}`, { method: 'DELETE' })).status).toBe(204);
  expect(await stop()).toBe(0);
});

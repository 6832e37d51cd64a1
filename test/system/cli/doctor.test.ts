import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../../support/cli/run.js';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { temporaryFolder } from '../../support/temporary.js';

interface Report {
  readonly healthy: boolean;
  readonly findings: readonly {
    readonly what: string;
    readonly verdict: string;
    readonly detail: string;
    readonly advice?: string;
  }[];
}

const FREE = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];

async function doctor(...flags: string[]): Promise<{ code: number | null; report: Report }> {
  const { code, stdout } = await run(['doctor', '--json', ...flags]);
  return { code, report: JSON.parse(stdout) as Report };
}

const of = (report: Report, what: string) => report.findings.find((each) => each.what === what);

/** But for the one that a temporary folder in memory is. */
const problems = ({ findings }: Report) =>
  findings.filter(({ what, verdict }) => verdict === 'problem' && what !== 'disk');

test('finds nothing wrong before and while a gateway runs, and leaves nothing behind', async () => {
  const directory = join(temporaryFolder(), 'new');
  const before = await doctor('--directory', directory, ...FREE);
  expect(problems(before.report)).toEqual([]);
  expect(of(before.report, 'directory')?.detail).toContain('made at the first start');

  const gateway = await startGatewayProcess(directory);
  const during = readdirSync(directory).sort();
  const trackers = `127.0.0.1:${gateway.trackerPort}`;
  const port = new URL(gateway.url).port;
  const { code, report } = await doctor(
    '--directory',
    directory,
    '--trackers',
    trackers,
    '--port',
    port,
    '--map',
    `sqlite:${join(temporaryFolder(), 'map.db')}`,
  );
  expect(problems(report)).toEqual([]);
  expect(code).toBe(report.healthy ? 0 : 1);
  expect(of(report, 'map')?.verdict).toBe('ok');
  expect(of(report, 'peer URL')?.verdict).toBe('warning');
  expect(of(report, 'storing')?.verdict).toBe('ok');
  expect(of(report, 'clock of the storage')?.verdict).toBe('ok');
  expect(of(report, `tracker ${trackers}`)?.detail).toContain('1 of them active');
  expect(readdirSync(directory).sort()).toEqual(during);
  expect(await gateway.stop()).toBe(0);
});

test('says what is wrong and what to do, and ends with 1', async () => {
  const { code, stdout } = await run([
    'doctor',
    '--directory',
    '/proc/nowhere',
    '--trackers',
    '127.0.0.1:1',
    '--host',
    '127.0.0.1',
  ]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/PROBLEM {2}directory: \/proc\/nowhere cannot be used/);
  expect(stdout).toMatch(/PROBLEM {2}tracker 127\.0\.0\.1:1: .*ECONNREFUSED/);
  expect(stdout).toMatch(/\n2 problems, \d+ warnings?\n$/);

  const wrong = await doctor('--trunk-size', '64');
  expect(wrong).toMatchObject({ code: 1, report: { healthy: false } });
  expect(of(wrong.report, 'options')?.detail).toContain('64');
});

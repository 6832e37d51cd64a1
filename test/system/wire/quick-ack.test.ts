import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { spawnSync } from '../../support/child-process.js';
import { TEST } from '../../support/paths.js';
import { hasCommand, requirement } from '../../support/requirements.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Requests in two pieces by a client that has Nagle's algorithm on: its system sends the
 * second piece once the first is acknowledged. That must not wait for the timer of delayed
 * acknowledgements. Linux counts how often this timer ran out, so nothing is timed here.
 */

const PROCESS = join(TEST, 'support/two-pieces.mjs');
const ALONE = ['--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', '-'];
const available = requirement('a network namespace (unshare, ip)', () =>
  hasCommand('unshare', ...ALONE, 'true'),
);

interface Delayed {
  readonly requests: number;
  readonly plain: number;
  readonly uploads: number;
  readonly changes: number;
}

describe.skipIf(available.missing)('a request whose head and body are written apart', () => {
  it('is acknowledged piece by piece, at once', () => {
    const command = [...ALONE, process.execPath, PROCESS, temporaryFolder()];
    const { stdout, stderr } = spawnSync('unshare', command, { encoding: 'utf8' });
    expect(stderr).toBe('');
    const { requests, plain, uploads, changes } = JSON.parse(stdout) as Delayed;
    // A server like any other: the count does count what is to be avoided here.
    expect(plain).toBeGreaterThan(requests / 8);
    expect(uploads).toBeLessThan(requests / 8);
    expect(changes).toBeLessThan(requests / 8);
  });
});

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runApart } from '../../support/cli/run.js';
import { running } from '../../support/gateway/harness.js';
import { TEST } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Commands of an installation whose SQLite was compiled for another version of Node. */

const OTHER_NODE = join(TEST, 'support/other-node.cjs');
const env = { NODE_OPTIONS: `--require ${OTHER_NODE}` };
const COMPLAINT = `the SQLite binding was compiled for another Node than this ${process.version}; compile it with this Node: npm rebuild better-sqlite3, or pnpm -r rebuild better-sqlite3`;
const PORTS = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];

test('a gateway and a storage say what to compile', async () => {
  const cwd = temporaryFolder();
  const storage = ['storage', '--port', '0', '--metadata-tier', '--bandwidth', '1MiB'];
  for (const args of [['gateway', ...PORTS], storage]) {
    const result = await runApart(args, { cwd, env });
    expect(result).toEqual({ code: 1, stdout: '', stderr: `stevedore: ${COMPLAINT}\n` });
  }
});

test('put works all the same', async () => {
  const { url } = await running();
  const cwd = temporaryFolder();
  await writeFile(join(cwd, 'a'), 'x');
  const { code, stderr } = await runApart(['put', 'a', '--url', url], { cwd, env });
  expect(code).toBe(0);
  expect(stderr).toBe('');
});

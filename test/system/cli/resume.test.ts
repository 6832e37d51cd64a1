import { once } from 'node:events';
import { utimes, writeFile } from 'node:fs/promises';
import { request as requestOf } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keyedGateway } from '../../support/cli/keyed-gateway.js';
import { folder, Running, run } from '../../support/cli/run.js';
import { running } from '../../support/gateway/harness.js';
import { serving } from '../../support/serving.js';

/** An upload that was cut off at any moment, and is done again, is stored once. */

test('an import that is killed again and again stores every file once', {
  timeout: 180_000,
}, async () => {
  const FILES = 120;
  const { env } = await keyedGateway();
  const cwd = await folder(FILES);
  for (const rows of [1, 40, 80]) {
    const cut = new Running(['import', 'd'], { cwd, env });
    const printed = () => cut.stdout.split('\n').length - 2;
    while (printed() < rows) await once(cut.process.stdout!, 'data');
    cut.process.kill('SIGKILL');
    await cut.result();
  }
  const { code, stdout } = await run(['import', 'd'], { cwd, env });
  expect([code, stdout.trimEnd().split('\n').length]).toEqual([0, FILES + 1]);
  const listed = await run(['ls', '--keys'], { env });
  expect(listed.stdout.trimEnd().split('\n')).toHaveLength(FILES);
});

/** A gateway behind a connection that can lose answers to uploads. */
async function lossyGateway() {
  const { store, url } = await running();
  const seen = { uploads: 0, lost: 0 };
  let lose = false;
  const proxy = await serving((request, response) => {
    const { method, url: path, headers } = request;
    const onward = requestOf(url + path, { method, headers }, (answer) => {
      if (method === 'POST') seen.uploads += 1;
      if (method === 'POST' && lose) {
        seen.lost += 1;
        answer.resume().once('end', () => request.socket.destroy());
        return;
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  const losing = (isLosing: boolean) => {
    lose = isLosing;
  };
  return { store, seen, losing, env: { STEVEDORE_URL: proxy } };
}

test('a file whose answer was lost is found at the gateway and not sent again', async () => {
  const { store, seen, losing, env } = await lossyGateway();
  const cwd = await folder(3);
  losing(true);
  const first = await run(['put', 'd'], { cwd, env });
  expect([first.code, first.stdout, seen]).toEqual([1, '', { uploads: 3, lost: 3 }]);
  losing(false);
  const second = await run(['put', 'd'], { cwd, env });
  expect([second.code, second.stderr]).toEqual([0, '3 files there already\n']);
  expect([store.files.size, seen.uploads]).toEqual([3, 3]);
  // With other bytes than were acknowledged it is not the same file.
  losing(true);
  await writeFile(join(cwd, 'd', 'changed'), 'one');
  await utimes(join(cwd, 'd', 'changed'), 1, 1);
  await run(['put', 'd'], { cwd, env });
  losing(false);
  await writeFile(join(cwd, 'd', 'changed'), 'two');
  await utimes(join(cwd, 'd', 'changed'), 1, 1);
  await run(['put', 'd'], { cwd, env });
  expect([...store.files.values()].map(({ bytes }) => bytes.toString()).sort()).toEqual([
    ...['file 0', 'file 1', 'file 2', 'one', 'two'],
  ]);
});

test('a file that is named twice is one upload', async () => {
  const { store, url } = await running();
  const cwd = await folder(1);
  const { code, stdout } = await run(['put', 'd/0', 'd/0', '-u', url], { cwd });
  expect([code, store.files.size]).toEqual([0, 1]);
  expect(new Set(stdout.trimEnd().split('\n')).size).toBe(1);
});

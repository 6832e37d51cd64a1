import { randomBytes } from 'node:crypto';
import { Upload } from 'tus-js-client';
import { expect, test } from 'vitest';
import { cuttingProxy } from '../support/cutting-proxy.js';
import { startGatewayProcess } from '../support/gateway-process.js';
import { temporaryFolder } from '../support/temporary.js';

/** A gateway that is killed while a client uploads: the upload goes on where it was. */

const BYTES = 40_000_000;
const KILLS = 3;

test('an upload outlives SIGKILLs of its gateway', async () => {
  const directory = temporaryFolder();
  let gateway = await startGatewayProcess(directory);
  const proxy = await cuttingProxy(Number(new URL(gateway.url).port));
  const body = randomBytes(BYTES);
  const offsets: number[] = [];
  let kills = 0;
  let restarting = false;
  const restart = async (): Promise<void> => {
    restarting = true;
    kills += 1;
    gateway.child.kill('SIGKILL');
    gateway = await startGatewayProcess(directory);
    proxy.target = Number(new URL(gateway.url).port);
    restarting = false;
  };
  const key = await new Promise<string>((resolve, reject) => {
    let found = '';
    const upload = new Upload(body, {
      endpoint: `${proxy.url}/uploads`,
      retryDelays: Array(200).fill(100),
      metadata: { filename: 'large.bin' },
      onBeforeRequest: (request) => {
        const offset = request.getHeader('Upload-Offset');
        if (offset !== undefined) offsets.push(Number(offset));
      },
      onProgress: (sent) => {
        // Of the request: what the sockets between hold has not come yet.
        const due = ((kills + 1) * BYTES) / (KILLS + 1);
        if (!restarting && kills < KILLS && sent > due) restart().catch(reject);
      },
      onAfterResponse: (_request, response) => {
        found = response.getHeader('X-File-Key') ?? found;
      },
      onError: reject,
      onSuccess: () => resolve(found),
    });
    upload.start();
  });
  expect(kills).toBe(KILLS);
  expect(offsets.length).toBeGreaterThan(KILLS);
  // What it had it kept, in requests of any length.
  expect(offsets.slice(1).every((offset, index) => offset >= offsets[index]!)).toBe(true);
  expect(offsets.at(-1)).toBeGreaterThan(0);
  const response = await fetch(`${gateway.url}/files/${key}`);
  expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true);
}, 120_000);

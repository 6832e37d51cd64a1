import { randomBytes } from 'node:crypto';
import { Upload } from 'tus-js-client';
import { expect, test } from 'vitest';
import { cuttingProxy } from '../../support/cutting-proxy.js';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A gateway that is killed while a client uploads: the upload goes on where it was. */

/** Between two kills more passes than a crash may cost and the sockets between may hold. */
const BYTES = 90_000_000;
const KILLS = 2;

test.each([
  ['one request', Number.POSITIVE_INFINITY],
  ['requests of 2 MB', 2_000_000],
])(
  'an upload by %s outlives SIGKILLs of its gateway',
  async (_way, chunkSize) => {
    const directory = temporaryFolder();
    let gateway = await startGatewayProcess(directory);
    const proxy = await cuttingProxy(Number(new URL(gateway.url).port));
    const body = randomBytes(BYTES);
    const offsets: number[] = [];
    /** Of each request, how much had been acknowledged before it. */
    const acknowledged: number[] = [];
    let known = 0;
    let kills = 0;
    const restart = async (): Promise<void> => {
      proxy.onPassed = undefined;
      kills += 1;
      gateway.child.kill('SIGKILL');
      gateway = await startGatewayProcess(directory);
      proxy.target = Number(new URL(gateway.url).port);
      if (kills < KILLS) killLater();
    };
    // Less than all bytes pass before the last kill, even if nothing is sent twice.
    let failed: (reason: unknown) => void;
    const killLater = (): void => {
      const due = proxy.passedBytes + BYTES / (KILLS + 1);
      proxy.onPassed = () => {
        if (proxy.passedBytes > due) restart().catch(failed);
      };
    };
    killLater();
    const key = await new Promise<string>((resolve, reject) => {
      let found = '';
      failed = reject;
      const upload = new Upload(body, {
        endpoint: `${proxy.url}/uploads`,
        chunkSize,
        retryDelays: Array(1000).fill(100),
        metadata: { filename: 'large.bin' },
        onBeforeRequest: (request) => {
          const offset = request.getHeader('Upload-Offset');
          if (offset === undefined) return;
          offsets.push(Number(offset));
          acknowledged.push(known);
        },
        onAfterResponse: (_request, response) => {
          found = response.getHeader('X-File-Key') ?? found;
          known = Math.max(known, Number(response.getHeader('Upload-Offset') ?? 0));
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
    // Nothing that was acknowledged is sent twice.
    expect(offsets).toEqual(acknowledged);
    const response = await fetch(`${gateway.url}/files/${key}`);
    expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true);
  },
  120_000,
);

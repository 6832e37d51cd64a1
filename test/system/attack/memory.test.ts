import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Running } from '../../support/cli/run.js';
import { COMPILED } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Many large uploads at once, half of them of a length that is not said: what they take of
 * the gateway's memory does not grow with their sizes. The gateway is a process of its own,
 * the uploads come from another. STEVEDORE_TEST_UPLOAD_BYTES says how much of each 100 MB is
 * sent before it is measured: more than what any body may hold of memory before it goes to
 * the disk (4 MiB), so that all of them stream. With 100000000 all but the last byte is sent:
 * 20 GB, all of them still in flight.
 */

const UPLOADS = 200;
const BYTES = 100_000_000;
const SENT = Math.min(Number(process.env.STEVEDORE_TEST_UPLOAD_BYTES ?? 5_000_000), BYTES - 1);
const LIMIT_MIB = 300;

function residentMib(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
}

/** Tells on its output when every upload has sent its part. */
function generator(url: string): ChildProcess {
  const script = join(COMPILED, 'support/attack/trickle-process.js');
  const args = [url, UPLOADS, BYTES, SENT].map(String);
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

test.skipIf(process.platform !== 'linux')(
  `${UPLOADS} uploads of 100 MB in flight stay below ${LIMIT_MIB} MiB`,
  { timeout: 580_000 },
  async () => {
    const args = ['gateway', '--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const gateway = new Running(args, { cwd: temporaryFolder() });
    const url = await gateway.ready();
    const pid = gateway.process.pid!;
    const child = generator(url);
    let peak = 0;
    const sampling = setInterval(() => {
      peak = Math.max(peak, residentMib(pid));
    }, 50);
    try {
      const line = await new Promise<string>((done, fail) => {
        child.stdout!.once('data', (text: Buffer) => done(String(text).trim()));
        child.once('exit', (code) => fail(new Error(`the generator ended with ${code}`)));
      });
      expect(line).toBe(`in flight ${UPLOADS}`);
      peak = Math.max(peak, residentMib(pid));
    } finally {
      clearInterval(sampling);
    }
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    expect(peak).toBeLessThan(LIMIT_MIB);
    console.log(`peak ${Math.round(peak)} MiB, ${UPLOADS} uploads, ${SENT} bytes of each sent`);
  },
);

import { Agent, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { Child, type ChildOptions } from '../../../bench/dist/harness/child.js';
import { start } from '../../../bench/dist/harness/processes.js';
import { COMPILED } from '../../support/paths.js';
import { RawClient } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * What an operation costs, as the number of calls of functions, ours and those of packages. V8
 * counts them; they are the same on a slow machine, a busy one and a quick one. A rise of a tenth
 * fails: take a layer away, or change the number and say why. A fall of a tenth fails too, so that
 * the number is what the operation costs now.
 */
const CALLS = {
  upload: 219,
  hot: 38.3,
  cold: 186,
  slice: 215,
  plainFetch: 131,
  storageHot: 102,
};
const TOLERANCE = 0.1;

const OPERATIONS = 200;
/** Before anything is counted: tables are made and caches grow. */
const WARM_UP = 50;
const BODY = Buffer.alloc(20_000, 'photo ');

type Counted = Child<typeof import('../../support/bench/counted-process.js')>;

function counted(options: ChildOptions = {}): Counted {
  const child: Counted = new Child(
    pathToFileURL(`${COMPILED}/support/bench/counted-process.js`),
    options,
  );
  onTestFinished(() => child[Symbol.asyncDispose]());
  return child;
}

/** Of one operation. */
async function callsOf(child: Counted, operations: number, run: () => Promise<void>) {
  await child.call('calls');
  await run();
  return (await child.call('calls')) / operations;
}

function demand(counted: Partial<typeof CALLS>): void {
  for (const [name, calls] of Object.entries(counted)) {
    const usual = CALLS[name as keyof typeof CALLS];
    expect.soft(calls, `calls of ${name}`).toBeLessThan(usual * (1 + TOLERANCE));
    expect.soft(calls, `calls of ${name}`).toBeGreaterThan(usual * (1 - TOLERANCE));
  }
}

class Client {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(port: number) {
    this.#port = port;
    onTestFinished(() => this.#agent.destroy());
  }

  async upload(): Promise<string> {
    const headers = { 'content-type': 'image/jpeg', 'x-filename': 'photo.jpg' };
    const { url } = JSON.parse(String(await this.#ask('POST', '/files', headers, BODY)));
    return url as string;
  }

  async download(path: string): Promise<void> {
    expect(BODY.equals(await this.#ask('GET', path, {}))).toBe(true);
  }

  #ask(method: string, path: string, headers: Record<string, string>, body?: Buffer) {
    return new Promise<Buffer>((resolve, reject) => {
      const length = body ? { 'content-length': body.length } : {};
      const options = { host: '127.0.0.1', port: this.#port, agent: this.#agent, method, path };
      const asked = request({ ...options, headers: { ...headers, ...length } }, (response) => {
        buffer(response).then(resolve, reject);
      });
      asked.on('error', reject).end(body);
    });
  }
}

async function times(count: number, run: (index: number) => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index += 1) await run(index);
}

test('an upload, a hot read and a cold read cost no more calls than they did', async () => {
  const options = { directory: temporaryFolder(), mergeMaxAge: '1h' };
  const first = counted();
  const client = new Client(await first.call('start', options));
  const paths: string[] = [];
  const upload = async () => void paths.push(await client.upload());
  await times(WARM_UP, upload);
  const uploads = await callsOf(first, OPERATIONS, () => times(OPERATIONS, upload));
  const [path] = paths as [string];
  await times(WARM_UP, () => client.download(path));
  const hot = await callsOf(first, OPERATIONS, () =>
    times(OPERATIONS, () => client.download(path)),
  );
  await first[Symbol.asyncDispose]();
  const second = counted();
  const again = new Client(await second.call('start', options));
  await times(WARM_UP, (index) => again.download(paths[index]!));
  const cold = await callsOf(second, OPERATIONS, () =>
    times(OPERATIONS, (index) => again.download(paths[WARM_UP + index]!)),
  );
  demand({ upload: uploads, hot, cold });
}, 120_000);

test('a fetch of a slice, and one of a plain client, cost no more calls than they did', async () => {
  // They outlive the processes that write to them.
  const [stored, staged] = [temporaryFolder(), temporaryFolder()];
  const node = start('harness/nodes');
  onTestFinished(() => node[Symbol.asyncDispose]());
  const trackers = [await node.call('group', stored)];
  const child = counted();
  await child.call('fill', staged, trackers, OPERATIONS);
  await child.call('fetch', 'sdk');
  const slice = await callsOf(child, OPERATIONS, () => child.call('fetch', 'sdk'));
  await child.call('fetch', 'client');
  const plain = await callsOf(child, OPERATIONS, () => child.call('fetch', 'client'));
  demand({ slice, plainFetch: plain });
}, 120_000);

test('a storage’s answer from memory costs no more calls than it did', async () => {
  const folder = temporaryFolder();
  const child = counted();
  const client = await RawClient.open(await child.call('serve', folder));
  const file = await client.upload(BODY);
  const read = async () => expect(await client.has(file, BODY)).toBe(true);
  await times(WARM_UP, read);
  demand({ storageHot: await callsOf(child, OPERATIONS, () => times(OPERATIONS, read)) });
}, 120_000);

/**
 * Bytes that an operation allocates: in V8's heap, which is collected the more often, and as
 * buffers, which V8 marks and sweeps one by one. An upload's buffer is the one that its body arrives
 * in; a copy of it, or one for each file, would show. What V8 has optimised by then varies, and so
 * do the bytes.
 */
const BYTES = {
  upload: { heap: 32_000, external: 20_100 },
  hot: { heap: 8_300, external: 100 },
};
const BYTES_TOLERANCE = 0.25;

/** Until most of what runs is optimised. */
const LONG_WARM_UP = 500;
/** Filled by the warm-up, so that none of it is allocated later. */
const SMALL_CACHE = '4MiB';

test('an upload and a hot read allocate no more bytes than they did', async () => {
  const room = ['--min-semi-space-size=128', '--max-semi-space-size=128', '--no-memory-reducer'];
  const small = { cacheSize: SMALL_CACHE, durability: 'os' } as const;
  const options = { directory: temporaryFolder(), mergeMaxAge: '1h', ...small };
  // After its folder, so that it ends before that is removed.
  const child = counted({ nodeOptions: ['--expose-gc', ...room] });
  const client = new Client(await child.call('start', options));
  let path = '';
  const upload = async () => {
    path = await client.upload();
  };
  const demandBytes = async (name: keyof typeof BYTES, run: () => Promise<void>) => {
    await times(LONG_WARM_UP, run);
    await child.call('bytes');
    await times(OPERATIONS, run);
    const bytes = await child.call('bytes');
    for (const where of ['heap', 'external'] as const) {
      const most = BYTES[name][where] * (1 + BYTES_TOLERANCE);
      expect.soft(bytes[where] / OPERATIONS, `${where} bytes of ${name}`).toBeLessThan(most);
    }
  };
  await demandBytes('upload', upload);
  await demandBytes('hot', () => client.download(path));
}, 120_000);

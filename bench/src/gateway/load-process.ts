import { execFileSync } from 'node:child_process';
import autocannon from 'autocannon';
import { cpuUsed, serve } from '../harness/serve.js';
import { percentile } from '../harness/statistics.js';
import {
  FILE_TYPE,
  fileText,
  isFileText,
  renumber,
  type Started,
  type Stored,
  type UploadTarget,
} from './server.js';
import { store } from './storing.js';

/**
 * The load: autocannon, over connections that are kept; each sends its next request when
 * the last one is answered. An answer that is not the one expected fails the benchmark.
 */

export interface LoadOptions {
  readonly server: Started;
  /** To download, each by one of the connections; none: uploads, each of other bytes. */
  readonly files: readonly Stored[];
  readonly connections: number;
  /** Undefined: until each file has been downloaded once. */
  readonly seconds: number | undefined;
}

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export type LoadHandlers = {
  readonly run: (options: LoadOptions) => Promise<LoadResult>;
  /** Uploads files, and answers where each is. */
  readonly store: typeof store;
  /** To one core. */
  readonly pin: (core: number) => void;
};

function pin(core: number): void {
  const [file, ...args] = ['taskset', '-a', '-c', '-p', String(core), String(process.pid)];
  execFileSync(file!, args);
}

/** How often autocannon looks whether it is to end. */
const SAMPLE_MS = 10;
/** Until the first answer; every measurement has one. */
const MAX_SECONDS = 60;

async function run({ server, files, connections, seconds }: LoadOptions): Promise<LoadResult> {
  const isExpected = (status: number) =>
    files.length > 0 ? status === 200 : status >= 200 && status < 300;
  const times: number[] = [];
  let problem: string | undefined;
  let beganAt = 0;
  let answeredAt = 0;
  let clients = 0;
  let cpuBefore = 0;
  await new Promise<void>((resolve, reject) => {
    const fail = (text: string) => {
      problem ??= text;
      instance.stop();
    };
    const options = {
      url: `http://${server.host ?? '127.0.0.1'}:${server.port}`,
      connections,
      sampleInt: SAMPLE_MS,
      ...(seconds === undefined ? { amount: files.length } : { duration: MAX_SECONDS }),
      skipAggregateResult: true,
      setupClient: (client: autocannon.Client) => {
        const own = files.filter((_, index) => index % connections === clients);
        clients += 1;
        client.setRequests(own.length > 0 ? own.map(download) : [upload(server)]);
      },
    };
    const download = (file: Stored): autocannon.Request => ({
      path: file.path,
      onResponse: (_status, body) => {
        if (!isFileText(body, file)) fail(`${file.path} came back with other bytes`);
      },
    });
    const instance = autocannon(options, (error) => (error ? reject(error) : resolve()));
    instance.on('start', () => {
      beganAt = performance.now();
      cpuBefore = cpuUsed().cpuSeconds;
    });
    instance.on('response', (_client, answered, _bytes, ms) => {
      if (!isExpected(answered)) fail(`the server answered ${answered}`);
      answeredAt = performance.now();
      times.push(ms);
      if (seconds !== undefined && answeredAt - beganAt >= seconds * 1000) instance.stop();
    });
    instance.on('reqError', (error) => fail(String(error)));
  });
  if (problem !== undefined) throw new Error(problem);
  times.sort((a, b) => a - b);
  return {
    requests: times.length,
    seconds: (answeredAt - beganAt) / 1000,
    cpuSeconds: cpuUsed().cpuSeconds - cpuBefore,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  };
}

const GATEWAY: UploadTarget = { method: 'POST', paths: ['/files'] };

let uploads = 0;
const body = Buffer.from(fileText(uploads));

/** The request is copied when it is made: one body serves them all. */
function upload({ headers, upload: target = GATEWAY }: Started): autocannon.Request {
  const { method, paths } = target;
  return {
    method,
    path: paths[0]!,
    headers: { 'content-type': FILE_TYPE, 'x-filename': 'photo.gif', ...headers },
    body,
    setupRequest: (request) => {
      uploads += 1;
      renumber(body, uploads);
      return paths.length === 1 ? request : { ...request, path: paths[uploads % paths.length]! };
    },
  };
}

serve({ run, store, pin } satisfies LoadHandlers, async () => {});

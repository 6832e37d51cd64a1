import { Agent } from 'node:http';
import autocannon from 'autocannon';
import { percentile } from '../harness/figures.js';
import { ask } from '../harness/http.js';
import { drive } from '../harness/load.js';
import { cpuUsed } from '../harness/process-cpu.js';
import {
  type Content,
  FILE_TYPE,
  fileText,
  isFileText,
  renumber,
  type Stored,
  type Target,
  UPLOAD_BYTES,
  type UploadTarget,
} from './content.js';

/**
 * The load: autocannon, over connections that are kept; each sends its next request when
 * the last one is answered. An answer that is not the one expected fails the benchmark.
 */

export interface LoadOptions {
  /** To download, each by one of the connections; none: uploads, each of other bytes. */
  readonly files: readonly Stored[];
  readonly connections: number;
  readonly seconds?: number | undefined;
  /** Without seconds: so many requests; default: each file once. */
  readonly requests?: number | undefined;
}

/** How often autocannon looks whether it is to end. */
const SAMPLE_MS = 10;
/** Until the first answer; every measurement has one. */
const MAX_SECONDS = 600;
const STORE_CONCURRENCY = 32;

export async function run(
  target: Target,
  { files, connections, seconds, requests = files.length }: LoadOptions,
) {
  const isExpected = (status: number) =>
    files.length > 0 ? status === 200 : status >= 200 && status < 300;
  const times: number[] = [];
  let problem: string | undefined;
  let [beganAt, answeredAt, clients, cpuBefore] = [0, 0, 0, 0];
  await new Promise<void>((resolve, reject) => {
    const fail = (why: string) => {
      problem ??= why;
      instance.stop();
    };
    const download = (file: Stored): autocannon.Request => ({
      path: file.path,
      onResponse: (_status, body) => {
        if (!isFileText(body, file)) fail(`${file.path} came back with other bytes`);
      },
    });
    const cannon = {
      url: `http://${target.host ?? '127.0.0.1'}:${target.port}`,
      connections,
      sampleInt: SAMPLE_MS,
      ...(seconds === undefined ? { amount: requests } : { duration: MAX_SECONDS }),
      skipAggregateResult: true,
      setupClient: (client: autocannon.Client) => {
        const own = files.filter((_, index) => index % connections === clients);
        clients += 1;
        client.setRequests(own.length > 0 ? own.map(download) : [upload(target)]);
      },
    };
    const instance = autocannon(cannon, (error) => (error ? reject(error) : resolve()));
    instance.on('start', () => {
      beganAt = performance.now();
      cpuBefore = cpuUsed();
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
    cpuSeconds: cpuUsed() - cpuBefore,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  };
}

const GATEWAY: UploadTarget = { method: 'POST', paths: ['/files'] };

let uploads = 0;
const body = Buffer.from(fileText({ number: uploads, bytes: UPLOAD_BYTES }));

/** The request is copied when it is made: one body serves them all. */
function upload({ headers, upload: target = GATEWAY }: Target): autocannon.Request {
  const { method, paths } = target;
  return {
    method,
    path: paths[0] ?? '/',
    headers: { 'content-type': FILE_TYPE, 'x-filename': 'photo.gif', ...headers },
    body,
    setupRequest: (made) => {
      uploads += 1;
      renumber(body, uploads);
      return paths.length === 1 ? made : { ...made, path: paths[uploads % paths.length] ?? '/' };
    },
  };
}

/** Where each is to go; without a path, the server's answer says where it is. */
export type Placed = Content & { readonly path?: string };

/** Files to be downloaded: the same ones to every server. */
export async function store(target: Target, files: readonly Placed[]): Promise<Stored[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: STORE_CONCURRENCY });
  const { headers, upload: { method } = GATEWAY, ...at } = target;
  const stored: Stored[] = [];
  const load = { operations: files.length, concurrency: STORE_CONCURRENCY };
  try {
    await drive(load, async (index) => {
      const file = files[index]!;
      const content = fileText(file);
      const about = { 'content-type': FILE_TYPE, 'content-length': String(content.length) };
      const answer = await ask(agent, {
        ...{ ...at, method, path: file.path ?? '/files', body: content },
        headers: { ...about, ...headers },
      });
      stored[index] = { ...file, path: file.path ?? `/files/${JSON.parse(String(answer)).key}` };
    });
  } finally {
    agent.destroy();
  }
  return stored;
}

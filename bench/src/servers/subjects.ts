import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeApiKey, writeKeyFile } from '@stevedore/gateway';
import { signedDownload } from '@stevedore/middleware/core';
import type { Closing } from '../harness/closing.js';
import { GatewayCommand } from '../harness/gateway-command.js';
import { cpuSecondsOf, familyOf, listenersOf } from '../harness/process-cpu.js';
import { start } from '../harness/processes.js';
import { openAdapter } from './adapters.js';
import type { Content, Stored, Target } from './content.js';
import type { NamedServer } from './kinds.js';
import type { Placed } from './load-process.js';

/** The servers that are asked over HTTP: those of our own making, and those that were named. */

export interface Subject {
  readonly name: string;
  readonly target: () => Target;
  /** With a place for each of so many uploads. */
  forUploads(count: number): Promise<Target>;
  /** Stores the files that are downloaded; resolves with where they are. */
  fill(files: readonly Content[], store: Store): Promise<readonly Stored[]>;
  /** What it has in memory goes, where that is not all it has; with so much room for files then. */
  restart(cacheBytes: number | undefined): Promise<void>;
  /** The process whose CPU is split by thread; 0 for none. */
  readonly pid: () => number;
  /** Resolves once it has no more to do, with less than a trunk waiting. */
  settled(): Promise<void>;
  /** Of all its processes; undefined where it is not known. */
  cpuSeconds(): number | undefined;
}

export type Store = (target: Target, files: readonly Placed[]) => Promise<Stored[]>;

/**
 * plain: node:http. gateway: as it is started. checked: every check on. one, two: so many processes.
 */
export type OwnName = 'plain' | 'gateway' | 'checked' | 'one' | 'two';

export interface OwnOptions {
  readonly directory: string;
  /** What is started is closed by it. */
  readonly closing: Closing;
  /** Nothing is downloaded. */
  readonly takesUploadsOnly: boolean;
  readonly isMerging: boolean;
}

export function startOwn(name: OwnName, options: OwnOptions): Promise<Subject> {
  return name === 'plain' ? startPlain(options) : startGateway(name, options);
}

function own(name: OwnName, target: () => Target, pid: () => number) {
  return {
    ...{ name, target, pid },
    forUploads: async () => target(),
    fill: (files: readonly Content[], store: Store) => store(target(), files),
    cpuSeconds: () => cpuSecondsOf(familyOf(pid())),
    restart: async () => {},
    settled: async () => {},
  };
}

async function startPlain({ directory, closing, takesUploadsOnly }: OwnOptions): Promise<Subject> {
  const child = closing.use(start('servers/plain'));
  const port = await child.call('start', directory, !takesUploadsOnly);
  return own(
    'plain',
    () => ({ port, headers: {} }),
    () => child.pid,
  );
}

/** Of the checks. */
const SECRET = 'the secret of the benchmark';
const SIGNED_MS = 86_400_000;
const POLICY = { maxFileSize: '1MiB', maxFiles: 10, types: ['image/*'], checkContent: true };
/** Nothing listens there: uploads are never merged beside what is measured. */
const LATER = {
  ...{ trackers: '127.0.0.1:9', logLevel: 'silent' },
  ...{ trunkSize: '2GiB', mergeMaxAge: '24h', containerSize: '200GiB' },
};

async function startGateway(
  name: Exclude<OwnName, 'plain'>,
  { directory, closing, takesUploadsOnly, isMerging }: OwnOptions,
): Promise<Subject> {
  const node = { trackerPort: 0, storagePort: 0, workers: name === 'two' ? 2 : 1 };
  const { trackers, ...keeping } = LATER;
  const merging = isMerging ? node : takesUploadsOnly ? LATER : { ...node, ...keeping };
  const { headers, ...checks } = name === 'checked' ? await addChecks(directory) : { headers: {} };
  const options: Record<string, string | number> = { ...merging, ...checks };
  const spawn = async () => {
    const about = { directory: join(directory, 'data'), options };
    return closing.use(await GatewayCommand.start(about));
  };
  let command = await spawn();
  const subject = own(
    name,
    () => ({ port: command.port, headers }),
    () => command.pid,
  );
  const until = new Date(Date.now() + SIGNED_MS);
  const signed = (file: Stored) => {
    const path = signedDownload(SECRET, file.path.slice('/files/'.length), until);
    return { ...file, path };
  };
  return {
    ...subject,
    settled: () => (isMerging ? settled(command.port) : Promise.resolve()),
    async fill(files, store) {
      const stored = await subject.fill(files, store);
      return name === 'checked' ? stored.map(signed) : stored;
    },
    async restart(cacheBytes) {
      await command[Symbol.asyncDispose]();
      if (cacheBytes !== undefined) options.cacheSize = `${cacheBytes}B`;
      command = await spawn();
    },
  };
}

const POLL_MS = 250;
/** Nothing changes for so long. */
const POLLS = 5;
const MAX_POLLS = 480;

async function settled(port: number): Promise<void> {
  let last = '';
  for (let polls = 0, same = 0; same < POLLS; polls += 1) {
    if (polls > MAX_POLLS) throw new Error('the gateway does not store what it has');
    await sleep(POLL_MS);
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const [staged = ''] = /^stevedore_staged_bytes \d+/m.exec(metrics) ?? [];
    const isIdle = /^stevedore_trunks_in_flight 0$/m.test(metrics);
    same = isIdle && staged === last ? same + 1 : 0;
    last = staged;
  }
}

/** An API key with a rate and a quota, a policy with types and first bytes, signed URLs. */
async function addChecks(directory: string) {
  await mkdir(directory, { recursive: true });
  const about = { name: 'bench', scopes: ['write'] as const, requestsPerSecond: 1e6 };
  const { key, text } = makeApiKey({ ...about, bytesPerDay: 1e15 }, new Date());
  const apiKeys = join(directory, 'keys.json');
  const policies = join(directory, 'policies.json');
  await writeKeyFile(apiKeys, [key]);
  await writeFile(policies, JSON.stringify({ default: POLICY }));
  return { headers: { authorization: `Bearer ${text}` }, apiKeys, policies, urlSecret: SECRET };
}

/** None for one that is not asked over HTTP. */
export function openNamed(named: NamedServer): readonly Subject[] {
  const adapter = openAdapter(named);
  if (!adapter) return [];
  const { method } = adapter;
  const target = () => adapter.target;
  return [
    {
      ...{ name: named.kind, target, pid: () => 0 },
      ...{ restart: async () => {}, settled: async () => {} },
      async forUploads(count) {
        const paths = (await adapter.places(count)).map(({ put }) => put);
        return { ...target(), upload: { method, paths } };
      },
      async fill(contents, store) {
        const places = await adapter.places(contents.length);
        const at = (which: 'put' | 'get') => (file: Content, index: number) => ({
          ...{ ...file, path: places[index]?.[which] ?? '' },
        });
        const upload = { method, paths: [] };
        const stored = await store({ ...target(), upload }, contents.map(at('put')));
        return stored.map(at('get'));
      },
      cpuSeconds: () => cpuSecondsOf(listenersOf(target().host ?? '', target().port)),
    },
  ];
}

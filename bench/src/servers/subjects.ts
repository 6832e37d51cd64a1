import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeApiKey, writeKeyFile } from '@stevedore/gateway';
import { signedDownload } from '@stevedore/middleware/core';
import { Child } from '../harness/child.js';
import { GatewayCommand } from '../harness/gateway-command.js';
import { cpuSecondsOf, familyOf, listenersOf } from '../harness/process-cpu.js';
import type { Workspace } from '../harness/workspace.js';
import { type Adapter, openAdapter } from './adapters.js';
import type { Content, Stored, Target } from './content.js';
import type { NamedServer } from './kinds.js';
import type { StoreOptions } from './load-process.js';
import type { PlainHandlers } from './plain-process.js';

/** The servers that are asked over HTTP: those of our own making, and those that were named. */

export interface Subject extends AsyncDisposable {
  readonly name: string;
  /** With a place for each of so many uploads. */
  forUploads(count: number): Promise<Target>;
  /** Stores the files that are downloaded. */
  fill(files: readonly Content[], store: Store): Promise<void>;
  readonly files: readonly Stored[];
  readonly target: Target;
  /** What it has in memory goes, where that is not all it has; with so much room for files then. */
  restart(cacheBytes: number | undefined): Promise<void>;
  /** Id of the process whose CPU is split by thread; 0 for none. */
  readonly pid: number;
  /** Of all its processes; undefined where it is not known. */
  cpuSeconds(): number | undefined;
}

export type Store = (options: StoreOptions) => Promise<Stored[]>;

/**
 * plain: node:http. gateway: as it is started. checked: every check on. one, two: so many processes.
 */
export type OwnName = 'plain' | 'gateway' | 'checked' | 'one' | 'two';

export interface OwnOptions {
  /** Nothing is downloaded. */
  readonly takesUploadsOnly: boolean;
  /** All of it on the first core. */
  readonly isPinned: boolean;
}

export async function startOwn(
  name: OwnName,
  workspace: Workspace,
  options: OwnOptions,
): Promise<Subject> {
  const directory = workspace.fresh(name);
  const own = name === 'plain' ? new Plain(directory) : new Gateway(name, directory);
  try {
    await own.start(options);
    return own;
  } catch (error) {
    await own[Symbol.asyncDispose]();
    throw error;
  }
}

abstract class Own {
  abstract readonly name: string;
  abstract readonly target: Target;
  files: readonly Stored[] = [];

  async forUploads(): Promise<Target> {
    return this.target;
  }

  async fill(files: readonly Content[], store: Store): Promise<void> {
    this.files = await store({ target: this.target, files });
  }
}

class Plain extends Own implements Subject {
  readonly name = 'plain';
  readonly #directory: string;
  readonly #child = new Child<PlainHandlers>(new URL('./plain-process.js', import.meta.url));
  target: Target = { port: 0, headers: {} };

  constructor(directory: string) {
    super();
    this.#directory = directory;
  }

  async start({ takesUploadsOnly }: OwnOptions): Promise<void> {
    const options = { directory: this.#directory, keeps: !takesUploadsOnly };
    this.target = { port: await this.#child.call('start', options), headers: {} };
  }

  async restart(): Promise<void> {}

  get pid(): number {
    return this.#child.pid;
  }

  cpuSeconds(): number | undefined {
    return cpuSecondsOf([this.pid]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }
}

/** Of the checks. */
const SECRET = 'the secret of the benchmark';
const SIGNED_MS = 86_400_000;
const POLICY = { maxFileSize: '1MiB', maxFiles: 10, types: ['image/*'], checkContent: true };
/** Nothing listens there: uploads are never merged beside what is measured. */
const NO_TRACKER = '127.0.0.1:9';

class Gateway extends Own implements Subject {
  readonly name: Exclude<OwnName, 'plain'>;
  readonly #directory: string;
  #options: Record<string, string | number> = {};
  #core: number | undefined;
  #headers: Readonly<Record<string, string>> = {};
  #command: GatewayCommand | undefined;

  constructor(name: Gateway['name'], directory: string) {
    super();
    this.name = name;
    this.#directory = directory;
  }

  async start({ takesUploadsOnly, isPinned }: OwnOptions): Promise<void> {
    const node = takesUploadsOnly
      ? { trackers: NO_TRACKER }
      : { trackerPort: 0, storagePort: 0, workers: this.name === 'two' ? 2 : 1 };
    this.#options = { ...node, trunkSize: '2GiB', mergeMaxAge: '24h', containerSize: '200GiB' };
    this.#options.logLevel = 'silent';
    this.#core = isPinned ? 0 : undefined;
    if (this.name === 'checked') await this.#addChecks();
    await this.#spawn();
  }

  get target(): Target {
    return { port: this.#command?.port ?? 0, headers: this.#headers };
  }

  override async fill(files: readonly Content[], store: Store): Promise<void> {
    await super.fill(files, store);
    if (this.name !== 'checked') return;
    const until = new Date(Date.now() + SIGNED_MS);
    this.files = this.files.map((file) => {
      const key = file.path.slice('/files/'.length);
      return { ...file, path: signedDownload(SECRET, key, until) };
    });
  }

  async restart(cacheBytes: number | undefined): Promise<void> {
    await this.#command?.[Symbol.asyncDispose]();
    if (cacheBytes !== undefined) this.#options.cacheSize = `${cacheBytes}B`;
    await this.#spawn();
  }

  get pid(): number {
    return this.#command?.pid ?? 0;
  }

  cpuSeconds(): number | undefined {
    return cpuSecondsOf(familyOf(this.pid));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#command?.[Symbol.asyncDispose]();
  }

  async #spawn(): Promise<void> {
    const directory = join(this.#directory, 'data');
    const options = { directory, options: this.#options, core: this.#core };
    this.#command = await GatewayCommand.start(options);
  }

  /** An API key with a rate and a quota, a policy with types and first bytes, signed URLs. */
  async #addChecks(): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    const about = { name: 'bench', scopes: ['write'] as const, requestsPerSecond: 1e6 };
    const { key, text } = makeApiKey({ ...about, bytesPerDay: 1e15 }, new Date());
    const apiKeys = join(this.#directory, 'keys.json');
    const policies = join(this.#directory, 'policies.json');
    await writeKeyFile(apiKeys, [key]);
    await writeFile(policies, JSON.stringify({ default: POLICY }));
    this.#headers = { authorization: `Bearer ${text}` };
    Object.assign(this.#options, { apiKeys, policies, urlSecret: SECRET });
  }
}

/** None for one that is not asked over HTTP. */
export function openNamed(named: NamedServer): readonly Subject[] {
  const adapter = openAdapter(named);
  return adapter ? [new Named(named.kind, adapter)] : [];
}

class Named implements Subject {
  readonly name: string;
  readonly pid = 0;
  readonly #adapter: Adapter;
  files: readonly Stored[] = [];

  constructor(name: string, adapter: Adapter) {
    this.name = name;
    this.#adapter = adapter;
  }

  get target(): Target {
    return this.#adapter.target;
  }

  async forUploads(count: number): Promise<Target> {
    const paths = (await this.#adapter.places(count)).map(({ put }) => put);
    return { ...this.target, upload: { method: this.#adapter.method, paths } };
  }

  async fill(contents: readonly Content[], store: Store): Promise<void> {
    const places = await this.#adapter.places(contents.length);
    const upload = { method: this.#adapter.method, paths: [] };
    const files = contents.map((file, index) => ({ ...file, path: places[index]?.put ?? '' }));
    const stored = await store({ target: { ...this.target, upload }, files });
    this.files = stored.map((file, index) => ({ ...file, path: places[index]?.get ?? '' }));
  }

  async restart(): Promise<void> {}

  cpuSeconds(): number | undefined {
    const { host = '', port } = this.target;
    return cpuSecondsOf(listenersOf(host, port));
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

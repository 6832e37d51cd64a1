import type { Started, Stored } from '../gateway/server.js';
import { ServerUnderTest } from '../gateway/server-under-test.js';
import type { Workspace } from '../harness/workspace.js';
import { type Adapter, openAdapter, type Place } from './adapters.js';
import type { NamedServer } from './kinds.js';
import { acknowledges } from './kinds.js';
import { cpuSecondsOf, listenersOf } from './listener-cpu.js';
import { cacheBytesFor, filesOf } from './plan.js';

/** The servers that are asked over HTTP: two of our own making, and those that were named. */

export interface Subject {
  readonly name: string;
  readonly acknowledges: string;
  /** For the load; with a place for each of so many uploads. */
  forUploads(count: number): Promise<Started>;
  /** Stores the files that are downloaded. */
  fill(count: number, store: Store): Promise<void>;
  readonly files: readonly Stored[];
  /** For downloads. */
  readonly server: Started;
  /** With a cache that has room for a tenth of the files, where there is one to be set. */
  shrinkCache(): Promise<void>;
  /** Undefined where it is not known. */
  cpuSeconds(): Promise<number | undefined>;
}

export type Store = (
  server: Started,
  files: readonly (Omit<Stored, 'path'> & { readonly path?: string })[],
) => Promise<Stored[]>;

const OURS = 'on the disk, all that arrive together by one sync';

export async function startOwn(
  name: 'plain' | 'gateway',
  workspace: Workspace,
): Promise<Subject & AsyncDisposable> {
  const own = new ServerUnderTest(name, workspace);
  await own.start();
  let files: readonly Stored[] = [];
  return {
    name,
    acknowledges: OURS,
    forUploads: async () => own.started,
    async fill(count, store) {
      files = await store(own.started, filesOf(count));
    },
    get files() {
      return files;
    },
    get server() {
      return own.started;
    },
    shrinkCache: () => own.restart(cacheBytesFor(files.length)),
    cpuSeconds: () => own.cpuSeconds(),
    [Symbol.asyncDispose]: () => own[Symbol.asyncDispose](),
  };
}

/** Undefined for those that are not asked over HTTP. */
export function openNamed(named: NamedServer): Subject | undefined {
  const adapter = openAdapter(named);
  return adapter && new NamedSubject(named, adapter);
}

class NamedSubject implements Subject {
  readonly name: string;
  readonly acknowledges: string;
  readonly #adapter: Adapter;
  files: readonly Stored[] = [];

  constructor(named: NamedServer, adapter: Adapter) {
    this.name = named.kind;
    this.acknowledges = acknowledges(named);
    this.#adapter = adapter;
  }

  get server(): Started {
    return this.#adapter.server;
  }

  async forUploads(count: number): Promise<Started> {
    const paths = (await this.#adapter.places(count)).map(({ put }) => put);
    return { ...this.server, upload: { method: this.#adapter.method, paths } };
  }

  async fill(count: number, store: Store): Promise<void> {
    const places: readonly Place[] = await this.#adapter.places(count);
    const target = { method: this.#adapter.method, paths: [] };
    const files = filesOf(count).map((file, index) => ({ ...file, path: places[index]!.put }));
    const stored = await store({ ...this.server, upload: target }, files);
    this.files = stored.map((file, index) => ({ ...file, path: places[index]!.get }));
  }

  async shrinkCache(): Promise<void> {}

  async cpuSeconds(): Promise<number | undefined> {
    const { host = '', port } = this.server;
    return cpuSecondsOf(listenersOf(host, port));
  }
}

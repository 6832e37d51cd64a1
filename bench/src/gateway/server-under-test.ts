import { Child } from '../harness/child.js';
import type { Workspace } from '../harness/workspace.js';
import type { Variant } from './plan.js';
import type { ServerHandlers, Started, Stored } from './server.js';

/** The parent's end of a server that is measured, in a process and a directory of its own. */
export class ServerUnderTest implements AsyncDisposable {
  readonly variant: Variant;
  readonly #workspace: Workspace;
  readonly #directory: string;
  #process: Child<ServerHandlers>;
  #started: Started | undefined;

  constructor(variant: Variant, workspace: Workspace) {
    this.variant = variant;
    this.#workspace = workspace;
    this.#directory = workspace.fresh(variant);
    this.#process = this.#newProcess();
  }

  async start(): Promise<void> {
    const checked = this.variant === 'checked';
    this.#started = await this.#process.call('start', { directory: this.#directory, checked });
  }

  /** What a process has in memory goes; the bare app, which has nothing else, goes on. */
  async restart(): Promise<void> {
    if (this.variant === 'bare') return;
    await this.#process[Symbol.asyncDispose]();
    this.#process = this.#newProcess();
    await this.start();
  }

  /** For the load. */
  get started(): Started {
    return this.#started!;
  }

  store(count: number): Promise<Stored[]> {
    return this.#process.call('store', count);
  }

  readBytes(): Promise<number | undefined> {
    return this.#process.call('readBytes', undefined);
  }

  cpuSeconds(): Promise<number> {
    return this.#process.cpuSeconds();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
    await this.#workspace.remove(this.#directory);
  }

  #newProcess(): Child<ServerHandlers> {
    const module = this.variant === 'bare' ? './bare-process.js' : './gateway-process.js';
    return new Child(this.variant, new URL(module, import.meta.url));
  }
}

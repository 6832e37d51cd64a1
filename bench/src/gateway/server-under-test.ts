import { AS_THE_COMMAND, Child } from '../harness/child.js';
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

  async start(cacheBytes?: number): Promise<void> {
    const checked = this.variant === 'checked';
    const options = { directory: this.#directory, checked, cacheBytes };
    this.#started = await this.#process.call('start', options);
  }

  /** What a process has in memory goes; those which have nothing else go on. */
  async restart(cacheBytes?: number): Promise<void> {
    if (this.variant === 'bare' || this.variant === 'plain') return;
    await this.#process[Symbol.asyncDispose]();
    this.#process = this.#newProcess();
    await this.start(cacheBytes);
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
    const own = this.variant === 'checked' ? 'gateway' : this.variant;
    const module = new URL(`./${own}-process.js`, import.meta.url);
    return new Child(this.variant, module, own === 'gateway' ? AS_THE_COMMAND : {});
  }
}

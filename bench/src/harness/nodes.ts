import { join } from 'node:path';
import { Child, type ChildOptions } from './child.js';

/** The parent's end of trackers and storages in a process of their own. */
export class Nodes extends Child<typeof import('./nodes-process.js')> {
  constructor(options?: ChildOptions) {
    super(new URL('./nodes-process.js', import.meta.url), options);
  }

  /** A tracker and so many storages of one group, a directory each; the tracker's address. */
  async cluster(directory: string, count = 1): Promise<string> {
    const tracker = await this.call('tracker');
    let port = 0;
    for (let index = 1; index <= count; index += 1) {
      // Members of a group have addresses of their own and one port.
      const address = { host: `127.0.0.${index}`, port };
      const storePaths = [join(directory, String(index))];
      port = await this.call('storage', { ...address, storePaths, trackers: [tracker] });
    }
    return tracker;
  }
}

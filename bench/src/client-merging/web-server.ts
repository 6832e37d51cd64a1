import { Child } from '../harness/child.js';
import { type Files, SEED } from './plan.js';
import type { TargetChoice, WebServerHandlers } from './web-server-process.js';

/** The parent's end of the measured process. */
export class WebServer extends Child<WebServerHandlers> {
  constructor() {
    super(new URL('./web-server-process.js', import.meta.url));
  }

  /** Makes its files; they are the same for all variants. */
  prepare(files: Files, totalBytes: number): Promise<void> {
    return this.call('prepare', { ...files, seed: SEED, totalBytes });
  }

  open(choice: TargetChoice): Promise<void> {
    return this.call('open', choice);
  }
}

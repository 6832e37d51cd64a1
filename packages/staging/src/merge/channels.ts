import { tracingChannel } from 'node:diagnostics_channel';

/** What staging tells `node:diagnostics_channel`: each attempt to store a trunk. */

interface MergeMessage {
  readonly taskId: string;
  /** `whole` for a large file that goes by itself. */
  readonly kind: 'trunk' | 'whole';
  readonly files: number;
  readonly bytes: number;
}

export const mergeChannel = tracingChannel<unknown, MergeMessage>('stevedore.merge');

import { tracingChannel } from 'node:diagnostics_channel';

/** What staging tells `node:diagnostics_channel`: each attempt to store a trunk. */

export interface MergeMessage {
  readonly taskId: string;
  /** `whole` for a large file that goes by itself. */
  readonly kind: 'trunk' | 'whole';
  readonly files: number;
  readonly bytes: number;
}

export const MERGE_CHANNEL = 'stevedore.merge';

export const mergeChannel = tracingChannel<unknown, MergeMessage>(MERGE_CHANNEL);

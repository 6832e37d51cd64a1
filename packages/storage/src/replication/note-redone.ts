import { hexByte } from '@stevedore/protocol';
import { type Environment, nowSeconds } from '@stevedore/wire';
import type { RedoneChange } from '../files/change-recovery.js';
import type { StorePath } from '../files/store-path.js';
import type { Binlog } from './binlog.js';
import type { LogRecord } from './log-record.js';

/**
 * What a start has carried through of changes that a crash interrupted is noted once
 * more: a sender that follows the log may have looked at the file before.
 */
export async function noteRedone(
  log: Binlog,
  storePaths: readonly StorePath[],
  environment: Environment,
): Promise<void> {
  const atSeconds = nowSeconds(environment);
  const notes = storePaths.flatMap(({ journal }, index) =>
    journal.redone.map((redone) => ({
      atSeconds,
      own: true,
      ...noteOf(redone, `M${hexByte(index)}/`),
    })),
  );
  await Promise.all(notes.map((note) => log.append(note)));
}

function noteOf(
  { change, bytes }: RedoneChange,
  prefix: string,
): Pick<LogRecord, 'operation' | 'name' | 'extra'> {
  const name = prefix + change.path;
  switch (change.what) {
    case 'move':
      return { operation: 'R', name: prefix + change.to, extra: name };
    case 'write':
      return bytes > 0
        ? { operation: 'M', name, extra: `${change.offset} ${bytes}` }
        : { operation: 'T', name, extra: `${change.offset} ${change.size}` };
    default:
      return { operation: 'D', name, extra: '' };
  }
}

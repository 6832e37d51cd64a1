import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '@stevedore/disk/sqlite';

/**
 * The thread of checkpoints.ts. Each message asks for the log to be written back
 * as far as that can be done without waiting for anybody; `end` ends the thread.
 */

const database = openDatabase(workerData as string);
database.pragma('synchronous = NORMAL');

parentPort!.on('message', (message: unknown) => {
  if (message !== 'end') {
    database.pragma('wal_checkpoint(PASSIVE)');
    return;
  }
  database.close();
  parentPort!.close();
});

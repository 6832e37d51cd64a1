import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '@stevedore/disk/sqlite';

/**
 * The checkpoint thread of filemap.ts. Each message asks for as much of the log (WAL) to be
 * checkpointed as is possible without waiting; `end` ends the thread.
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

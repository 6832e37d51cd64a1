import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '@stevedore/disk/sqlite';

/**
 * The thread that filemap.ts starts. Each message asks it to write the log back as far as that
 * is possible without waiting; `end` ends the thread.
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

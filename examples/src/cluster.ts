// Run: npm start -- --cluster --bandwidth 2MiB --cache-size 0    (it says where the tracker is)
//      npm run cluster -- TRACKER                                (in examples/, in another terminal)
//
// What the metadata servers of a cluster do about load: clients read hot small files of group1, and
// then a burst of metadata comes. group1 moves files to group2 and group3 until its disk has time
// for the burst. A disk of 2 MiB/s without a cache is soon busy; yours would take more clients.
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { askMigration, type MigrationStatus } from '@stevedore/tiering/control';

const [tracker, seconds = '12'] = process.argv.slice(2);
if (tracker === undefined) throw new Error('name the tracker: npm run cluster -- 127.0.0.1:PORT');
const STEPS = Number(seconds);
const FILES = 200;
const READERS = 8;
const WRITERS = 8;
const body = Buffer.alloc(16 * 1024, 'small');

await using client = new FastdfsClient({ trackers: [tracker], followMoves: true });
const [server] = await client.listStorages('group1');
if (!server) throw new Error(`${tracker} knows no storage of group1`);
const status = () => askMigration(`${server.address}:${server.storagePort}`, 'status');

console.log(`storing ${FILES} small files of 16 KiB in group1`);
const ids: string[] = [];
while (ids.length < FILES) ids.push(await client.upload(body, { group: 'group1' }));
const start = await status();

let isOver = false;
/** Answers of this second. */
const answers = { reads: 0, changes: 0 };

/** One request after the other. A storage that is too busy says so, and is asked again. */
async function loop(kind: keyof typeof answers, request: (id: string) => Promise<unknown>) {
  while (!isOver) {
    try {
      await request(ids[Math.floor(Math.random() ** 2 * ids.length)]!);
      answers[kind] += 1;
    } catch (error) {
      if (!(error instanceof FastdfsError && error.code === 'busy')) throw error;
    }
  }
}

/** One line each second; resolves with the answers in each of them. */
async function watch(what: string) {
  const rates: (typeof answers)[] = [];
  for (let second = 1; second <= STEPS; second += 1) {
    Object.assign(answers, { reads: 0, changes: 0 });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    rates.push({ ...answers });
    const { load, capacityBytes, thresholdBytes, moves, remote, rows } = await status();
    const share = (bytes: number) => `${Math.round((100 * bytes) / capacityBytes)} %`;
    console.log(
      [
        `${what} ${String(second).padStart(2)} s`,
        `small files ${share(load.smallFile.servedBytes)} (forecast ${share(load.smallFile.forecastBytes)})`,
        `metadata ${share(load.metadata.servedBytes)} (forecast ${share(load.metadata.forecastBytes)})`,
        `threshold ${Math.round(thresholdBytes / 1024)} KiB`,
        `${moves.moved} moves, ${rows.files} rows here, ${remote.files} elsewhere`,
        `${rates.at(-1)!.reads} reads, ${rates.at(-1)!.changes} changes of metadata`,
      ].join('; '),
    );
  }
  return rates;
}

const loops = Array.from({ length: READERS }, () =>
  loop('reads', (id) => client.downloadBytes(id)),
);
await watch('hot files');
loops.push(
  ...Array.from({ length: WRITERS }, (_, n) =>
    loop('changes', (id) => client.setMetadata(id, { n: String(n) })),
  ),
);
const rates = await watch('burst    ');
isOver = true;
await Promise.all(loops);
report(await status());

function report(end: MigrationStatus): void {
  const moved = end.moves.moved - start.moves.moved;
  const kib = Math.round((end.movedBytes - start.movedBytes) / 1024);
  const each = (kind: keyof typeof answers) => rates.map((rate) => rate[kind]).join(', ');
  console.log(
    `moved: ${moved} files, ${kib} KiB; ${end.remote.files} are in other storage groups now`,
  );
  console.log(`relieved: reads in each second of the burst: ${each('reads')}`);
  console.log(`answers to the burst in each second: ${each('changes')}`);
}

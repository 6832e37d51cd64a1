// Run: npm start -- --cluster --slow-disk 8ms --cache-size 0    (it says where the tracker is)
//      npm run cluster -- TRACKER                               (in examples/, in another terminal)
//
// What the metadata servers of a cluster do about load. A client's small files are rows beside their
// metadata. Then clients read those of group1 while a burst of metadata comes: once with moves paused,
// and once as usual, when group1 moves files to group2 and group3. Each storage has a modelled hard
// disk with a seek of 8 ms.
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { askMigration, type MigrationAction } from '@stevedore/tiering/control';

const [tracker, seconds = '12'] = process.argv.slice(2);
if (!tracker) throw new Error('name the tracker: npm run cluster -- 127.0.0.1:PORT');
const STEPS = Number(seconds);
const FILES = 300;
const READERS = 8;
const WRITERS = 4;
const UPLOADS_AT_ONCE = 16;
const body = Buffer.alloc(16 * 1024, 'small');

await using client = new FastdfsClient({ trackers: [tracker] });
const [server] = await client.listStorages('group1');
if (!server) throw new Error(`${tracker} knows no storage of group1`);
const migrate = (action: MigrationAction) =>
  askMigration(`${server.address}:${server.storagePort}`, action);

console.log(`uploading ${FILES} files of 16 KiB`);
const upload = () => client.upload(body);
const all: string[] = [];
while (all.length < FILES) {
  all.push(...(await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, upload))));
}
const hot = all.filter((fileId) => fileId.startsWith('group1/'));
const { rows } = await migrate('status');
console.log(`${hot.length} are in group1, which has ${rows.files} rows`);

/** Requests answered. */
interface Answers {
  reads: number;
  changes: number;
}

/** Each loop sends one request after the other. A storage that is too busy is asked again. */
async function burst(what: string): Promise<Answers> {
  const answers = { reads: 0, changes: 0 };
  let isOver = false;
  const loop = async (kind: keyof Answers, request: (fileId: string) => Promise<unknown>) => {
    while (!isOver) {
      const file = hot[Math.floor(Math.random() ** 2 * hot.length)]!;
      if (await request(file)) answers[kind] += 1;
    }
  };
  const unlessBusy = (request: Promise<unknown>) =>
    request.then(
      () => true,
      (error: unknown) => {
        if (error instanceof FastdfsError && error.code === 'busy') return false;
        throw error;
      },
    );
  const read = (fileId: string) => unlessBusy(client.downloadBytes(fileId));
  const change = (fileId: string) =>
    unlessBusy(client.setMetadata(fileId, { turn: String(answers.changes) }));
  const loops = [
    ...Array.from({ length: READERS }, () => loop('reads', read)),
    ...Array.from({ length: WRITERS }, () => loop('changes', change)),
  ];
  for (let second = 1; second <= STEPS; second += 1) {
    const before = { ...answers };
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const { load, capacityBytes, moves, remote, rows: here } = await migrate('status');
    const share = (bytes: number) => `${Math.round((100 * bytes) / capacityBytes)} %`;
    const both = ({ loadBytes, forecastBytes }: (typeof load)['metadata']) =>
      `${share(loadBytes)} (next ${share(forecastBytes)})`;
    console.log(
      [
        `${what} ${String(second).padStart(2)} s`,
        `load of small files ${both(load.smallFile)}, of metadata ${both(load.metadata)}`,
        `${moves.moved} moves, ${here.files} rows here, ${remote.files} elsewhere`,
        `${answers.reads - before.reads} reads, ${answers.changes - before.changes} changes of metadata`,
      ].join('; '),
    );
  }
  isOver = true;
  await Promise.all(loops);
  return answers;
}

await migrate('pause');
const paused = await burst('paused');
await migrate('resume');
const moving = await burst('moving');
const { moves, remote } = await migrate('status');
const rate = (count: number) => (count / STEPS).toFixed(1);
console.log(`${moves.moved} moves; ${remote.files} files are in other storage groups now`);
console.log(`reads a second: ${rate(moving.reads)}, with moves paused ${rate(paused.reads)}`);
console.log(
  `changes of metadata a second: ${rate(moving.changes)}, with moves paused ${rate(paused.changes)}`,
);

import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { DrillDeployment, type DrillGateway } from '../support/drill/deployment.js';
import { DrillLedger, digestOf, type Entry } from '../support/drill/ledger.js';
import { DrillLoad } from '../support/drill/load.js';
import { DrillReport } from '../support/drill/report.js';
import { Random } from '../support/random.js';

/**
 * A deployment under steady load, in which one thing after the other happens that operators do or
 * suffer. Nothing acknowledged is lost, altered, denied or comes back; hardly a request is refused,
 * and each that is works when it is repeated as the answer says. STEVEDORE_TEST_DRILL_MINUTES says
 * for how long (each event happens once at least), STEVEDORE_TEST_SEED which events.
 */

const MINUTES = Number(process.env.STEVEDORE_TEST_DRILL_MINUTES ?? 3);
const SEED = Number(process.env.STEVEDORE_TEST_SEED ?? Math.floor(Math.random() * 2 ** 32));
const PER_SECOND = 50;
const LEAST_PER_SECOND = 10;
/** From this length on, the shares of refused requests are judged, too. */
const FULL_MINUTES = 60;
/** After a second on a machine that does nothing else; in minutes it does, and a process may starve. */
const GONE_MS = MINUTES < FULL_MINUTES ? 10_000 : 2_000;
const WORKERS = [1, 2, 1, 2];
/** Of the requests of a kind, while nothing is away, and overall. */
const MOST_REFUSED = 0.001;
const MOST_REFUSED_OVERALL = 0.01;
const LANES = 16;
/** Before the first event. */
const FIRST_FILES = 200;
/** Younger files are not merged yet; older ones are, or are at the partner. */
const STAGED_MS = 10_000;
const MERGED_MS = 40_000;
const VERIFY_LIMIT_MS = 60_000;
/** Deleted files to read at every gateway after each event. */
const MOST_DELETED = 200;

interface Drill {
  readonly deployment: DrillDeployment;
  readonly ledger: DrillLedger;
  readonly report: DrillReport;
  readonly random: Random;
}

/** `isOutage`: something is away meanwhile, and requests may be refused as long as it is. */
interface DrillEvent {
  readonly isOutage: boolean;
  readonly run: (drill: Drill) => Promise<void>;
}

const isOutage = true;

const EVENTS: Readonly<Record<string, DrillEvent>> = {
  'rolling restart': {
    isOutage: false,
    run: async (drill) => {
      for (const gateway of drill.deployment.gateways) await restart(drill, gateway);
    },
  },
  'gateway added': {
    isOutage: false,
    run: async ({ deployment, random }) => void (await deployment.add(1 + random.below(2))),
  },
  'gateway removed': {
    isOutage: false,
    run: (drill) =>
      takeOut(drill, async (_, origins) => {
        excuse(drill, origins);
        for (const origin of origins) await drill.deployment.adopt(origin);
      }),
  },
  'gateway drained': {
    isOutage: false,
    run: (drill) => takeOut(drill, (gateway) => drill.deployment.drain(gateway)),
  },
  'started at another map': {
    isOutage: false,
    run: async ({ deployment, random, report }) => {
      const gateway = random.pick(deployment.gateways);
      await report.restart(async () => {
        await gateway.daemon.stop();
        expect(await deployment.startAtAnotherMap(gateway)).toMatch(/map/);
        await deployment.startAgain(gateway);
      });
    },
  },
  'gateway killed': {
    isOutage,
    run: async ({ deployment, random }) => {
      const gateway = random.pick(deployment.gateways);
      await deployment.kill(gateway);
      await sleep(random.below(4_000));
      await deployment.startAgain(gateway);
    },
  },
  'gateway away for long': {
    isOutage,
    run: async (drill) => {
      const { deployment, ledger, random } = drill;
      const gateway = random.pick(deployment.gateways);
      const origins = deployment.origins(gateway);
      await deployment.kill(gateway);
      deployment.drop(gateway);
      // They are away with it, and there again with it.
      const alone = aloneAt(ledger, origins);
      for (const entry of alone) entry.state = 'excused';
      await deployment.adopted(origins);
      await verifyOrigins(drill, origins);
      await deployment.bringBack(gateway);
      await deployment.returned(gateway, origins);
      for (const entry of alone) entry.state = 'there';
      await verifyOrigins(drill, origins);
    },
  },
  'gateway lost': { isOutage, run: (drill) => lose(drill, 1) },
  'gateway with workers lost': { isOutage, run: (drill) => lose(drill, 2) },
  'partner changed': {
    isOutage: false,
    run: async (drill) => {
      const { deployment, random } = drill;
      const gateway = random.pick(deployment.gateways);
      const others = deployment.gateways.filter((each) => each !== gateway);
      gateway.partner = random.pick(['', ...others.map(({ peerUrl }) => peerUrl)]);
      await restart(drill, gateway);
    },
  },
  'storage restarted': {
    isOutage,
    run: async ({ deployment, random }) => {
      const storage = random.pick(deployment.storages);
      await (random.next() < 0.5 ? storage.stop() : storage.kill());
      await sleep(random.below(3_000));
      storage.start();
      await storage.ready();
    },
  },
  // The others do not reach it, and it reaches them, the map and its clients.
  'half partition': {
    isOutage,
    run: async ({ deployment, random }) => {
      const { link } = random.pick(deployment.gateways);
      link.set(random.pick(['stalled', 'dropped']));
      await sleep(random.below(20_000));
      link.set('open');
    },
  },
  'map away': {
    isOutage,
    run: ({ deployment, random }) =>
      deployment.map.away(1_000 + random.below(4_000), random.next() < 0.5),
  },
  'map away under put': {
    isOutage,
    run: async ({ deployment, random, ledger, report }) => {
      const awayMs = MINUTES < FULL_MINUTES ? 5_000 : 60_000;
      const put = { isOver: false };
      const away = deployment.map.away(awayMs, random.next() < 0.5);
      const ended = away.finally(() => {
        put.isOver = true;
      });
      while (!put.isOver) {
        const contents = Array.from({ length: 10 }, () => Buffer.from(`${random.next()}`));
        const receipts = await deployment.put(random.pick(deployment.gateways), contents);
        for (const [n, { key, copies }] of receipts.entries())
          ledger.add(key, contents[n]!, copies);
        report.putWithoutMap += receipts.length;
      }
      await ended;
    },
  },
};

/** What these machines acknowledged with one copy, and is not in FastDFS yet. */
function aloneAt(ledger: DrillLedger, origins: readonly number[]): readonly Entry[] {
  const since = performance.now() - MERGED_MS;
  return ledger.entries.filter(
    ({ copies, acknowledgedAt, origin, state }) =>
      copies === 1 && acknowledgedAt > since && origins.includes(origin) && state === 'there',
  );
}

/** Of machines that are gone. */
function excuse({ ledger, report }: Drill, origins: readonly number[]): void {
  for (const entry of aloneAt(ledger, origins)) {
    entry.state = 'excused';
    report.excused += 1;
  }
}

async function restart({ deployment, report }: Drill, gateway: DrillGateway): Promise<void> {
  await report.restart(async () => {
    await gateway.daemon.stop();
    await deployment.startAgain(gateway);
  });
}

/** Stopped for good; `handOver` gives its files to another one, and a new one takes its place. */
async function takeOut(
  drill: Drill,
  handOver: (gateway: DrillGateway, origins: readonly number[]) => Promise<void>,
): Promise<void> {
  const { deployment, random } = drill;
  const gateway = random.pick(deployment.gateways);
  const origins = deployment.origins(gateway);
  deployment.drop(gateway);
  // Uploads in several requests that it has begun.
  await sleep(5_000);
  await gateway.daemon.stop();
  await handOver(gateway, origins);
  await verifyOrigins(drill, origins);
  await refill(drill, gateway.workers);
}

/** Killed for good. The gateway that holds its copies adopts its files; a new one takes its place. */
async function lose(drill: Drill, workers: number): Promise<void> {
  const { deployment, ledger, report, random } = drill;
  const some = deployment.gateways.filter((each) => each.workers === workers);
  const gateway = some.length > 0 ? random.pick(some) : await deployment.add(workers);
  const origins = deployment.origins(gateway);
  await deployment.kill(gateway);
  const since = performance.now() - STAGED_MS;
  const isStaged = ({ origin, acknowledgedAt }: Entry) =>
    acknowledgedAt > since && origins.includes(origin);
  report.stagedAtLoss += ledger.entries.filter(isStaged).length;
  deployment.drop(gateway);
  for (const each of deployment.gateways) if (each.partner === gateway.peerUrl) each.partner = '';
  excuse(drill, origins);
  for (const origin of origins) await deployment.adopt(origin);
  await verifyOrigins(drill, origins);
  await refill(drill, workers);
}

/** No fewer than in the beginning, and not always more. */
async function refill({ deployment }: Drill, workers: number): Promise<void> {
  if (deployment.gateways.length < WORKERS.length) await deployment.add(workers);
}

async function inLanes<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const lane = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** Reads it until the answer is final: what is there at any gateway, or at this one. */
async function verifyOne(drill: Drill, entry: Entry, url?: string): Promise<void> {
  const { deployment, ledger, report } = drill;
  const { balancer } = deployment;
  const before = entry.state;
  const end = performance.now() + VERIFY_LIMIT_MS;
  const ask = { method: 'GET', path: `/files/${entry.key}` };
  for (;;) {
    const asking = url === undefined ? balancer.ask(ask) : balancer.askAt(url, ask);
    const answer = await asking.catch(() => undefined);
    report.verified += 1;
    if (entry.state !== before || before === 'deleting' || before === 'excused') return;
    const where = deployment.nameOf(answer?.url ?? '');
    if (before === 'there' && answer?.status === 404) {
      return ledger.wrong(entry, 'lost', `404 at ${where} when verified at ${report.now()}`);
    }
    if (before === 'there' && answer?.status === 200) {
      if (digestOf(answer.body) === entry.sha256) return;
      return ledger.wrong(entry, 'altered', `at ${where} when verified at ${report.now()}`);
    }
    if (before === 'deleted' && answer?.status === 404) return;
    if (performance.now() > end) {
      const wrong = before === 'deleted' ? 'undead' : 'lost';
      const last = `${answer?.status} ${answer?.body.subarray(0, 300)}`;
      return ledger.wrong(entry, wrong, `in the end ${last} at ${where} at ${report.now()}`);
    }
    await sleep(200);
  }
}

/** What was deleted is gone at every gateway. */
async function verifyDeleted(drill: Drill, deleted: readonly Entry[]): Promise<void> {
  for (const url of drill.deployment.balancer.urls) {
    await inLanes(deleted, (entry) => verifyOne(drill, entry, url));
  }
}

/** All files that these gave out, at every gateway. */
async function verifyOrigins(drill: Drill, origins: readonly number[]): Promise<void> {
  const { ledger, deployment } = drill;
  const own = ledger.entries.filter(({ origin }) => origins.includes(origin)).slice(-1_000);
  for (const url of deployment.balancer.urls) {
    await inLanes(own, (entry) => verifyOne(drill, entry, url));
  }
}

/** Each event once in any order, again and again. */
function* eventsOf(random: Random): Generator<string> {
  for (;;) {
    const bag = Object.keys(EVENTS);
    while (bag.length > 0) yield bag.splice(random.below(bag.length), 1)[0]!;
  }
}

test('a deployment loses nothing, whatever operators do or suffer', {
  timeout: (3 * MINUTES + 15) * 60_000,
}, async () => {
  console.log(`seed ${SEED}, ${MINUTES} minutes`);
  const random = new Random(SEED);
  const deployment = await DrillDeployment.start(random, WORKERS);
  const ledger = new DrillLedger(new Random(SEED + 1));
  const report = new DrillReport();
  const drill: Drill = { deployment, ledger, report, random };
  const parts = { deployment, ledger, report, random: new Random(SEED + 2) };
  const load = new DrillLoad({ ...parts, perSecond: PER_SECOND, goneMs: GONE_MS });
  while (ledger.entries.length < FIRST_FILES) await sleep(100);
  const end = performance.now() + MINUTES * 60_000;
  let events = 0;
  try {
    for (const name of eventsOf(random)) {
      const isOver = performance.now() > end && events >= Object.keys(EVENTS).length;
      if (isOver) break;
      await sleep(2_000 + random.below(4_000));
      const event = EVENTS[name]!;
      console.log(`${report.now()} -> ${name}`);
      await report.event(name, event.isOutage, () => event.run(drill));
      deployment.check();
      await inLanes(ledger.sample(100, 100), (entry) => verifyOne(drill, entry));
      await verifyDeleted(drill, ledger.allDeleted().slice(-MOST_DELETED));
      events += 1;
    }
  } catch (error) {
    const what = `ended early at ${report.now()}: ${(error as Error).stack}`;
    console.log(what);
    ledger.findings.push(`${what}\n${deployment.lastLines()}`);
  }
  await load.stop();
  console.log(report.text());
  await inLanes(ledger.entries, (entry) => verifyOne(drill, entry));
  await verifyDeleted(drill, ledger.allDeleted());
  const { lost, altered, late, undead } = ledger.counts;
  const files = `${ledger.entries.length} files, ${ledger.deletions} deleted, ${ledger.expiring} expired`;
  console.log(
    `${files}; lost ${lost}, altered ${altered}, late ${late}, undead ${undead} (seed ${SEED})`,
  );
  expect(ledger.findings, `seed ${SEED}`).toEqual([]);
  expect(ledger.counts).toEqual({ lost: 0, altered: 0, late: 0, undead: 0 });
  // A run that does next to nothing proves nothing.
  expect(report.stagedAtLoss).toBeGreaterThan(report.excused);
  expect(report.putWithoutMap).toBeGreaterThan(0);
  expect(report.asked).toBeGreaterThan(MINUTES * 60 * LEAST_PER_SECOND);
  // In minutes, on a machine that does other things too, a share is chance.
  if (MINUTES < FULL_MINUTES) return;
  for (const [operation, { asked, refused, unexplained }] of report.operations()) {
    const what = `${operation}: refused of ${asked}`;
    expect.soft(unexplained, what).toBeLessThanOrEqual(Math.max(1, asked * MOST_REFUSED));
    expect.soft(refused, what).toBeLessThanOrEqual(Math.max(10, asked * MOST_REFUSED_OVERALL));
  }
});

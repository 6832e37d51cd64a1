import cluster, { type Worker } from 'node:cluster';
import { EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { FileStoreEvents, Readiness } from '@stevedore/client';
import { openDriver, openSharedDirectory, otherWorkers, SqlMap } from '@stevedore/client/internal';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { SharedSettings } from '../access/shared-settings.js';
import { ConsoleFeed } from '../console/feed.js';
import { logTrouble, makeLog } from '../observe/log.js';
import { logFormatOf } from '../observe/log-format.js';
import { checkGatewayOptions, type GatewayOptions, openOptions } from '../options.js';
import { HEAP_GROWTH } from '../program.js';
import { feedOf } from '../start.js';
import { away, Calls, errorOf } from './calls.js';
import { takesOf } from './handed-trunks.js';
import type { WorkerCalls } from './messages.js';
import { assignDirectories, shareOf } from './plan.js';
import { Shared } from './shared.js';
import { answersOf, type MapCalls } from './shared-map.js';
import { type ProcessFigures, sumStats, Totals } from './totals.js';

/**
 * A gateway of several processes. The primary owns the data directory, the embedded FastDFS,
 * quotas, console and metrics. Its workers serve the port. It restarts a worker that dies, and kills one
 * that hangs; until then, the others serve that worker's files from its directory.
 */

/** A gateway of one process, or of several. */
export interface RunningGateway {
  readonly url: string;
  readonly trackers: readonly string[];
  /** Resolves when the deployment no longer admits one of the directories. */
  readonly refused: Promise<Error>;
  close(): Promise<void>;
}

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** After serving for this long, a worker's restart delay starts from the shortest again. */
const STEADY_MS = 30_000;
const LEAVE_TIMEOUT_MS = 8_500;
const CLOSE_TIMEOUT_MS = 9_000;
/** Interval of health checks, and the wait for an answer. */
const ASK_INTERVAL_MS = 500;
const ANSWER_TIMEOUT_MS = 1_500;
/** After the first it counts as silent; it is killed later, because the whole machine may stand still. */
const MAX_MISSED_ANSWERS = 4;
/** Uploads may wait for it; without an answer, this gateway counts alone. */
const MAP_TIMEOUT_MS = 2_000;
/** How much longer than a flush the answer of a worker may take. */
const FLUSH_GRACE_MS = 5_000;

class Slot {
  /** Counted from 1: the number of its first directory. */
  readonly number: number;
  readonly own: readonly number[];
  process: Worker | undefined;
  calls: Calls<WorkerCalls> | undefined;
  isServing = false;
  /** It missed an answer: it is not asked for anything else, which would wait, too. */
  isSilent = false;
  failures = 0;

  constructor(own: readonly number[]) {
    this.number = own[0] ?? 1;
    this.own = own;
  }
}

interface Forked {
  readonly process: Worker;
  readonly calls: Calls<WorkerCalls>;
  readonly hasLoaded: Promise<void>;
  readonly hasOpened: Promise<void>;
}

/** Resolves once all workers serve. Rejects with the error of one of them, and ends all. */
export async function startWorkers(
  options: GatewayOptions,
  workers: number,
): Promise<RunningGateway> {
  const share = checkGatewayOptions(shareOf(options, workers));
  const log = makeLog(options.logLevel, logFormatOf(options.log));
  const events = new EventEmitter<FileStoreEvents>();
  const onError = (error: Error) => {
    logTrouble(log, error);
    events.emit('error', error);
  };
  events.on('error', () => undefined);
  const map = options.map === '' ? undefined : await openDriver(options.map);
  const settings =
    map &&
    new SharedSettings({
      ...options,
      map: new SqlMap(map.driver, map.spreads),
      onError: (error) => onError(error as Error),
    });
  let shared: Awaited<ReturnType<typeof openSharedDirectory>> | undefined;
  let primary: Primary | undefined;
  const close = async () => {
    await primary?.close();
    await shared?.close();
    await settings?.close();
    await map?.driver.close();
  };
  try {
    shared = await openSharedDirectory(openOptions(options), onError);
    await settings?.start();
    primary = new Primary({
      options,
      share,
      log,
      events,
      map,
      trackers: shared.trackers,
      take: shared.take,
      plan: assignDirectories(workers, await otherWorkers(options.directory)),
    });
    const refused = new Promise<Error>((resolve) => events.once('refused', resolve));
    return { url: await primary.start(), trackers: shared.trackers, refused, close };
  } catch (error) {
    await close();
    throw error;
  }
}

interface PrimaryParts {
  readonly options: GatewayOptions;
  readonly share: GatewayOptions;
  readonly plan: readonly (readonly number[])[];
  readonly trackers: readonly string[];
  readonly take: Awaited<ReturnType<typeof openSharedDirectory>>['take'];
  readonly map: Awaited<ReturnType<typeof openDriver>> | undefined;
  readonly log: Logger;
  readonly events: EventEmitter<FileStoreEvents>;
}

class Primary {
  readonly #parts: PrimaryParts;
  readonly #slots: readonly Slot[];
  readonly #shared: Shared;
  readonly #totals: Totals;
  readonly #registry = new Registry();
  readonly #feed: ConsoleFeed;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #inMap: MapCalls;
  readonly #allOpened = event();
  #isClosing = false;

  constructor(parts: PrimaryParts) {
    const { options, plan, trackers, events, map } = parts;
    this.#parts = parts;
    this.#shared = new Shared(
      Date.now,
      options.map === ''
        ? undefined
        : {
            reserveUsage: (day, asks) =>
              this.#anyone().askWithin(MAP_TIMEOUT_MS, 'reserveUsage', day, asks),
            liveServers: async () => this.#anyone().askWithin(MAP_TIMEOUT_MS, 'liveServers'),
          },
    );
    this.#slots = plan.map((own) => new Slot(own));
    map?.driver.listen((topic) => {
      for (const { calls } of this.#slots) calls?.tell('mapTold', topic);
    });
    this.#inMap = answersOf(map?.driver);
    this.#totals = new Totals(this.#slots.map(({ number }) => number));
    collectDefaultMetrics({ register: this.#registry });
    this.#feed = new ConsoleFeed({
      ...feedOf(options),
      store: {
        trackers,
        on: (name, listener) => void events.on(name, listener as never),
        off: (name, listener) => void events.off(name, listener as never),
        stats: async () => sumStats(await this.#answersOf((calls) => calls.ask('stats'))),
        ready: () => this.#ready(),
        cluster: () => this.#anyone().ask('cluster'),
      },
    });
    // The primary hands out connections in turn. Workers that accept by themselves do not share
    // them evenly: of 16 opened at once, one of two workers has taken all.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    cluster.setupPrimary({
      exec: fileURLToPath(new URL('./worker.js', import.meta.url)),
      args: [],
      execArgv: [...process.execArgv, HEAP_GROWTH],
      serialization: 'advanced',
    });
  }

  /**
   * Opens their directories one after the other, so that new ones get different origins. Then all
   * open the port, so that none has the connections of the others.
   */
  async start(): Promise<string> {
    const forked = this.#slots.map((slot) => [slot, this.#fork(slot)] as const);
    const urls: Promise<string>[] = [];
    for (const [slot, fork] of forked) {
      const url = this.#start(slot, fork);
      url.catch(() => undefined);
      urls.push(url);
      await Promise.race([fork.hasOpened, url]);
    }
    this.#allOpened.happen();
    const [url = ''] = await Promise.all(urls);
    // Before, there was nobody to ask.
    this.#feed.start();
    return url;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#feed.close();
    await this.#shared.close();
    for (const timer of this.#timers) clearTimeout(timer);
    // The first worker serves the others until all have left.
    const leave = ({ calls }: Slot) => calls?.askWithin(LEAVE_TIMEOUT_MS, 'leave');
    await Promise.allSettled(this.#slots.map(leave));
    await Promise.all(this.#slots.map((slot) => this.#stop(slot)));
  }

  #fork(slot: Slot): Forked {
    const { answers, end } = this.#shared.for();
    const process = cluster.fork();
    closeLastConnection(process);
    const loaded = event();
    const opened = event();
    const calls: Calls<WorkerCalls> = new Calls(
      (message) => void process.send(message, () => undefined),
      {
        ...answers,
        ...this.#inMap,
        ...takesOf(this.#parts.take, () => calls),
        delete: (number, key) => this.#ownerOf(number).ask('delete', number, key),
        flush: (timeoutMs) => this.#flush(timeoutMs),
        metrics: () => this.#metrics(),
        console: () => this.#feed.state(),
        history: (span) => this.#feed.history(span),
        trunk: (event) => void this.#parts.events.emit('trunk', event),
        refused: (error) => void this.#parts.events.emit('refused', errorOf(error)),
        trouble: (error) => void this.#parts.events.emit('error', errorOf(error)),
        loaded: () => loaded.happen(),
        opened: async () => {
          opened.happen();
          const others = this.#slots.filter((other) => other !== slot && other.isServing);
          await Promise.all(
            others.map(({ calls }) => calls?.ask('lookAgain').catch(() => undefined)),
          );
          await this.#allOpened.hasHappened;
        },
      },
    );
    slot.process = process;
    slot.calls = calls;
    process.on('message', (message) => calls.take(message));
    process.on('error', () => undefined);
    process.once('exit', (code, signal) => {
      const why = signal ? `by ${signal}` : `with code ${code}`;
      calls.end(away(`worker ${slot.number} has ended ${why}`));
      loaded.happen();
      end();
      this.#onExit(slot, why);
    });
    return { process, calls, hasLoaded: loaded.hasHappened, hasOpened: opened.hasHappened };
  }

  /** Resolves with the URL once the worker serves. */
  async #start(slot: Slot, { process, calls, hasLoaded }: Forked): Promise<string> {
    const { share: options, trackers, take, map } = this.#parts;
    const others = this.#slots.flatMap((other) => (other === slot ? [] : other.own));
    // A library could consume messages that arrive before the worker listens.
    await hasLoaded;
    const { own } = slot;
    const spreads = map?.spreads;
    const hasNode = take !== undefined;
    const given = { own, others, options, trackers, hasNode, spreads };
    const url = await calls.askWithin(0, 'start', given);
    slot.isServing = true;
    this.#totals.noteUp(slot.number, true);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (slot.process === process) slot.failures = 0;
    }, STEADY_MS).unref();
    this.#timers.add(timer);
    this.#watch(slot, process, 0);
    return url;
  }

  /** Kills a worker that does not answer: it holds a share of the connections and serves nobody. */
  #watch(slot: Slot, process: Worker, missed: number): void {
    const ask = async () => {
      this.#timers.delete(timer);
      const answers = await slot.calls?.askWithin(ANSWER_TIMEOUT_MS, 'isAlive').catch(() => false);
      if (this.#isClosing || slot.process !== process) return;
      slot.isSilent = !answers;
      if (answers) return this.#watch(slot, process, 0);
      if (missed + 1 < MAX_MISSED_ANSWERS) return this.#watch(slot, process, missed + 1);
      this.#trouble(`worker ${slot.number} does not answer any more, and is killed`);
      process.process.kill('SIGKILL');
    };
    const timer = setTimeout(() => void ask(), missed === 0 ? ASK_INTERVAL_MS : 0).unref();
    this.#timers.add(timer);
  }

  #onExit(slot: Slot, why: string): void {
    const wasServing = slot.isServing;
    slot.process = undefined;
    slot.calls = undefined;
    slot.isServing = false;
    slot.isSilent = false;
    this.#totals.noteUp(slot.number, false);
    // If the gateway has not started yet, the error of the start ends all workers.
    if (this.#isClosing || (!wasServing && slot.failures === 0)) return;
    this.#totals.noteRestart(slot.number);
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** slot.failures, MAX_PAUSE_MS);
    slot.failures += 1;
    this.#trouble(
      `worker ${slot.number} has ended ${why}; it is started again in ${pauseMs} ms, and the others serve its files`,
    );
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#start(slot, this.#fork(slot)).catch((error: Error) => {
        // A worker that ended was reported, and is being restarted.
        if (this.#isClosing || !slot.process) return;
        this.#trouble(`worker ${slot.number} could not be started again: ${error.message}`);
        slot.process.process.kill('SIGKILL');
      });
    }, pauseMs);
    this.#timers.add(timer);
  }

  #trouble(message: string): void {
    const error = errorOf({ name: 'StoreError', code: 'storage_unavailable', message });
    logTrouble(this.#parts.log, error);
    this.#parts.events.emit('error', error);
  }

  async #stop(slot: Slot): Promise<void> {
    const { process, calls } = slot;
    if (!process || !calls) return;
    const exited = once(process, 'exit');
    await calls.askWithin(CLOSE_TIMEOUT_MS, 'close').catch(() => undefined);
    const timer = setTimeout(() => process.process.kill('SIGKILL'), FIRST_PAUSE_MS * 5);
    await exited;
    clearTimeout(timer);
  }

  #ownerOf(number: number): Calls<WorkerCalls> {
    const owner = this.#slots.find(({ own }) => own.includes(number));
    if (!owner?.calls || !owner.isServing) throw away(`worker ${number} is not running`);
    return owner.calls;
  }

  #serving(): Slot[] {
    return this.#slots.filter(({ isServing, isSilent }) => isServing && !isSilent);
  }

  #anyone(): Calls<WorkerCalls> {
    const [slot] = this.#serving();
    if (!slot?.calls) throw away('no worker is running');
    return slot.calls;
  }

  /** From the workers that answer; the others are missing. */
  async #answersOf<Answer>(ask: (calls: Calls<WorkerCalls>) => Promise<Answer>): Promise<Answer[]> {
    const serving = this.#serving().flatMap(({ calls }) => calls ?? []);
    const asked = serving.map((calls) => ask(calls).catch(() => undefined));
    const answers = (await Promise.all(asked)).filter((answer) => answer !== undefined);
    if (answers.length === 0) throw away('no worker answers');
    return answers as Answer[];
  }

  /** Rejects if one of the workers is not running: nobody else stores its files. */
  async #flush(timeoutMs: number): Promise<void> {
    const limitMs = timeoutMs + FLUSH_GRACE_MS;
    const flushes = this.#slots.map(async ({ number }) =>
      this.#ownerOf(number).askWithin(limitMs, 'flush', timeoutMs),
    );
    await Promise.allSettled(flushes);
    await Promise.all(flushes);
  }

  async #ready(): Promise<Readiness> {
    const all = await this.#answersOf((calls) => calls.ask('ready'));
    const missing = this.#slots.filter(({ isServing, isSilent }) => !isServing || isSilent);
    const away = missing.map(
      ({ number, isSilent }) =>
        `worker ${number} ${isSilent ? 'does not answer' : 'is not running'}`,
    );
    return {
      ready: all.some(({ ready }) => ready),
      accepting: all.some(({ accepting }) => accepting),
      trackerReachable: all.some(({ trackerReachable }) => trackerReachable),
      problems: [...new Set(all.flatMap(({ problems }) => problems)), ...away],
    };
  }

  async #metrics(): Promise<string> {
    const figures = new Map<number, ProcessFigures>();
    await Promise.all(
      this.#serving().map(async ({ number, calls }) => {
        const answer = await calls?.ask('figures').catch(() => undefined);
        if (answer) figures.set(number, answer);
      }),
    );
    const own = (await this.#registry.getMetricsAsJSON()) as ProcessFigures;
    return this.#totals.text(figures, own);
  }
}

function event(): { readonly happen: () => void; readonly hasHappened: Promise<void> } {
  let happen = (): void => undefined;
  const hasHappened = new Promise<void>((resolve) => {
    happen = resolve;
  });
  return { happen, hasHappened };
}

/**
 * Closes the connection that was being passed to the worker when it died: `cluster` passes one at a
 * time and forgets it if no answer comes, so its client would wait for ever.
 */
function closeLastConnection({ process }: Worker): void {
  let last: { readonly close: () => void } | undefined;
  const send = process.send.bind(process) as (...args: unknown[]) => boolean;
  process.send = (message: unknown, handle?: unknown, ...others: unknown[]) => {
    if (typeof handle === 'object' && handle !== null) last = handle as typeof last;
    return send(message, handle, ...others);
  };
  // One that arrived is closed here already.
  process.once('close', () => last?.close());
}

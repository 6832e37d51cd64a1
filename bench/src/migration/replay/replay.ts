import { parameters as checked, type Forecaster, type Parameters } from '@stevedore/balance';
import { SeededRandom } from '../../harness/seeded-random.js';
import { EventQueue } from './events.js';
import type { ReplayInterval } from './interval.js';
import { Latencies } from './latencies.js';
import { MetadataServers } from './metadata-servers.js';
import { type Job, type ServerOptions, SimulatedServer } from './simulated-server.js';
import type { ReplayRequest, RequestClass, TimedRequest, Workload } from './workload.js';

/**
 * Replays a workload against simulated servers: forecasts, thresholds, moves and
 * latencies come out. Time is simulated and all randomness seeded, so the same
 * workload with the same seeds gives the same answer, on any machine.
 */

export interface ReplayOptions {
  readonly metadataServers: number;
  readonly server: ServerOptions;
  readonly ioServers: number;
  readonly ioServer: ServerOptions;
  /** There and back between a client and an I/O server, beyond what the workload has. */
  readonly ioNetworkMs: number;
  readonly intervalMs: number;
  /** Whether files move at all. Off: the baseline, which only forecasts. */
  readonly migration: boolean;
  readonly parameters: Partial<Parameters>;
  /** Th_global to begin with. */
  readonly thresholdBytes: number;
  /** Size of a metadata server's store. */
  readonly storeBytes: number;
  /** Small-file requests that may wait at a server; one more is told to come back. */
  readonly maximumWaiting: number;
  /** When a client that was told so comes back. */
  readonly retryMs: number;
  /** Of what is random in the servers. */
  readonly seed: number;
  /** The replay ends here at the latest, in simulated time. */
  readonly untilMs: number;
  /** A forecaster for a server's B_logic of one interval. */
  readonly forecaster: (capacityBytes: number) => Forecaster<unknown>;
}

export interface ClassResult {
  readonly requests: number;
  readonly bytes: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface ReplayResult {
  /** When the last request was answered. */
  readonly endMs: number;
  readonly intervals: readonly ReplayInterval[];
  readonly metadata: ClassResult;
  readonly smallFile: ClassResult;
  readonly moves: number;
  readonly movedBytes: number;
  readonly revokes: number;
  readonly busyAnswers: number;
}

/** What a job on a disk is for. */
interface Purpose {
  readonly request: ReplayRequest;
  readonly by: number | undefined;
  /** When the client sent it, before any busy answer. */
  readonly sentAtMs: number;
  /** Set for the copying of a file: the move that it belongs to. */
  readonly move: number | undefined;
}

type Event =
  | { readonly kind: 'arrives'; readonly purpose: Purpose; readonly isTrace: boolean }
  | { readonly kind: 'arrives-at-io'; readonly purpose: Purpose }
  | { readonly kind: 'released'; readonly disk: number; readonly job: Job<Purpose> }
  | { readonly kind: 'finishes'; readonly disk: number }
  | { readonly kind: 'answered'; readonly purpose: Purpose }
  | { readonly kind: 'interval' };

export function replay(workload: Workload, options: ReplayOptions): ReplayResult {
  return new Replay(workload, options).run();
}

class Replay {
  readonly #workload: Workload;
  readonly #options: ReplayOptions;
  readonly #events = new EventQueue<Event>();
  readonly #trace: Iterator<TimedRequest>;
  readonly #random: SeededRandom;
  readonly #disks: SimulatedServer<Purpose>[];
  readonly #servers: MetadataServers;
  readonly #latencies = { metadata: new Latencies(), smallFile: new Latencies() };
  readonly #bytes = { metadata: 0, smallFile: 0 };
  readonly #intervals: ReplayInterval[] = [];
  #open = 0;
  #busyAnswers = 0;
  #endMs = 0;

  constructor(workload: Workload, options: ReplayOptions) {
    this.#workload = workload;
    this.#options = options;
    this.#trace = workload.arrivals();
    this.#random = new SeededRandom(options.seed);
    const { metadataServers, ioServers } = options;
    this.#disks = Array.from(
      { length: metadataServers + ioServers },
      (_, index) =>
        new SimulatedServer<Purpose>(index < metadataServers ? options.server : options.ioServer),
    );
    const capacityBytes = (options.server.bytesPerSecond * options.intervalMs) / 1000;
    this.#servers = new MetadataServers({
      count: metadataServers,
      ioServers,
      capacityBytes,
      migration: options.migration,
      parameters: checked(options.parameters),
      thresholdBytes: options.thresholdBytes,
      storeBytes: options.storeBytes,
      forecaster: options.forecaster(capacityBytes),
    });
  }

  run(): ReplayResult {
    this.#pull();
    this.#events.push(this.#options.intervalMs, { kind: 'interval' });
    for (;;) {
      const next = this.#events.pop();
      if (next === undefined || next.atMs > this.#options.untilMs) break;
      this.#handle(next.event, next.atMs);
      if (this.#open === 0 && next.event.kind === 'interval') break;
    }
    return {
      endMs: this.#endMs,
      intervals: this.#intervals,
      metadata: this.#result('metadata'),
      smallFile: this.#result('smallFile'),
      ...this.#servers.totals,
      busyAnswers: this.#busyAnswers,
    };
  }

  #result(kind: RequestClass): ClassResult {
    const latencies = this.#latencies[kind];
    return {
      requests: latencies.count,
      bytes: this.#bytes[kind],
      meanMs: latencies.meanMs,
      p50Ms: latencies.percentileMs(0.5),
      p99Ms: latencies.percentileMs(0.99),
    };
  }

  /** Brings in the next request of the trace; one is ahead at a time. */
  #pull(): void {
    const next = this.#trace.next();
    if (!next.done) this.#send(next.value, true);
  }

  #send({ atMs, request, by }: TimedRequest, isTrace: boolean): void {
    this.#open += 1;
    const purpose = { request, by, sentAtMs: atMs, move: undefined };
    this.#events.push(atMs, { kind: 'arrives', purpose, isTrace });
  }

  #handle(event: Event, atMs: number): void {
    switch (event.kind) {
      case 'arrives':
        if (event.isTrace) this.#pull();
        this.#place(event.purpose, atMs);
        return;
      case 'arrives-at-io':
        this.#enqueue(this.#servers.ioDisk(event.purpose.request.file), event.purpose, atMs);
        return;
      case 'released':
        this.#release(event.disk, event.job, atMs);
        return;
      case 'finishes':
        this.#finish(event.disk, atMs);
        return;
      case 'answered':
        this.#answer(event.purpose, atMs);
        return;
      case 'interval':
        this.#endInterval(atMs);
    }
  }

  #place(purpose: Purpose, atMs: number): void {
    const { request } = purpose;
    const disk = this.#servers.place(request);
    if (disk === undefined) {
      const there = atMs + this.#options.ioNetworkMs / 2;
      this.#events.push(there, { kind: 'arrives-at-io', purpose });
      return;
    }
    const full = this.#disks[disk]!.waitingRequests >= this.#options.maximumWaiting;
    if (full && request.class === 'smallFile') {
      this.#busyAnswers += 1;
      const again = { kind: 'arrives', purpose, isTrace: false } as const;
      this.#events.push(atMs + this.#options.retryMs, again);
      return;
    }
    this.#servers.touched(disk, request, this.#disks[disk]!.cost(request.bytes));
    this.#enqueue(disk, purpose, atMs);
  }

  #enqueue(disk: number, purpose: Purpose, atMs: number): void {
    const { request } = purpose;
    const job: Job<Purpose> = {
      class: request.class,
      bytes: request.bytes,
      arrivedAtMs: atMs,
      payload: purpose,
    };
    this.#disks[disk]!.add(job);
    const isIo = disk >= this.#options.metadataServers;
    const { metadataHoldMs } = isIo ? this.#options.ioServer : this.#options.server;
    if (request.class === 'metadata' && metadataHoldMs > 0) {
      const commits = atMs + this.#random.next() * metadataHoldMs;
      this.#events.push(commits, { kind: 'released', disk, job });
    } else {
      this.#release(disk, job, atMs);
    }
  }

  #release(disk: number, job: Job<Purpose>, atMs: number): void {
    this.#disks[disk]!.release(job);
    this.#begin(disk, atMs);
  }

  #begin(disk: number, atMs: number): void {
    const takesMs = this.#disks[disk]!.begin();
    if (takesMs !== undefined) this.#events.push(atMs + takesMs, { kind: 'finishes', disk });
  }

  #finish(disk: number, atMs: number): void {
    const { payload } = this.#disks[disk]!.finish();
    if (payload.move !== undefined) {
      this.#open -= 1;
      this.#copy(this.#servers.copied(payload.move), atMs);
    } else {
      const isIo = disk >= this.#options.metadataServers;
      const backAtMs = atMs + (isIo ? this.#options.ioNetworkMs / 2 : 0);
      this.#events.push(backAtMs, { kind: 'answered', purpose: payload });
    }
    this.#begin(disk, atMs);
  }

  #answer({ request, by, sentAtMs }: Purpose, atMs: number): void {
    this.#open -= 1;
    this.#endMs = atMs;
    this.#latencies[request.class].add(atMs - sentAtMs);
    this.#bytes[request.class] += request.bytes;
    this.#copy(this.#servers.written(request), atMs);
    if (by === undefined) return;
    for (const timed of this.#workload.answered?.(by, atMs) ?? []) this.#send(timed, false);
  }

  #copy(step: { move: number; disk: number; bytes: number } | undefined, atMs: number): void {
    if (step === undefined) return;
    this.#open += 1;
    const request: ReplayRequest = {
      class: 'smallFile',
      bytes: step.bytes,
      file: '',
      fileBytes: step.bytes,
      write: false,
    };
    const purpose = { request, by: undefined, sentAtMs: atMs, move: step.move };
    this.#enqueue(step.disk, purpose, atMs);
  }

  #endInterval(atMs: number): void {
    const count = this.#options.metadataServers;
    const observed = this.#disks.map((disk) => disk.endInterval()).slice(0, count);
    const { intervals, copies } = this.#servers.decide(observed);
    for (const [server, interval] of intervals.entries()) {
      this.#intervals.push({ endMs: atMs, server, ...interval.report });
      this.#disks[server]!.allow(interval.allowedSmallFileBytes);
    }
    for (const copy of copies) this.#copy(copy, atMs);
    for (let disk = 0; disk < this.#disks.length; disk += 1) this.#begin(disk, atMs);
    if (this.#open > 0) {
      this.#events.push(atMs + this.#options.intervalMs, { kind: 'interval' });
    }
  }
}

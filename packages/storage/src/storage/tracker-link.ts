import { setTimeout as sleep } from 'node:timers/promises';
import {
  beat,
  type DiskUsage,
  getMyIp,
  type JoinRequest,
  join,
  parameterReq,
  reportDiskUsage,
  StorageStatus,
} from '@stevedore/protocol';
import { asError } from '../errors.js';
import { FrameClient } from '../net/frame-client.js';
import { type Endpoint, isOwnAddress } from '../options.js';
import type { Identity } from './identity.js';

/**
 * The long connection of a storage to one tracker: asks for the own address and
 * the cluster's settings, joins, reports room and life, and begins again
 * whenever it breaks. Only the first failure in a row is reported.
 */

export interface TrackerLinkOptions {
  readonly tracker: Endpoint;
  /** Address the storage listens on; the connection comes from it if it names one. */
  readonly host: string;
  readonly port: number;
  readonly identity: Identity;
  readonly timeoutMs: number;
  readonly beatIntervalMs: number;
  readonly diskReportIntervalMs: number;
  readonly reconnectDelayMs: number;
  /** The join of this storage, but for what the connection tells. */
  readonly joinRequest: Omit<JoinRequest, 'status' | 'trackerAddress'>;
  usage(): Promise<readonly DiskUsage[]>;
  readonly onActive: () => void;
  readonly onError: (error: Error) => void;
}

export class TrackerLink {
  readonly #options: TrackerLinkOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  /** Own status as this tracker last told it. */
  #status: number = StorageStatus.init;

  constructor(options: TrackerLinkOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  close(): Promise<void> {
    this.#stop.abort();
    return this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failed = false;
    while (!signal.aborted) {
      try {
        await this.#session(() => {
          failed = false;
        });
      } catch (error) {
        if (!failed && !signal.aborted) this.#report(error);
        failed = true;
      }
      await this.#pause(this.#options.reconnectDelayMs);
    }
  }

  async #session(active: () => void): Promise<void> {
    const { tracker, host, identity, joinRequest, timeoutMs } = this.#options;
    const localAddress = isOwnAddress(host) ? { localAddress: host } : {};
    const client = await FrameClient.open(
      { ...tracker, ...localAddress, timeoutMs },
      this.#stop.signal,
    );
    try {
      const { group, port } = joinRequest;
      identity.learnAddress(await client.ask(getMyIp, { group, port }));
      identity.learnParameters(await client.ask(parameterReq, undefined));
      const trackerAddress = client.remoteAddress;
      const request = { ...joinRequest, status: this.#status, trackerAddress };
      this.#status = (await client.ask(join, request)).status;
      await this.#reports(client, () => {
        active();
        this.#options.onActive();
      });
    } finally {
      client.close();
    }
  }

  /** Reports until the connection breaks or the link is closed. */
  async #reports(client: FrameClient, active: () => void): Promise<void> {
    const { beatIntervalMs, diskReportIntervalMs, usage } = this.#options;
    let ended = false;
    const end = client.ended.then(() => {
      ended = true;
    });
    let beatAt = performance.now();
    let diskAt = beatAt;
    while (!ended && !this.#stop.signal.aborted) {
      const now = performance.now();
      if (now >= diskAt) {
        await client.ask(reportDiskUsage, await usage());
        diskAt = now + diskReportIntervalMs;
      }
      if (now >= beatAt) {
        await client.ask(beat, undefined);
        beatAt = now + beatIntervalMs;
        active();
      }
      await this.#pause(Math.min(beatAt, diskAt) - performance.now(), end);
    }
    throw new Error('the tracker has closed the connection');
  }

  /** Waits, though not beyond `end` or the closing of the link. */
  async #pause(ms: number, end?: Promise<void>): Promise<void> {
    const over = new AbortController();
    const stopped = (): void => over.abort();
    this.#stop.signal.addEventListener('abort', stopped);
    if (this.#stop.signal.aborted) stopped();
    const waited = sleep(Math.max(ms, 1), undefined, { signal: over.signal }).catch(() => {});
    await Promise.race(end ? [waited, end] : [waited]);
    this.#stop.signal.removeEventListener('abort', stopped);
    stopped();
  }

  #report(error: unknown): void {
    const { host, port } = this.#options.tracker;
    const { message } = asError(error);
    this.#options.onError(new Error(`Tracker ${host}:${port}: ${message}`, { cause: error }));
  }
}

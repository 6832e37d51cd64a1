import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.js';
import { type Answer, type Ask, Cut } from './balancer.js';
import type { DrillDeployment } from './deployment.js';
import { type DrillLedger, digestOf, type Entry } from './ledger.js';
import type { DrillReport } from './report.js';

/**
 * The load of the drill: requests begun at a steady rate, whatever happens to those before. Each is
 * held against the ledger. One that is refused is repeated after its `Retry-After`, as a client does.
 * While a gateway's files are adopted, nobody can say that one of them does not exist: reads of
 * deleted files are refused then.
 */

const OPERATIONS = [
  [26, 'upload'],
  [6, 'idempotent upload'],
  [3, 'resumable upload'],
  [4, 'upload that expires'],
  [28, 'read of a fresh file'],
  [20, 'read of any file'],
  [7, 'deletion'],
  [1, 'deletion of a file read everywhere'],
  [3, 'read of a deleted file'],
  [2, 'read of a file that expires'],
] as const;

export type Operation = (typeof OPERATIONS)[number][1];

const MIN_BYTES = 2_000;
const MAX_BYTES = 100_000;
const MAX_UNDER_WAY = 400;
const MAX_TRIES = 150;
/** After a cut, and where the answer does not say when. */
const RETRY_MS = 1_000;
/** The workers of a killed gateway end a moment after it. */
const KILL_MS = 10_000;
/** What has expired is gone at its moment. */
const CLOCK_MS = 1_000;
const TTL_SECONDS = 20;
const TUS = { 'tus-resumable': '1.0.0' };

export interface LoadParts {
  readonly deployment: DrillDeployment;
  readonly ledger: DrillLedger;
  readonly report: DrillReport;
  readonly random: Random;
  readonly perSecond: number;
  /** So long after its deletion a file is gone everywhere. */
  readonly goneMs: number;
}

export class DrillLoad {
  readonly #parts: LoadParts;
  readonly #underWay = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #noise: Buffer;
  #made = 0;

  constructor(parts: LoadParts) {
    this.#parts = parts;
    const { random } = parts;
    this.#noise = Buffer.from(Array.from({ length: 2 * MAX_BYTES }, () => random.below(256)));
    this.#timer = setInterval(() => this.#begin(), 1000 / parts.perSecond);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#underWay);
  }

  #begin(): void {
    const { random, ledger, report } = this.#parts;
    if (this.#underWay.size >= MAX_UNDER_WAY) {
      report.notBegun += 1;
      return;
    }
    const [, operation] = random.pickByWeight(OPERATIONS);
    const done = this.#run(operation)
      .catch((error: Error) => ledger.find(`${operation}: ${error.stack}`))
      .finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  #run(operation: Operation): Promise<void> {
    const { ledger } = this.#parts;
    if (operation === 'read of a fresh file') return this.#read(operation, ledger.fresh());
    if (operation === 'read of any file') return this.#read(operation, ledger.any());
    if (operation === 'read of a deleted file') return this.#readGone(operation, ledger.deleted());
    if (operation === 'read of a file that expires') return this.#readEnding(operation);
    if (operation === 'deletion') return this.#delete(false);
    if (operation === 'deletion of a file read everywhere') return this.#delete(true);
    if (operation === 'resumable upload') return this.#resumable();
    return this.#upload(operation);
  }

  async #upload(operation: Operation): Promise<void> {
    const content = this.#content();
    const expires = operation === 'upload that expires' ? { 'x-expires-in': TTL_SECONDS } : {};
    const once = operation === 'idempotent upload' ? { 'idempotency-key': `"${this.#made}"` } : {};
    const headers = { 'x-filename': `${this.#made}.bin`, ...expires, ...once };
    const begunAt = performance.now();
    const ask = { method: 'POST', path: '/files', body: content, headers };
    const answer = await this.#ask(operation, ask, [201]);
    if (!answer) return;
    const { key, copies } = JSON.parse(answer.body.toString());
    const isEnding = operation === 'upload that expires';
    const expiresAt = isEnding ? begunAt + TTL_SECONDS * 1000 : undefined;
    this.#parts.ledger.add(key, content, copies, expiresAt);
  }

  /** In two pieces, some time apart. */
  async #resumable(): Promise<void> {
    const operation = 'resumable upload';
    const { random, ledger } = this.#parts;
    const content = this.#content();
    const half = content.length >> 1;
    const headers = { ...TUS, 'upload-length': content.length };
    const begun = await this.#ask(operation, { method: 'POST', path: '/uploads', headers }, [201]);
    if (!begun) return;
    const path = begun.headers.location ?? '';
    let key: string | undefined;
    for (const [from, to] of [
      [0, half],
      [half, content.length],
    ] as const) {
      await sleep(random.below(1_000));
      const type = { 'content-type': 'application/offset+octet-stream' };
      const body = content.subarray(from, to);
      const ask = {
        method: 'PATCH',
        path,
        body,
        headers: { ...TUS, ...type, 'upload-offset': from },
      };
      // An earlier one may have arrived without its answer; a server that is gone has taken all.
      const answer = await this.#ask(operation, ask, [204], [404, 409, 410]);
      if (answer?.status !== 204) return;
      key = String(answer.headers['x-file-key']);
    }
    if (key !== undefined) ledger.add(key, content);
  }

  async #read(operation: Operation, entry: Entry | undefined): Promise<void> {
    if (!entry) return;
    const answer = await this.#ask(operation, readOf(entry), [200, 404]);
    if (answer && entry.state === 'there') this.#compare(entry, answer, 'under load');
  }

  async #readGone(operation: Operation, entry: Entry | undefined): Promise<void> {
    const { report, goneMs } = this.#parts;
    if (!entry || performance.now() - entry.deletedAt < goneMs || report.isMapAway) return;
    const answer = await this.#ask(operation, readOf(entry), [200, 404]);
    if (answer) this.#mustBeGone(entry, answer);
  }

  #mustBeGone(entry: Entry, { status, url }: Answer): void {
    const { report, ledger, deployment } = this.#parts;
    if (status !== 200 || entry.isUntold || report.isMapAway) return;
    const after = Math.round(performance.now() - entry.deletedAt);
    const where = deployment.nameOf(url);
    ledger.wrong(entry, 'late', `read at ${where} ${after} ms after it was deleted`);
  }

  async #readEnding(operation: Operation): Promise<void> {
    const { ledger, deployment } = this.#parts;
    const entry = ledger.ending();
    if (!entry) return;
    const before = performance.now();
    const answer = await this.#ask(operation, readOf(entry), [200, 404]);
    if (!answer) return;
    if (performance.now() < entry.expiresAt - CLOCK_MS)
      this.#compare(entry, answer, 'before its end');
    // Its time began while its upload was under way.
    else if (
      before > entry.acknowledgedAt + TTL_SECONDS * 1000 + CLOCK_MS &&
      answer.status === 200
    ) {
      ledger.wrong(entry, 'late', `expired, and read at ${deployment.nameOf(answer.url)}`);
    }
  }

  /** `isSeen`: every gateway has the file in memory before, and must not serve it any more. */
  async #delete(isSeen: boolean): Promise<void> {
    const { ledger, random, report, goneMs } = this.#parts;
    const entry = random.next() < 0.5 ? ledger.fresh() : ledger.any();
    if (!entry) return;
    if (isSeen) await this.#readEverywhere(entry);
    if (entry.state !== 'there') return;
    entry.state = 'deleting';
    const ask = { method: 'DELETE', path: `/files/${entry.key}` };
    // One without an answer may have deleted it.
    const isMapAway = report.isMapAway;
    const answer = await this.#ask('deletion', ask, [204], [404]);
    if (!answer) return;
    if (answer.status === 404) {
      ledger.wrong(entry, 'lost', `its deletion was answered with 404 ${answer.body}`);
      return;
    }
    ledger.noteDeleted(entry, isMapAway || report.isMapAway);
    if (!isSeen) return;
    await sleep(goneMs);
    for (const gone of await this.#readEverywhere(entry)) this.#mustBeGone(entry, gone);
  }

  /** The answers of the gateways that answer. */
  async #readEverywhere(entry: Entry): Promise<Answer[]> {
    const { balancer } = this.#parts.deployment;
    const asked = balancer.urls.map((url) => balancer.askAt(url, readOf(entry)));
    const answers = await Promise.allSettled(asked);
    return answers.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  #compare(entry: Entry, { status, body, url }: Answer, when: string): void {
    const where = this.#parts.deployment.nameOf(url);
    if (status === 404) this.#parts.ledger.wrong(entry, 'lost', `404 at ${where} ${when}: ${body}`);
    else if (digestOf(body) !== entry.sha256) {
      this.#parts.ledger.wrong(entry, 'altered', `${body.length} other bytes at ${where} ${when}`);
    }
  }

  /**
   * Repeats what is refused until its answer is one of these; undefined if it never is.
   * `afterTrouble`: answers that only a request has that was sent before.
   */
  async #ask(
    operation: Operation,
    ask: Ask,
    good: readonly number[],
    afterTrouble: readonly number[] = [],
  ): Promise<Answer | undefined> {
    const { deployment, ledger, report } = this.#parts;
    const begunAt = performance.now();
    /** When the refusal before this try said that it would work. */
    let excusedUntil = Number.POSITIVE_INFINITY;
    for (let tries = 1; ; tries++) {
      const askedAt = performance.now();
      const outage = report.outage;
      const answer = await deployment.balancer.ask(ask).catch((error: unknown) => {
        if (!(error instanceof Cut)) throw error;
        report.cut(operation, tries, deployment.wasKilled(error.url, askedAt - KILL_MS));
        return undefined;
      });
      const tookMs = performance.now() - askedAt;
      const status = answer?.status ?? 0;
      if (good.includes(status) || (tries > 1 && afterTrouble.includes(status))) {
        report.answered(operation, tries, tookMs, performance.now() - begunAt);
        if (good.includes(status)) return answer;
        return tries > 1
          ? { ...(answer as Answer), status: operation === 'deletion' ? 204 : status }
          : answer;
      }
      if (answer) report.refused(operation, tries, answer, deployment.nameOf(answer.url));
      const says = Number(answer?.headers['retry-after']);
      if (answer && !(says > 0)) {
        ledger.find(
          `${operation}: ${status} without a Retry-After at ${report.now()}: ${answer.body.subarray(0, 300)}`,
        );
      }
      const isExcused = outage || report.outage || operation === 'read of a deleted file';
      if (tries > 1 && !isExcused && askedAt > excusedUntil) {
        ledger.find(
          `${operation}: refused again after its Retry-After at ${report.now()}: ${status} ${answer?.body.subarray(0, 300)}`,
        );
      }
      if (tries === MAX_TRIES) {
        ledger.find(`${operation}: refused ${tries} times, at last ${status} at ${report.now()}`);
        return undefined;
      }
      excusedUntil = isExcused ? Number.POSITIVE_INFINITY : askedAt;
      await sleep(says > 0 ? says * 1000 : RETRY_MS);
    }
  }

  #content(): Buffer {
    const { random } = this.#parts;
    this.#made += 1;
    const bytes = Math.round(MIN_BYTES * (MAX_BYTES / MIN_BYTES) ** random.next());
    const from = random.below(this.#noise.length - bytes);
    const content = Buffer.from(this.#noise.subarray(from, from + bytes));
    content.writeUInt32LE(this.#made, 0);
    return content;
  }
}

function readOf({ key }: Entry): Ask {
  return { method: 'GET', path: `/files/${key}` };
}

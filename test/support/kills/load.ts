import { randomFillSync } from 'node:crypto';
import type { Random } from '../random.js';
import { type Answer, type KillClient, sha256, type Upload } from './client.js';
import { type Ledger, type NewFile, noteId } from './ledger.js';

/**
 * The load: lanes that upload, delete and read without a pause, until they are
 * stopped or the gateway is gone. An answer counts when it has arrived whole; what
 * a kill cut off is entered as not known (a deletion) or not at all (an upload).
 * While the gateway lives, every upload and deletion has to succeed.
 */

export const LANES = 16;

const DELETE_SHARE = 0.3;
const READ_SHARE = 0.1;
const FORM_SHARE = 0.02;
const LARGE_SHARE = 0.003;
const GROUP_SHARE = 0.1;
/** Deleted files whose id is asked for before, to look for them by it afterwards. */
const ID_SHARE = 0.2;
const MAX_SMALL_BYTES = 60_000;
/** Over the small-file limit of the gateways here. */
const MIN_LARGE_BYTES = 300_000;
const MAX_LARGE_BYTES = 900_000;
const MAX_REFUSALS = 20;
const EXTENSIONS = ['.jpg', '.txt', '.bin', ''];

const MATERIAL = randomFillSync(Buffer.alloc(2 ** 22));

export interface LoadParts {
  readonly client: KillClient;
  readonly ledger: Ledger;
  readonly random: Random;
  readonly gatewayLives: () => boolean;
  /** Another number after each kill, and once all runs again; even while all runs. */
  readonly disturbances: () => number;
  /** Hears of answers that no kill explains. */
  readonly refusals: string[];
}

export class Load {
  readonly #parts: LoadParts;
  readonly #lanes: Promise<unknown>;
  #stopped = false;

  constructor(parts: LoadParts) {
    this.#parts = parts;
    this.#lanes = Promise.all(Array.from({ length: LANES }, () => this.#lane()));
  }

  /** Resolves when every operation under way has its answer, or will have none. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#lanes;
  }

  async #lane(): Promise<void> {
    const { gatewayLives, random } = this.#parts;
    while (!this.#stopped && gatewayLives()) {
      const dice = random.next();
      try {
        if (dice < DELETE_SHARE) await this.#delete();
        else if (dice < DELETE_SHARE + READ_SHARE) await this.#read();
        else await this.#upload();
      } catch (error) {
        if (gatewayLives()) this.#refused(`a connection broke: ${(error as Error).stack}`);
      }
    }
  }

  async #upload(): Promise<void> {
    const { client, ledger, random } = this.#parts;
    const isForm = random.next() < FORM_SHARE;
    const outcome = isForm
      ? await client.putForm(Array.from({ length: 2 + random.below(5) }, () => this.#file()))
      : await client.put(this.#file());
    if (isAnswer(outcome)) this.#refused(`an upload: ${outcome.status} ${outcome.body}`);
    else for (const file of outcome) ledger.add(file);
  }

  async #delete(): Promise<void> {
    const { client, ledger, random } = this.#parts;
    const file = ledger.claim();
    if (!file) return;
    try {
      if (random.next() < ID_SHARE) noteId(file, await client.fileIdOf(file.key));
      const { status, body } = await client.remove(file.key);
      ledger.settle(file, status === 204 ? 'deleted' : 'unknown');
      if (status === 404) ledger.report(file, 'lost', 'its deletion was answered with 404');
      else if (status !== 204) this.#refused(`a deletion: ${status} ${body}`);
    } catch (error) {
      ledger.settle(file, 'unknown');
      throw error;
    }
  }

  async #read(): Promise<void> {
    const { client, ledger, disturbances } = this.#parts;
    const file = ledger.anyAlive();
    if (!file) return;
    const before = disturbances();
    const answer = await client.get(`/files/${file.key}`).catch((error: unknown) => {
      // A small file is whole before the head of its answer goes out. The storage of a large one can
      // be killed in the middle of its bytes.
      const isDisturbed = before % 2 === 1 || disturbances() !== before;
      if (isDisturbed && file.size >= MIN_LARGE_BYTES) return undefined;
      throw error;
    });
    if (!answer) return;
    const { status, body } = answer;
    // It may have been deleted meanwhile; without a storage, merged files have to wait.
    if (file.state !== 'alive' || status === 503) return;
    if (status === 404) ledger.report(file, 'lost', 'it was 404 under load');
    else if (status !== 200) this.#refused(`a read: ${status} ${body}`);
    else if (sha256(body) !== file.sha256) ledger.report(file, 'altered', 'read under load');
  }

  #file(): Upload {
    const { random } = this.#parts;
    const size =
      random.next() < LARGE_SHARE
        ? MIN_LARGE_BYTES + random.below(MAX_LARGE_BYTES - MIN_LARGE_BYTES)
        : Math.ceil(MAX_SMALL_BYTES ** random.next());
    const from = random.below(MATERIAL.length - size);
    const group = random.next() < GROUP_SHARE ? `page-${random.below(50)}` : undefined;
    const name = `file-${random.below(1000)}${random.pick(EXTENSIONS)}`;
    return { bytes: MATERIAL.subarray(from, from + size), name, group };
  }

  #refused(what: string): void {
    const { refusals } = this.#parts;
    if (refusals.length < MAX_REFUSALS) refusals.push(what);
  }
}

function isAnswer(outcome: readonly NewFile[] | Answer): outcome is Answer {
  return 'status' in outcome;
}

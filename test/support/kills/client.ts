import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FormData, Pool } from 'undici';
import type { NewFile } from './ledger.js';

/** A user of one gateway process: keep-alive connections, whole answers, nothing sent twice. */

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

export interface Upload {
  readonly bytes: Buffer;
  readonly name: string;
  readonly group: string | undefined;
}

const TIMEOUT_MS = 60_000;
/** How long a storage that has just come back may make readers wait. */
const RETURN_LIMIT_MS = 30_000;
const RETRY_MS = 50;

export class KillClient {
  readonly #pool: Pool;

  constructor(url: string, connections: number) {
    const limits = { headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS };
    this.#pool = new Pool(url, { connections, ...limits });
  }

  /** The files of a 201; any other answer as it is. */
  async put({ bytes, name, group }: Upload): Promise<readonly NewFile[] | Answer> {
    const headers = { 'x-filename': name, ...(group ? { 'x-affinity-group': group } : {}) };
    const type = { 'content-type': 'application/x-test' };
    const answer = await this.#ask('POST', '/files', bytes, { ...headers, ...type });
    return answer.status === 201 ? acknowledged(answer, [bytes]) : answer;
  }

  async putForm(uploads: readonly Upload[]): Promise<readonly NewFile[] | Answer> {
    const form = new FormData();
    for (const { bytes, name } of uploads) form.append('file', new Blob([bytes]), name);
    const answer = await this.#ask('POST', '/files', form);
    const contents = uploads.map(({ bytes }) => bytes);
    return answer.status === 201 ? acknowledged(answer, contents) : answer;
  }

  remove(key: string): Promise<Answer> {
    return this.#ask('DELETE', `/files/${key}`);
  }

  get(path: string): Promise<Answer> {
    return this.#ask('GET', path);
  }

  /** As `get`, but 503 is asked again until the storage is back. */
  async getOnceBack(path: string): Promise<Answer> {
    const deadline = Date.now() + RETURN_LIMIT_MS;
    for (;;) {
      const answer = await this.get(path);
      if (answer.status !== 503 || Date.now() > deadline) return answer;
      await sleep(RETRY_MS);
    }
  }

  /** The FastDFS id of a file that has one. */
  async fileIdOf(key: string): Promise<string | undefined> {
    const { status, body } = await this.get(`/files/${key}/info`);
    if (status !== 200) return undefined;
    return (JSON.parse(body.toString()) as { fileId?: string }).fileId;
  }

  /** Resolves once files can be stored durably and the tracker answers. */
  async ready(): Promise<void> {
    const { status, body } = await this.getOnceBack('/health/ready');
    if (status !== 200) throw new Error(`the gateway does not become ready: ${body}`);
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #ask(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: Buffer | FormData,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const asked = { method, path: encodeURI(path), headers, body: body ?? null };
    const answer = await this.#pool.request(asked);
    return { status: answer.statusCode, body: Buffer.from(await answer.body.arrayBuffer()) };
  }
}

function acknowledged({ body }: Answer, contents: readonly Buffer[]): readonly NewFile[] {
  const parsed = JSON.parse(body.toString()) as { key: string } | { key: string }[];
  const receipts = Array.isArray(parsed) ? parsed : [parsed];
  if (receipts.length !== contents.length) throw new Error(`not one receipt a file: ${body}`);
  return contents.map((bytes, index) => ({
    key: receipts[index]!.key,
    size: bytes.length,
    sha256: sha256(bytes),
  }));
}

export function sha256(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64url');
}

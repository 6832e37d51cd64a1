import { randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';

/** A file that bodies are appended to in batches (group commit), each synced before it is answered. */

export interface Appended {
  readonly key: string;
  readonly name: string;
  readonly body: Buffer;
  /** Where the body begins in the file. */
  readonly position: number;
}

interface Waiting {
  readonly body: Buffer;
  readonly name: string;
  readonly resolve: (key: string) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_BATCH = 500;

export class Appender {
  readonly #file: FileHandle;
  readonly #commit: (batch: readonly Appended[]) => void;
  #at = 0;
  #waiting: Waiting[] = [];
  #writing = false;

  private constructor(file: FileHandle, commit: (batch: readonly Appended[]) => void) {
    this.#file = file;
    this.#commit = commit;
  }

  /** `commit` is called with what is on the disk, before it is answered. */
  static async open(path: string, commit: (batch: readonly Appended[]) => void): Promise<Appender> {
    return new Appender(await open(path, 'a'), commit);
  }

  add(body: Buffer, name: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ body, name, resolve, reject });
      if (!this.#writing) void this.#write();
    });
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_BATCH);
      try {
        await this.#file.writev(batch.map(({ body }) => body));
        await this.#file.datasync();
        const appended = batch.map(({ body, name }) => this.#place(body, name));
        this.#commit(appended);
        for (const [index, { resolve }] of batch.entries()) resolve(appended[index]!.key);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = false;
  }

  #place(body: Buffer, name: string): Appended {
    const position = this.#at;
    this.#at += body.length;
    return { key: randomBytes(16).toString('base64url'), name, body, position };
  }
}

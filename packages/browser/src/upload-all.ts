import type { DroppedFile } from './dropped-files.js';
import { UploadError } from './requests.js';
import { type StoredFile, Upload, type UploadOptions } from './upload.js';

/** Uploads many files, a few at a time, with one progress for all. */

export interface AllProgress {
  readonly sentBytes: number;
  readonly totalBytes: number;
  readonly storedFiles: number;
  readonly failedFiles: number;
  readonly files: number;
}

export interface UploadAllOptions extends Omit<UploadOptions, 'name' | 'type' | 'onProgress'> {
  /** Files at a time. Default 3. */
  readonly concurrency?: number;
  readonly onStored?: (file: File, stored: StoredFile) => void;
  /** The other files continue. */
  readonly onFailed?: (file: File, error: UploadError) => void;
  readonly onProgress?: (progress: AllProgress) => void;
}

/** Begins at once. Files in folders keep their paths as names. */
export function uploadAll(
  files: Iterable<File | DroppedFile>,
  options: UploadAllOptions,
): UploadAll {
  return new UploadAll(files, options);
}

export class UploadAll {
  /** Resolves when every file is stored or has failed. Rejects only after `abort()`. */
  readonly done: Promise<AllProgress>;
  readonly #options: UploadAllOptions;
  readonly #waiting: DroppedFile[];
  readonly #running = new Set<Upload>();
  /** Without the files that are under way. */
  readonly #ended: { -readonly [Name in keyof AllProgress]: number };
  #isPaused = false;
  #isAborted = false;

  constructor(files: Iterable<File | DroppedFile>, options: UploadAllOptions) {
    this.#options = options;
    this.#waiting = [...files].map((each) =>
      'file' in each ? each : { file: each, path: each.webkitRelativePath || each.name },
    );
    const totalBytes = this.#waiting.reduce((sum, { file }) => sum + file.size, 0);
    const none = { sentBytes: 0, storedFiles: 0, failedFiles: 0 };
    this.#ended = { ...none, totalBytes, files: this.#waiting.length };
    this.done = this.#run();
    this.done.catch(() => {});
  }

  get progress(): AllProgress {
    let { sentBytes } = this.#ended;
    for (const each of this.#running) sentBytes += each.sentBytes;
    return { ...this.#ended, sentBytes };
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  pause(): void {
    this.#isPaused = true;
    for (const each of this.#running) each.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const each of this.#running) each.resume();
  }

  /** Files that are already stored stay. */
  abort(): void {
    this.#isAborted = true;
    for (const each of this.#running) each.abort();
  }

  async #run(): Promise<AllProgress> {
    const worker = async (): Promise<void> => {
      for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
        if (this.#isAborted) return;
        await this.#one(next);
      }
    };
    await Promise.all(Array.from({ length: this.#options.concurrency ?? 3 }, worker));
    if (this.#isAborted) throw new UploadError('aborted', 'The uploads were aborted.');
    return this.progress;
  }

  async #one({ file, path }: DroppedFile): Promise<void> {
    const { concurrency: _, onStored, onFailed, onProgress, ...options } = this.#options;
    const report = (): void => onProgress?.(this.progress);
    const upload = new Upload(file, { ...options, name: path, onProgress: report });
    if (this.#isPaused) upload.pause();
    this.#running.add(upload);
    const end = (): void => {
      this.#running.delete(upload);
      this.#ended.sentBytes += file.size;
    };
    try {
      const stored = await upload.done;
      end();
      this.#ended.storedFiles += 1;
      onStored?.(file, stored);
    } catch (error) {
      end();
      if (this.#isAborted) return;
      this.#ended.failedFiles += 1;
      onFailed?.(file, error as UploadError);
    }
    report();
  }
}

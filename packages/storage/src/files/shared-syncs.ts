/**
 * Shares the syncs of a directory: many clients store files in the same one. A sync that
 * has begun may miss what happens meanwhile, so a later request waits for the next sync.
 */
export class SharedSyncs {
  readonly #sync: (path: string) => Promise<void>;
  readonly #underWay = new Map<string, UnderWay>();

  constructor(sync: (path: string) => Promise<void>) {
    this.#sync = sync;
  }

  sync(path: string): Promise<void> {
    const underWay = this.#underWay.get(path);
    if (!underWay) return this.#begin(path);
    underWay.next ??= underWay.ended.then(() => this.#begin(path));
    return underWay.next;
  }

  #begin(path: string): Promise<void> {
    const sync = this.#sync(path);
    const underWay: UnderWay = {
      ended: sync.catch(() => {}),
      next: undefined,
    };
    this.#underWay.set(path, underWay);
    void underWay.ended.then(() => {
      if (!underWay.next) this.#underWay.delete(path);
    });
    return sync;
  }
}

interface UnderWay {
  /** Resolves even if the sync fails: only those who asked for it get the error. */
  readonly ended: Promise<void>;
  next: Promise<void> | undefined;
}

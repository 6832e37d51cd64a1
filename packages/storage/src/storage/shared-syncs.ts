/**
 * Syncs of directories, shared by those who ask at the same time: new files of many
 * clients come into the same directory. A sync that has begun may have missed what was
 * done meanwhile, so whoever comes later waits for the next one.
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
  /** Well or not: only those who asked for it hear that it failed. */
  readonly ended: Promise<void>;
  next: Promise<void> | undefined;
}

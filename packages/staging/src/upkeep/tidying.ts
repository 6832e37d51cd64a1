import type { Rebuild } from '../repair/rebuild.js';
import type { Background } from './background.js';
import type { Compaction } from './compaction.js';
import type { Retirement } from './retirement.js';

/** Deletes trunks that are dead and empties those that are nearly so, when it is wanted. */
export class Tidying {
  readonly #retirement: Retirement;
  readonly #compaction: Compaction;
  readonly #rebuild: Rebuild;
  readonly #background: Background;
  #isWanted = false;
  #isUnderWay = false;

  constructor(
    retirement: Retirement,
    compaction: Compaction,
    rebuild: Rebuild,
    background: Background,
  ) {
    this.#retirement = retirement;
    this.#compaction = compaction;
    this.#rebuild = rebuild;
    this.#background = background;
  }

  want(): void {
    this.#isWanted = true;
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    const tidied = this.#tidyWhileWanted().finally(() => {
      this.#isUnderWay = false;
    });
    this.#background.run(tidied);
  }

  async #tidyWhileWanted(): Promise<void> {
    while (this.#isWanted && !this.#background.isOver) {
      this.#isWanted = false;
      await this.#retirement.run();
      if (!this.#background.isOver && !this.#rebuild.isWaiting) await this.#compaction.run();
    }
  }
}

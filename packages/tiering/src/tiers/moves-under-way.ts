/**
 * Which files of a store path are being moved and which are being changed. A file is not
 * moved while it is changed, nor twice at a time; a change revokes the move and waits
 * until nothing is left of it.
 */

/** A move that is under way. */
export interface Move {
  readonly isRevoked: boolean;
  /** Nothing is left of it. */
  end(): void;
}

interface UnderWay {
  revoked: boolean;
  readonly done: Promise<void>;
}

export class MovesUnderWay {
  readonly #moves = new Map<string, UnderWay>();
  /** With the number of those who change the file. */
  readonly #changing = new Map<string, number>();
  #revokes = 0;

  /** Moves that a change of their file has ended. */
  get revokes(): number {
    return this.#revokes;
  }

  wasRevoked(): void {
    this.#revokes += 1;
  }

  /** Undefined if the file is being moved or changed. */
  begin(name: string): Move | undefined {
    if (this.#moves.has(name) || this.#changing.has(name)) return undefined;
    let ended = (): void => {};
    const done = new Promise<void>((resolve) => {
      ended = resolve;
    });
    const move: Move = {
      get isRevoked() {
        return underWay.revoked;
      },
      end: () => {
        if (this.#moves.get(name) === underWay) this.#moves.delete(name);
        ended();
      },
    };
    const underWay: UnderWay = { revoked: false, done };
    this.#moves.set(name, underWay);
    return move;
  }

  /** Ends a move of the file, and waits until it has ended. */
  async revoke(name: string): Promise<void> {
    const underWay = this.#moves.get(name);
    if (!underWay) return;
    underWay.revoked = true;
    await underWay.done;
  }

  /** No move of the file begins until the function that this gives is called. */
  change(name: string): () => void {
    this.#changing.set(name, (this.#changing.get(name) ?? 0) + 1);
    return () => {
      const left = this.#changing.get(name)! - 1;
      if (left > 0) this.#changing.set(name, left);
      else this.#changing.delete(name);
    };
  }
}

/** What is closed at the end, the last first, whatever happens in between. */
export class Closing implements AsyncDisposable {
  readonly #all: AsyncDisposable[] = [];

  use<T extends AsyncDisposable>(each: T): T {
    this.#all.push(each);
    return each;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#all.splice(0).reverse()) await each[Symbol.asyncDispose]();
  }
}

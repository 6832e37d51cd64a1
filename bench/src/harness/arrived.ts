/** Bytes that have come and were not taken, joined only when enough are there. */
export class Arrived {
  length = 0;
  #chunks: Buffer[] = [];

  push(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.length += bytes.length;
  }

  /** The first of them, which stay; undefined until so many have come. */
  peek(count: number): Buffer | undefined {
    if (this.length < count) return undefined;
    let [first] = this.#chunks;
    if (!first || first.length < count) {
      first = Buffer.concat(this.#chunks);
      this.#chunks = [first];
    }
    return first.subarray(0, count);
  }

  take(count: number): Buffer | undefined {
    const taken = this.peek(count);
    if (!taken) return undefined;
    const rest = this.#chunks.shift()!.subarray(count);
    if (rest.length > 0) this.#chunks.unshift(rest);
    this.length -= count;
    return taken;
  }
}

/** Keeps the values used last, up to a number of bytes; each value gives its own size. */
export class ByteBoundedCache<Value> {
  readonly #maxBytes: number;
  readonly #bytesOf: (value: Value) => number;
  /** In the order of use, least recent first. */
  readonly #entries = new Map<string, { readonly value: Value; readonly bytes: number }>();
  #bytes = 0;

  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#maxBytes = maxBytes;
    this.#bytesOf = bytesOf;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Keeps the value; call it again when the value has grown. */
  set(key: string, value: Value): void {
    this.delete(key);
    const bytes = this.#bytesOf(value);
    if (bytes > this.#maxBytes) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

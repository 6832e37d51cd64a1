/**
 * Whether a guest may come in now. Trackers lend targets, but two trackers could lend the
 * same one: the last word is here. In an interval guests of one server are taken, and of
 * their load no more than there was room for as it began.
 */
export class GuestGuard {
  #home: string | undefined;
  #roomBytes = 0;

  /** An interval begins: so much load is there room for. */
  begin(roomBytes: number): void {
    this.#home = undefined;
    this.#roomBytes = roomBytes;
  }

  admit(home: string, loadBytes: number): boolean {
    if (this.#home !== undefined && this.#home !== home) return false;
    if (loadBytes > this.#roomBytes) return false;
    this.#home = home;
    this.#roomBytes -= loadBytes;
    return true;
  }
}

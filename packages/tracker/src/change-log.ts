/**
 * What has happened to storages, as storages ask for it: a line
 *
 *     timestamp group id status [new address]
 *
 * for each deletion and change of address. The last `MAX_LINES` are kept.
 */

const MAX_LINES = 1000;

export class ChangeLog {
  readonly #lines: string[] = [];
  /** Lines that are no longer kept. */
  #dropped = 0;

  add(atSeconds: number, group: string, id: string, status: number, argument = ''): void {
    this.#lines.push(
      `${atSeconds} ${group} ${id} ${status}${argument === '' ? '' : ` ${argument}`}\n`,
    );
    if (this.#lines.length > MAX_LINES) {
      this.#lines.shift();
      this.#dropped += 1;
    }
  }

  /** Lines so far: what a reader has read who asks now. */
  get end(): number {
    return this.#dropped + this.#lines.length;
  }

  /** What came after a reader's last `end`. */
  since(position: number): string {
    return this.#lines.slice(Math.max(position - this.#dropped, 0)).join('');
  }
}

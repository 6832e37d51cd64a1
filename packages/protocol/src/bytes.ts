import { Status, statusText } from './constants.js';

/**
 * Reads and builds message bodies. All integers are big-endian. Text fields are NUL-padded when
 * written and end at the first NUL when read, because the C programs leave stale memory behind it.
 */

export class ByteReader {
  readonly #bytes: Buffer;
  #position = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get remaining(): number {
    return this.#bytes.length - this.#position;
  }

  #take(count: number, field: string): number {
    const at = this.#position;
    if (count > this.remaining) {
      throw new ProtocolError(`field ${field} needs ${count} bytes, ${this.remaining} are left`);
    }
    this.#position = at + count;
    return at;
  }

  u8(field: string): number {
    return this.#bytes.readUInt8(this.#take(1, field));
  }

  i32(field: string): number {
    return this.#bytes.readInt32BE(this.#take(4, field));
  }

  /** A 64-bit integer as a number. Throws if a number cannot hold it exactly. */
  i64(field: string): number {
    return safeNumber(this.#bytes.readBigInt64BE(this.#take(8, field)), field);
  }

  /** A 64-bit size or offset: never negative. */
  size(field: string): number {
    const value = this.i64(field);
    if (value < 0) throw new ProtocolError(`field ${field} is negative (${value})`);
    return value;
  }

  /** A CRC-32 sent as a sign-extended 64-bit integer. */
  crc32(field: string): number {
    return Number(this.#bytes.readBigInt64BE(this.#take(8, field)) & 0xffff_ffffn);
  }

  /** A fixed-width text field, up to its first NUL. */
  text(width: number, field: string): string {
    const at = this.#take(width, field);
    const nul = this.#bytes.indexOf(0, at);
    const end = nul === -1 || nul > at + width ? at + width : nul;
    return this.#bytes.toString('latin1', at, end);
  }

  /** The remaining bytes as text. */
  restText(): string {
    return this.rest().toString('latin1');
  }

  rest(): Buffer {
    return this.#bytes.subarray(this.#take(this.remaining, 'rest'));
  }

  bytes(count: number, field: string): Buffer {
    const at = this.#take(count, field);
    return this.#bytes.subarray(at, at + count);
  }

  /** Throws if bytes are left. */
  end(what: string): void {
    if (this.remaining !== 0)
      throw new ProtocolError(`${what} has ${this.remaining} bytes too many`);
  }
}

export class ByteWriter {
  readonly #parts: Buffer[] = [];

  u8(value: number): this {
    this.#parts.push(Buffer.from([value & 0xff]));
    return this;
  }

  i32(value: number): this {
    const part = Buffer.allocUnsafe(4);
    part.writeInt32BE(value | 0);
    this.#parts.push(part);
    return this;
  }

  i64(value: number | bigint): this {
    const part = Buffer.allocUnsafe(8);
    part.writeBigInt64BE(BigInt(value));
    this.#parts.push(part);
    return this;
  }

  /** A CRC-32, sign-extended to 64 bits as the C servers send it. */
  crc32(value: number): this {
    return this.i64(value | 0);
  }

  /** A fixed-width text field, NUL-padded. Throws if the value does not fit. */
  text(value: string, width: number, field: string): this {
    const part = Buffer.alloc(width);
    if (Buffer.byteLength(value, 'latin1') > width) {
      throw new ProtocolError(`field ${field} holds ${width} bytes, "${value}" is longer`);
    }
    part.write(value, 'latin1');
    this.#parts.push(part);
    return this;
  }

  restText(value: string): this {
    this.#parts.push(Buffer.from(value, 'latin1'));
    return this;
  }

  raw(value: Buffer): this {
    this.#parts.push(value);
    return this;
  }

  toBuffer(): Buffer {
    return this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
  }
}

function safeNumber(value: bigint, field: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) {
    throw new ProtocolError(`field ${field} is out of range (${value})`);
  }
  return number;
}

/**
 * Bytes or values that violate the FastDFS format. `status` is the errno that a server answers; a
 * client that gets one from a reply must drop the connection.
 */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly code = 'malformed_message';
  readonly status: number;

  constructor(message: string, status: number = Status.invalid) {
    super(`${message}: ${statusText(status)}`);
    this.status = status;
  }
}

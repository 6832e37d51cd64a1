import { Status, statusText } from './constants.js';

/**
 * Reads and builds message bodies. All integers are big-endian. Text fields are NUL-padded when
 * written and end at the first NUL when read, because the C programs leave stale memory behind it.
 */

export interface ByteReader {
  readonly bytes: Buffer;
  at: number;
}

export function readU8(reader: ByteReader, field: string): number {
  const { bytes, at } = reader;
  if (at + 1 > bytes.length) throw tooShort(reader, 1, field);
  reader.at = at + 1;
  return bytes.readUInt8(at);
}

export function readI32(reader: ByteReader, field: string): number {
  const { bytes, at } = reader;
  if (at + 4 > bytes.length) throw tooShort(reader, 4, field);
  reader.at = at + 4;
  return bytes.readInt32BE(at);
}

/** A 64-bit integer as a number. Throws if a number cannot hold it exactly. */
export function readI64(reader: ByteReader, field: string): number {
  const { bytes, at } = reader;
  if (at + 8 > bytes.length) throw tooShort(reader, 8, field);
  reader.at = at + 8;
  const value = bytes.readInt32BE(at) * 2 ** 32 + bytes.readUInt32BE(at + 4);
  if (Number.isSafeInteger(value)) return value;
  throw new ProtocolError(`field ${field} is out of range (${value})`);
}

/** A fixed-width text field, up to its first NUL. */
export function readText(reader: ByteReader, width: number, field: string): string {
  const { bytes, at } = reader;
  const end = at + width;
  if (end > bytes.length) throw tooShort(reader, width, field);
  reader.at = end;
  const nul = bytes.indexOf(0, at);
  return bytes.toString('latin1', at, nul === -1 ? end : Math.min(nul, end));
}

/** The remaining bytes as text. */
export function readRest(reader: ByteReader): string {
  const { bytes, at } = reader;
  reader.at = bytes.length;
  return bytes.toString('latin1', at);
}

export function readBytes(reader: ByteReader, count: number, field: string): Buffer {
  const { bytes, at } = reader;
  if (at + count > bytes.length) throw tooShort(reader, count, field);
  reader.at = at + count;
  return bytes.subarray(at, at + count);
}

function tooShort({ bytes, at }: ByteReader, count: number, field: string): ProtocolError {
  const left = bytes.length - at;
  return new ProtocolError(`field ${field} needs ${count} bytes, ${left} are left`);
}

const FIRST_BYTES = 256;

/** Bytes that grow as they are written. */
export class ByteWriter {
  bytes: Buffer = Buffer.allocUnsafe(FIRST_BYTES);
  at = 0;

  /** Makes room for so many more bytes. */
  grow(count: number): void {
    const grown = Buffer.allocUnsafe(2 * (this.at + count));
    this.bytes.copy(grown, 0, 0, this.at);
    this.bytes = grown;
  }

  toBuffer(): Buffer {
    return this.bytes.subarray(0, this.at);
  }
}

export function writeU8(writer: ByteWriter, value: number): void {
  if (writer.at + 1 > writer.bytes.length) writer.grow(1);
  writer.bytes[writer.at] = value & 0xff;
  writer.at += 1;
}

export function writeI32(writer: ByteWriter, value: number): void {
  if (writer.at + 4 > writer.bytes.length) writer.grow(4);
  writer.at = writer.bytes.writeInt32BE(value | 0, writer.at);
}

export function writeI64(writer: ByteWriter, value: number): void {
  if (writer.at + 8 > writer.bytes.length) writer.grow(8);
  writer.bytes.writeInt32BE(Math.floor(value / 2 ** 32), writer.at);
  writer.at = writer.bytes.writeUInt32BE(value >>> 0, writer.at + 4);
}

/** A fixed-width text field, NUL-padded. Throws if the value does not fit. */
export function writeText(writer: ByteWriter, value: string, width: number, field: string): void {
  if (value.length > width) {
    throw new ProtocolError(`field ${field} holds ${width} bytes, "${value}" is longer`);
  }
  if (writer.at + width > writer.bytes.length) writer.grow(width);
  const end = writer.at + width;
  writer.bytes.fill(0, writer.at, end);
  writer.bytes.write(value, writer.at, 'latin1');
  writer.at = end;
}

export function writeRest(writer: ByteWriter, value: string): void {
  if (writer.at + value.length > writer.bytes.length) writer.grow(value.length);
  writer.at += writer.bytes.write(value, writer.at, 'latin1');
}

export function writeBytes(writer: ByteWriter, value: Buffer): void {
  if (writer.at + value.length > writer.bytes.length) writer.grow(value.length);
  writer.at += value.copy(writer.bytes, writer.at);
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

import {
  type ByteReader,
  ByteWriter,
  ProtocolError,
  readBytes,
  readI32,
  readI64,
  readRest,
  readText,
  readU8,
  writeBytes,
  writeI32,
  writeI64,
  writeRest,
  writeText,
  writeU8,
} from './bytes.js';
import { IP_BYTES, type IpWidth, MAX_PORT } from './constants.js';

/**
 * Message bodies declared as lists of fields in wire order. One declaration encodes a body, decodes
 * it and types its value.
 *
 *     record({ '#name': length, size, name: counted() })    name_len i64 | size i64 | name
 */

/** Turns a value into the bytes of a body and back. `decode` throws ProtocolError. */
export interface Codec<T> {
  encode(value: T, width?: IpWidth): Buffer;
  decode(bytes: Buffer): T;
}

export interface Field<T> {
  /** Width; 0 for a field of variable width. */
  readonly bytes: Readonly<Record<IpWidth, number>>;
  /** Limit of a counted field. */
  readonly maxBytes?: number | undefined;
  write(writer: ByteWriter, value: T, name: string, width: IpWidth): void;
  /** `length`: the value of the field `#name`, if there is one. */
  read(reader: ByteReader, name: string, width: IpWidth, length: number): T;
}

/** Fields of a record; `#name` is the length of the field `name`. */
type Fields = Readonly<Record<string, Omit<Field<unknown>, 'write'>>>;

type ValueOf<F extends Fields> = {
  readonly [Name in keyof F as Name extends `#${string}` ? never : Name]: ReturnType<
    F[Name]['read']
  >;
};

export type Layout<T> = Codec<T> & Field<T>;

export interface RecordLayout<T> extends Layout<T> {
  /** Length of the record that begins with `prefix`, which holds all fixed-width fields. */
  bytesOf(prefix: Buffer): number;
}

/** The value that a codec reads and writes. */
export type BodyOf<C> = C extends Codec<infer T> ? T : never;

function fixed<T>(
  bytes: number,
  write: (writer: ByteWriter, value: T, name: string) => void,
  read: (reader: ByteReader, name: string) => T,
): Field<T> {
  return { bytes: { narrow: bytes, wide: bytes }, write, read };
}

export const u8 = fixed<number>(1, writeU8, readU8);
export const flag = fixed<boolean>(
  1,
  (writer, value) => writeU8(writer, Number(value)),
  (reader, name) => readU8(reader, name) !== 0,
);
export const i32 = fixed<number>(4, writeI32, readI32);
export const i64 = fixed<number>(8, writeI64, readI64);

/** A size or an offset: never negative. */
export const size = fixed<number>(8, writeI64, readSize);
/** Length of the field whose name follows the `#`. */
export const length = size;
export const port = fixed<number>(8, writeI64, (reader, name) => {
  const value = readSize(reader, name);
  if (value < 1 || value > MAX_PORT) throw new ProtocolError(`${name} ${value}`);
  return value;
});
/** A CRC-32, sign-extended to 64 bits as the C servers send it. */
export const crc32 = fixed<number>(
  8,
  (writer, value) => writeI64(writer, value | 0),
  (reader, name) => readBytes(reader, 8, name).readUInt32BE(4),
);

function readSize(reader: ByteReader, name: string): number {
  const value = readI64(reader, name);
  if (value < 0) throw new ProtocolError(`field ${name} is negative (${value})`);
  return value;
}

export function text(bytes: number): Field<string> {
  return fixed(
    bytes,
    (writer, value, name) => writeText(writer, value, bytes, name),
    (reader, name) => readText(reader, bytes, name),
  );
}

/** An IP address, in the width of the whole body. */
export function address(bytes: Readonly<Record<IpWidth, number>> = IP_BYTES): Field<string> {
  return {
    bytes,
    write: (writer, value, name, width) => writeText(writer, value, bytes[width], name),
    read: (reader, name, width) => readText(reader, bytes[width], name),
  };
}

/** Text whose length an earlier field gives. */
export function counted(maxBytes?: number): Field<string> {
  return {
    bytes: { narrow: 0, wide: 0 },
    maxBytes,
    write: writeRest,
    read(reader, name, _width, bytes) {
      checkLength(bytes, maxBytes === undefined ? 0 : 1, maxBytes, name);
      return readBytes(reader, bytes, name).toString('latin1');
    },
  };
}

export const countedBytes: Field<Buffer> = {
  bytes: { narrow: 0, wide: 0 },
  write: writeBytes,
  read: (reader, name, _width, bytes) => readBytes(reader, bytes, name),
};

/** The rest of the body as text. */
export function tail(minBytes = 0, maxBytes?: number): Field<string> {
  return fixed(0, writeRest, (reader, name) => {
    const value = readRest(reader);
    checkLength(value.length, minBytes, maxBytes, name);
    return value;
  });
}

/** A count, then as many lines. */
export function lines(count: Field<number>, min = 0, max?: number): Field<readonly string[]> {
  return fixed(
    0,
    (writer, value, name) => {
      count.write(writer, value.length, name, 'wide');
      writeRest(writer, value.map((line) => `${line}\n`).join(''));
    },
    (reader, name) => {
      const announced = count.read(reader, name, 'wide', 0);
      const value = readRest(reader).split('\n').filter(Boolean);
      checkLength(announced, min, max, name);
      if (value.length === announced) return value;
      throw new ProtocolError(`${announced} ${name} announced, ${value.length} sent`);
    },
  );
}

/** A count, then as many items. */
export function many<T>(count: Field<number>, item: Field<T>): Field<readonly T[]> {
  return fixed(
    0,
    (writer, items, name) => {
      count.write(writer, items.length, name, 'wide');
      for (const each of items) item.write(writer, each, name, 'wide');
    },
    (reader, name) => {
      const items: T[] = [];
      for (let left = count.read(reader, name, 'wide', 0); left > 0; left -= 1) {
        items.push(item.read(reader, name, 'wide', 0));
      }
      return items;
    },
  );
}

/** A sequence of fields. With `what`, leftover bytes are an error. */
export function record<F extends Fields>(fields: F, what?: string): RecordLayout<ValueOf<F>> {
  const parts = Object.entries(fields).map(([name, field]) => {
    const lengthOf = name.startsWith('#') ? name.slice(1) : undefined;
    return { name, lengthOf, field: field as Field<unknown> };
  });
  const bytesAt = (width: IpWidth): number =>
    parts.reduce((sum, { field }) => sum + field.bytes[width], 0);
  const fieldsOf: Field<Record<string, unknown>> = {
    bytes: { narrow: bytesAt('narrow'), wide: bytesAt('wide') },
    write(writer, value, _name, width) {
      for (const { name, lengthOf, field } of parts) {
        const given = lengthOf === undefined ? value[name] : (value[lengthOf] as string).length;
        field.write(writer, given, name, width);
      }
    },
    read(reader, _name, width) {
      const value: Record<string, unknown> = {};
      const lengths: Record<string, number> = {};
      for (const { name, lengthOf, field } of parts) {
        const found = field.read(reader, name, width, lengths[name] ?? 0);
        if (lengthOf === undefined) value[name] = found;
        else lengths[lengthOf] = found as number;
      }
      return value;
    },
  };
  return {
    ...only(fieldsOf as unknown as Field<ValueOf<F>>, what),
    bytesOf(prefix) {
      const reader = { bytes: prefix, at: 0 };
      let bytes = fieldsOf.bytes.wide;
      for (const { name, lengthOf } of parts) {
        if (lengthOf === undefined) break;
        const counts = readSize(reader, name);
        checkLength(counts, 0, fields[lengthOf]?.maxBytes, name);
        bytes += counts;
      }
      return bytes;
    },
  };
}

/** A body of one field. */
export function only<T>(field: Field<T>, what?: string): Layout<T> {
  const { bytes } = field;
  return {
    ...field,
    encode(value, width = 'narrow') {
      const writer = new ByteWriter();
      field.write(writer, value, what ?? '', width);
      return writer.bytes.subarray(0, writer.at);
    },
    decode(body) {
      const reader = { bytes: body, at: 0 };
      const width = bytes.narrow === bytes.wide ? 'wide' : widthOf(body, bytes, what);
      const value = field.read(reader, what ?? '', width, 0);
      const left = body.length - reader.at;
      if (what === undefined || left === 0) return value;
      throw new ProtocolError(`${what} has ${left} bytes too many`);
    },
  };
}

/** A body of records up to its end. */
export function list<T>(item: Layout<T>, what: string, min = 0): Codec<readonly T[]> {
  return {
    encode: (items, width) => Buffer.concat(items.map((each) => item.encode(each, width))),
    decode(body) {
      const { narrow, wide } = item.bytes;
      const width = body.length % narrow === 0 ? 'narrow' : 'wide';
      if (body.length % item.bytes[width] !== 0 || body.length < min * Math.min(narrow, wide)) {
        throw new ProtocolError(`${what} of ${body.length} bytes`);
      }
      const reader = { bytes: body, at: 0 };
      const items: T[] = [];
      while (reader.at < body.length) items.push(item.read(reader, what, width, 0));
      return items;
    },
  };
}

/** Tells the width of the addresses from the length of the body. */
function widthOf(body: Buffer, { narrow, wide }: Field<never>['bytes'], what = 'a body'): IpWidth {
  if (body.length === wide) return 'wide';
  if (body.length === narrow) return 'narrow';
  throw new ProtocolError(`${what} of ${body.length} bytes`);
}

function checkLength(
  value: number,
  min: number,
  max = Number.POSITIVE_INFINITY,
  name: string,
): void {
  if (value < min || value > max) throw new ProtocolError(`${name} with a length of ${value}`);
}

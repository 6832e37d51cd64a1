import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TEST } from './paths.js';

/** Frames recorded between unmodified FastDFS programs; see test/vectors. */

export interface FrameVector {
  readonly op: string;
  readonly cluster: string;
  readonly cmd: number;
  /** Status of the reply; null when there is none. */
  readonly status: number | null;
  readonly request_hex: string;
  readonly response_hex: string | null;
  readonly note: string;
}

export interface FileIdVector {
  readonly file_id: string;
  readonly kind: 'normal' | 'appender' | 'regenerated' | 'slave' | 'trunk';
  readonly note: string;
  readonly decoded: {
    readonly group: string;
    readonly remote_filename: string;
    readonly store_path_index: number;
    readonly sub_path_high: number;
    readonly sub_path_low: number;
    readonly base64_27: string;
    readonly raw20_hex: string;
    readonly tail: string;
    readonly source_is_id: boolean;
    readonly source_id: number | null;
    readonly source_ip: string | null;
    readonly create_timestamp: number;
    readonly size_field_hex: string;
    readonly crc32: number;
    readonly appender_flag_bit58: boolean;
    readonly trunk_flag_bit59: boolean;
    readonly random_bits_32_54: number | null;
    readonly size_in_name: number;
    readonly is_slave_by_length: boolean;
    readonly type: string;
  };
  readonly server_query_file_info: {
    readonly status: number;
    readonly size: number;
    readonly mtime: number;
    readonly crc32_unsigned: number;
    readonly source_ip: string;
  };
  readonly query_request_hex: string;
  readonly query_response_hex: string;
}

export interface UtilVector {
  readonly kind: string;
  readonly [key: string]: string | number | null;
}

export function frameVectors(
  file: 'tracker' | 'storage' | 'storage-changes' | 'storage-to-tracker',
): FrameVector[] {
  return (read(file) as { vectors: FrameVector[] }).vectors;
}

export function fileIdVectors(): FileIdVector[] {
  return (read('fileids') as { ids: FileIdVector[] }).ids;
}

export function utilVectors(kind: string): UtilVector[] {
  const { values } = read('util') as { values: UtilVector[] };
  return values.filter((value) => value.kind === kind);
}

/** One recorded exchange by its name, for scripted servers. */
export function frameVector(file: 'tracker' | 'storage', op: string, cluster = 'plain') {
  const found = frameVectors(file).find((each) => each.op === op && each.cluster === cluster);
  if (!found) throw new Error(`no recorded ${op}`);
  return found;
}

/** Bytes after the 10 of the header. */
export function bodyOf(hex: string): Buffer {
  return Buffer.from(hex, 'hex').subarray(10);
}

function read(file: string): unknown {
  return JSON.parse(readFileSync(join(TEST, 'vectors', `${file}.json`), 'utf8'));
}

import type { IncomingHttpHeaders } from 'node:http';
import { parseDisposition, percentDecode } from '../http/content-disposition.js';
import type { BodyLimits } from '../limits.js';
import { ProblemError } from '../problems.js';

/**
 * The client's name for a file. It is a text that is kept and given back, never
 * a path: any character may be in it, only its length is bounded.
 */

/** Of a raw upload: `X-Filename`, else what Content-Disposition says, else none. */
export function fileNameOf(headers: IncomingHttpHeaders, limits: BodyLimits): string {
  const name = ownHeader(headers['x-filename']) ?? disposition(headers['content-disposition']);
  const problem = checkName(name, limits);
  if (problem) throw problem;
  return name;
}

export function checkName(name: string, limits: BodyLimits): ProblemError | undefined {
  if (Buffer.byteLength(name) <= limits.maxNameBytes) return undefined;
  const message = `A file name may have at most ${limits.maxNameBytes} bytes.`;
  return new ProblemError('invalid_name', message);
}

function ownHeader(value: string | string[] | undefined): string | undefined {
  if (value === undefined) return undefined;
  const name = percentDecode(String(value));
  if (name === undefined) {
    throw new ProblemError('invalid_name', 'X-Filename is not percent-encoded UTF-8.');
  }
  return name;
}

function disposition(value: string | undefined): string {
  if (value === undefined) return '';
  const parsed = parseDisposition(value);
  if (!parsed) throw new ProblemError('invalid_name', 'Content-Disposition is malformed.');
  return parsed.filename ?? '';
}

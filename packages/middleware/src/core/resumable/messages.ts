import type { IncomingMessage } from 'node:http';
import { ReadableStream } from 'node:stream/web';
import type { UnfinishedUpload } from '@stevedore/client';
import { ProblemError } from '../problems.js';
import type { RequestBody } from '../upload/request-body.js';
import { noteOf } from './note.js';

/** Requests and answers, between node and the web API that `@tus/server` speaks. */

/** PATCH and DELETE sent as POST, for clients behind proxies that allow no other method. */
export function methodOf({ method = '', headers }: IncomingMessage): string {
  const other = headers['x-http-method-override'];
  return method === 'POST' && other !== undefined ? String(other).toUpperCase() : method;
}

export function asWebRequest(
  request: IncomingMessage,
  method: string,
  id: string | undefined,
  body: RequestBody | undefined,
): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (!/^(?:upload-(?!concat)|tus-|content-)/.test(name) || value === undefined) continue;
    headers.set(name, String(value));
  }
  return new Request(`http://uploads/${id ?? ''}`, {
    method,
    headers,
    ...(body ? { body: ReadableStream.from(body.chunks()), duplex: 'half' } : {}),
  } as RequestInit);
}

export function ownHeaders(upload: UnfinishedUpload): Record<string, string> {
  const { metadata, isPart } = noteOf(upload);
  return {
    ...(metadata === '' ? {} : { 'upload-metadata': metadata }),
    ...(isPart ? { 'upload-concat': 'partial' } : {}),
  };
}

/** The protocol's library refuses with a status and a text, without a code. */
export function problemOf({ status }: Response, failure: unknown): unknown {
  const { message, body = '' } = (failure ?? {}) as {
    readonly message?: string;
    readonly body?: string;
  };
  if (message !== undefined) return failure;
  const text = body.trim() || 'The request is none of the tus protocol.';
  switch (status) {
    case 404:
    case 410:
      return new ProblemError('not_found', text);
    case 409:
      return new ProblemError('offset_mismatch', text);
    case 413:
      return new ProblemError('too_large', text);
    case 400:
    case 403:
      return new ProblemError('bad_request', text);
    default:
      return new ProblemError('upload_under_way', text);
  }
}

import { BOUNDARY, FORM_END, type Running } from './harness.js';

/** Uploads by fetch, with the whole answer. */

export interface Posted {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

export async function post(
  { url }: Running,
  body: string | Buffer,
  headers: Record<string, string> = {},
  path = '/files',
): Promise<Posted> {
  const response = await fetch(url + path, {
    method: 'POST',
    body: new Uint8Array(Buffer.from(body)),
    headers,
  });
  const json = (await response.json()) as Record<string, unknown>;
  return { status: response.status, body: json, headers: response.headers };
}

export function postParts(gateway: Running, parts: string, path = '/files'): Promise<Posted> {
  const type = `multipart/form-data; boundary=${BOUNDARY}`;
  return post(gateway, parts + FORM_END, { 'content-type': type }, path);
}

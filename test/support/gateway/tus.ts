import type { Readable } from 'node:stream';
import type { Gateway, GatewayExtras, GatewayInput } from '@stevedore/gateway';
import { type HttpResponse, Upload, type UploadOptions } from 'tus-js-client';
import { expect } from 'vitest';
import { plainGateway } from '../store.js';
import { ofTest, temporaryFolder } from '../temporary.js';

/** Clients of resumable uploads: `tus-js-client`, and plain requests of the tus protocol. */

export async function started(
  input: GatewayInput = {},
  extras: GatewayExtras = {},
  atTheEnd = ofTest,
): Promise<Gateway & { directory: string }> {
  const directory = input.directory ?? temporaryFolder(atTheEnd);
  const sizes = { trunkSize: '4MiB', smallFileLimit: '1MiB' };
  const gateway = await plainGateway({ ...sizes, ...input, directory }, atTheEnd, extras);
  return Object.assign(gateway, { directory });
}

interface Uploaded {
  readonly url: string;
  readonly key: string | undefined;
}

export function send(
  url: string,
  body: Buffer | Readable,
  options: Partial<UploadOptions> = {},
): Promise<Uploaded> {
  return new Promise((resolve, reject) => {
    let key: string | undefined;
    const upload = new Upload(body, {
      endpoint: `${url}/uploads`,
      retryDelays: [0, 10, 20, 40, 80],
      metadata: { filename: 'grüße.txt', filetype: 'text/plain' },
      onAfterResponse: (_request, response: HttpResponse) => {
        key = response.getHeader('X-File-Key') ?? key;
      },
      ...options,
      onError: reject,
      onSuccess: () => resolve({ url: upload.url!, key }),
    });
    upload.start();
  });
}

export async function bytesOf(url: string, key: string | undefined): Promise<Buffer> {
  const response = await fetch(`${url}/files/${key}`);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

interface Answer {
  readonly status: number;
  /** Of a problem. */
  readonly code: string | undefined;
  readonly headers: Response['headers'];
}

const TUS = { 'tus-resumable': '1.0.0' };

export async function tus(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
): Promise<Answer> {
  const type = method === 'PATCH' ? { 'content-type': 'application/offset+octet-stream' } : {};
  const response = await fetch(url, {
    method,
    headers: { ...TUS, ...type, ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  const { code } = text.startsWith('{') ? (JSON.parse(text) as { code: string }) : {};
  return { status: response.status, code, headers: response.headers };
}

export async function begun({ url }: Gateway, size: number, headers: Record<string, string> = {}) {
  const length = 'upload-defer-length' in headers ? {} : { 'upload-length': `${size}` };
  const answer = await tus(`${url}/uploads`, 'POST', { ...length, ...headers });
  expect(answer.status).toBe(201);
  return url + answer.headers.get('location');
}

export function offsetOf({ headers }: Answer): number {
  return Number(headers.get('upload-offset'));
}

import { expect, onTestFinished, test } from 'vitest';
import { type App, adapters } from '../../support/middleware/adapters.js';
import { openGateway, openStore } from '../../support/store.js';

/** Parts of forms as image pickers and old browsers send them: every adapter makes the same of them. */

type Started = Pick<App, 'url' | 'keysOf' | 'close'>;

async function gateway(): Promise<Started> {
  const { url, close } = await openGateway();
  return { url: `${url}/files`, keysOf: (answer) => [(answer as { key: string }).key], close };
}

const targets: readonly (readonly [string, () => Promise<Started>])[] = [
  ...adapters.map(({ name, start }) => [name, async () => start(await openStore(), {})] as const),
  ['gateway', gateway],
];

/** Content-Type and file name as they are sent, name and type of the file. */
const PARTS: readonly (readonly [string | undefined, string, string, string])[] = [
  ['image', 'x.png', 'x.png', 'image/png'],
  ['undefined', 'x.PNG', 'x.PNG', 'image/png'],
  ['null', 'x.heic', 'x.heic', 'image/heic'],
  ['image/*', 'x.jpg', 'x.jpg', 'image/jpeg'],
  ['', 'x.mov', 'x.mov', 'video/quicktime'],
  [undefined, 'x.jpg', 'x.jpg', 'image/jpeg'],
  ['image/jpeg;', 'x.jpg', 'x.jpg', 'image/jpeg'],
  ['image/jpeg', 'C:\\fakepath\\x.png', 'x.png', 'image/jpeg'],
  ['image/jpeg', 'C:\\\\fakepath\\\\x.png', 'x.png', 'image/jpeg'],
  ['image/png', 'C:\\x.png', 'x.png', 'image/png'],
  ['application/pdf', 'x.png', 'x.png', 'application/pdf'],
  ['text/plain', 'notes.txt', 'notes.txt', 'text/plain'],
  ['application/octet-stream', 'x.png', 'x.png', 'application/octet-stream'],
];

test.each(targets)('%s: names and types of parts', async (_name, start) => {
  const { url, keysOf, close } = await start();
  onTestFinished(close);
  for (const [declared, filename, name, type] of PARTS) {
    const part = [
      '--b',
      `Content-Disposition: form-data; name="f"; filename="${filename}"`,
      ...(declared === undefined ? [] : [`Content-Type: ${declared}`]),
      ...['', 'text', '--b--', ''],
    ];
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const posted = await fetch(url, { method: 'POST', headers, body: part.join('\r\n') });
    expect(posted.status).toBe(201);
    const [key] = keysOf(await posted.json());
    const got = await fetch(`${url}/${key}`);
    const disposition = got.headers.get('content-disposition')!;
    const shown = {
      name: /filename="(.*)"/.exec(disposition)?.[1],
      type: got.headers.get('content-type'),
    };
    expect(shown, `${declared} ${filename}`).toEqual({ name, type });
    expect(await got.text()).toBe('text');
  }
});

test('a resumable upload has a type of the same kind', async () => {
  const { url, close } = await gateway();
  onTestFinished(close);
  for (const [declared = '', name, , type] of PARTS) {
    if (name.includes('\\')) continue;
    const metadata = `filename ${base64(name)},filetype ${base64(declared)}`;
    const created = await fetch(url.replace('/files', '/uploads'), {
      method: 'POST',
      headers: {
        'tus-resumable': '1.0.0',
        'upload-length': '4',
        'upload-metadata': metadata,
        'content-type': 'application/offset+octet-stream',
      },
      body: 'text',
    });
    expect(created.status, declared).toBe(201);
    const info = await fetch(`${url}/${created.headers.get('x-file-key')}/info`);
    expect(await info.json()).toMatchObject({ name, type });
  }
});

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

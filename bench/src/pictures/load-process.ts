import { Agent } from 'node:http';
import { ask } from '../harness/http.js';
import { type Driven, drive } from '../harness/load.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { type Box, loadSharp, SIZES } from './sharp.js';

/**
 * The load, over connections that are kept. Every picture is decoded once, and has the size that
 * was asked for; repeated answers have the same bytes as that one.
 */

interface Shown {
  readonly path: string;
  readonly size: Box;
  /** As it was shown first. */
  bytes: Buffer;
}

const CONNECTIONS = 8;
const ORIGINAL: Box = { width: 1600, height: 1200 };
const ORIGINAL_QUALITY = 85;
/** An original is a mosaic of so many coloured dots, drawn larger: smooth, as photographs are. */
const DOTS: Box = { width: 200, height: 150 };

const sharp = loadSharp();
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const originals: Buffer[] = [];
let shown: Shown[] = [];

/** Makes so many different originals. */
export async function prepare(count: number): Promise<void> {
  for (let number = 0; number < count; number += 1) {
    const random = new SeededRandom(number + 1);
    const dots = Buffer.alloc(DOTS.width * DOTS.height * 3);
    for (let at = 0; at < dots.length; at += 1) dots[at] = Math.floor(random.next() * 256);
    const mosaic = sharp(dots, { raw: { ...DOTS, channels: 3 } });
    const drawn = mosaic.resize({ ...ORIGINAL, fit: 'fill' }).jpeg({ quality: ORIGINAL_QUALITY });
    originals.push(await drawn.toBuffer());
  }
}

/** Uploads the originals: each is another file than those of earlier turns. */
export async function upload(port: number): Promise<void> {
  shown = [];
  const headers = { 'content-type': 'image/jpeg', 'x-filename': 'photo.jpg' };
  const about = { port, method: 'POST', path: '/files', headers };
  await drive({ operations: originals.length, concurrency: CONNECTIONS }, async (index) => {
    const answer = await ask(agent, { ...about, body: originals[index] });
    const { key } = JSON.parse(answer.toString()) as { readonly key: string };
    for (const size of SIZES) {
      const path = `/files/${key}?w=${size.width}&h=${size.height}&format=jpeg`;
      shown.push({ path, size, bytes: Buffer.alloc(0) });
    }
  });
}

/** Asks for every picture of the last upload for the first time. */
export async function first(port: number): Promise<Driven> {
  const load = { operations: shown.length, concurrency: CONNECTIONS };
  const result = await drive(load, async (index) => {
    const picture = shown[index]!;
    picture.bytes = await ask(agent, { port, path: picture.path });
  });
  for (const picture of shown) await check(picture);
  return result;
}

/** Asks for the same pictures again, in random order. */
export function repeated(port: number, maxSeconds: number): Promise<Driven> {
  const random = new SeededRandom(shown.length);
  return drive({ concurrency: CONNECTIONS, maxSeconds }, async () => {
    const { path, bytes } = shown[random.below(shown.length)]!;
    if (!(await ask(agent, { port, path })).equals(bytes)) throw new Error(`${path} has changed`);
  });
}

/** Decodes it to the last pixel. */
async function check({ path, size, bytes }: Shown): Promise<void> {
  const { format, width, height } = await sharp(bytes).metadata();
  const pixels = await sharp(bytes, { failOn: 'warning' }).raw().toBuffer();
  const isRight = width === size.width && height === size.height && format === 'jpeg';
  if (isRight && pixels.length === width * height * 3) return;
  throw new Error(`${path} is a ${format} of ${width} x ${height}`);
}

export const close = () => agent.destroy();

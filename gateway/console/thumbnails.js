// Small pictures of files in sight: a few are fetched at a time, and the last ones are kept.
import { isPicture } from './preview.js';
import { call, fileUrl } from './transfer.js';
import { element } from './view.js';

const MAX_BYTES = 12 * 2 ** 20;
const SIDE_PX = 320;
/** Smaller ones would be enlarged. */
const MIN_SIDE_PX = 160;
const AT_ONCE = 3;
const MAX_KEPT = 400;

/** Canvases by key; the last used are last. */
const kept = new Map();
const waiting = [];
let running = 0;
/** The query of the gateway's size that is nearest; empty: it has none. Undefined until it is known. */
let sized;

/** `320`, `x200`, `640x480` */
export function setPictureSizes(sizes) {
  const [best] = sizes
    .map((size) => size.split('x').map(Number))
    .map(([w, h = 0]) => ({ w, h, side: Math.max(w, h) }))
    .filter(({ side }) => side >= MIN_SIDE_PX)
    .sort((a, b) => Math.abs(a.side - SIDE_PX) - Math.abs(b.side - SIDE_PX));
  const given = Object.entries({ w: best?.w, h: best?.h }).filter(([, pixels]) => pixels > 0);
  sized = given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
  next();
}

/** A picture, once it is there; until then, and for everything else, the kind of the file. */
export function thumbnail(file) {
  const box = element('span', { className: 'thumbnail', 'aria-hidden': 'true' }, kindOf(file));
  if (!isPicture(file)) return box;
  const known = kept.get(file.key);
  if (known) {
    kept.delete(file.key);
    kept.set(file.key, known);
    box.replaceChildren(known);
  } else {
    waiting.push({ file, box });
    // Once it is on the page.
    setTimeout(next);
  }
  return box;
}

function kindOf({ name, type }) {
  const ending = /\.([A-Za-z0-9]{1,5})$/.exec(name ?? '')?.[1];
  return ending ?? (type ?? '').split(/[/;]/)[1]?.slice(0, 5) ?? '';
}

function next() {
  while (sized !== undefined && running < AT_ONCE && waiting.length > 0) {
    // The latest is most likely still in sight.
    const { file, box } = waiting.pop();
    if (!box.isConnected) continue;
    running += 1;
    draw(file, box)
      // The browser cannot show it, or it is gone: its kind stays.
      .catch(() => {})
      .finally(() => {
        running -= 1;
        next();
      });
  }
}

/** As the gateway makes it; else as it is, unless that is large. */
async function bytesOf({ key, size }) {
  const get = async (query) => (await call(fileUrl(key) + query, { cache: 'default' })).blob();
  const made = sized && (await get(sized).catch(() => undefined));
  return made || (size <= MAX_BYTES ? get('') : undefined);
}

async function draw(file, box) {
  const { key } = file;
  const blob = await bytesOf(file);
  const bitmap = await createImageBitmap(blob);
  const share = Math.min(1, SIDE_PX / Math.max(bitmap.width, bitmap.height));
  const canvas = element('canvas', {
    width: Math.max(1, Math.round(bitmap.width * share)),
    height: Math.max(1, Math.round(bitmap.height * share)),
  });
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  kept.set(key, canvas);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value);
  box.replaceChildren(canvas);
}

// Shows a picture or a text. Nothing of a file is ever run: a picture is one of pixels, in an
// <img>, and everything else is text.
import { call, fetchFile, hasKey } from './transfer.js';
import { element, formatBytes } from './view.js';

const PICTURE = /^image\/(?:png|jpeg|gif|webp|avif|bmp)$/;
const TEXT = /^(?:text\/[\w.+-]+|application\/(?:json|xml|x-ndjson|yaml|javascript))$/;
const MAX_PICTURE_BYTES = 20 * 2 ** 20;
const TEXT_BYTES = 16 * 2 ** 10;

/** One that the browser draws from its pixels. */
export function isPicture({ type }) {
  return PICTURE.test(essenceOf(type));
}

export function canPreview({ type, size }) {
  return isPicture({ type }) ? size <= MAX_PICTURE_BYTES : TEXT.test(essenceOf(type));
}

/** An element that fills itself. */
export function preview({ url, type, size, name }) {
  return PICTURE.test(essenceOf(type)) ? picture(url, name) : text(url, size, name);
}

function essenceOf(type) {
  return (type ?? '').split(';')[0].trim().toLowerCase();
}

function picture(url, name) {
  const shown = element('img', { className: 'preview', alt: `Preview of ${name || 'the file'}` });
  const fail = () => shown.replaceWith(failure('The browser cannot show this picture.'));
  const load = async () => {
    shown.src = hasKey() ? await fetchFile(url) : url;
  };
  shown.onload = () => URL.revokeObjectURL(shown.src);
  shown.onerror = fail;
  load().catch(fail);
  return shown;
}

function text(url, size, name) {
  const shown = element('pre', { className: 'preview', tabIndex: 0, role: 'group' });
  shown.ariaLabel = `Preview of ${name || 'the file'}`;
  const load = async () => {
    if (size === 0) return 'The file is empty.';
    const range = { range: `bytes=0-${Math.min(size, TEXT_BYTES) - 1}` };
    const bytes = await (await call(url, { headers: range })).arrayBuffer();
    const more = size > TEXT_BYTES ? `\n… (${formatBytes(size)} in all)` : '';
    return `${new TextDecoder().decode(bytes)}${more}`;
  };
  load().then(
    (content) => shown.replaceChildren(content),
    (error) => shown.replaceWith(failure(error.message)),
  );
  return shown;
}

function failure(message) {
  return element('p', { className: 'bad' }, message);
}

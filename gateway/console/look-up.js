// Looks a file up by its key or FastDFS id: what is known of it, its picture, its deletion.
import { askForKey, isKeyWanted } from './key.js';
import { call, fetchFile, fileUrl, hasKey, lookUp } from './transfer.js';
import { at, element, facts, formatBytes, formatMoment, formatNumber } from './view.js';

/** How long the bytes of a download stay for the browser to take them. */
const HAND_OVER_MS = 30_000;

const listeners = { onDeleted: () => {} };

/** `onDeleted` hears of every file that is deleted. */
export function startLookUp(hooks) {
  Object.assign(listeners, hooks);
  at('look').addEventListener('submit', (event) => {
    event.preventDefault();
    const id = at('id').value.trim();
    show(id.replace(/^\/?files\//, '').replace(/^\//, ''));
  });
}

export async function show(id) {
  at('id').value = id;
  const found = at('found');
  try {
    const info = await lookUp(id);
    found.replaceChildren(...describe(info));
  } catch (error) {
    found.replaceChildren(element('p', { className: 'bad' }, error.message));
    if (isKeyWanted(error)) await askForKey(error);
  }
}

function describe(info) {
  const { key, url, name, size, type, crc32, state, affinityGroup, stagedAt, fileId } = info;
  const id = (text) => (text ? element('span', { className: 'id' }, text) : undefined);
  const list = facts([
    ['Name', name],
    ['Size', size === undefined ? undefined : `${formatBytes(size)} (${formatNumber(size)} bytes)`],
    ['Type', type],
    ['State', state],
    ['Key', id(key)],
    ['FastDFS id', id(fileId)],
    ['Group', affinityGroup],
    ['Staged', stagedAt ? formatMoment(new Date(stagedAt)) : undefined],
    ['Expires', info.expiresAt ? formatMoment(new Date(info.expiresAt)) : undefined],
    ['CRC-32', id(crc32)],
  ]);
  const actions = element('p', { className: 'actions' }, ...fileActions(url, name));
  if (key) actions.append(deleteButton(key, name));
  const shown = [list, actions];
  if (/^image\/(?:png|jpeg|gif|webp|avif|bmp)\b/.test(type)) {
    const picture = element('img', {
      className: 'preview',
      alt: `Preview of ${name || 'the file'}`,
    });
    picture.onerror = () => picture.remove();
    showIn(picture, url);
    shown.push(picture);
  }
  return shown;
}

/** A link carries no key: with one, the page fetches the file and hands it over. */
function fileActions(url, name) {
  if (!hasKey()) {
    return [
      element('a', { href: url, target: '_blank', rel: 'noreferrer' }, 'Open'),
      element('a', { href: `${url}?download` }, 'Download'),
    ];
  }
  const button = element('button', { type: 'button', className: 'plain small' }, 'Download');
  button.onclick = async () => {
    try {
      const link = element('a', { href: await fetchFile(url), download: name || 'file' });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), HAND_OVER_MS);
    } catch (error) {
      at('found').append(element('p', { className: 'bad' }, error.message));
    }
  };
  return [button];
}

async function showIn(picture, url) {
  try {
    picture.src = hasKey() ? await fetchFile(url) : url;
  } catch {
    picture.remove();
  }
}

function deleteButton(key, name) {
  const button = element('button', { type: 'button', className: 'danger small' }, 'Delete');
  button.onclick = async () => {
    if (button.dataset.sure === undefined) {
      button.dataset.sure = '';
      button.textContent = 'Delete permanently?';
      return;
    }
    button.disabled = true;
    try {
      await call(fileUrl(key), { method: 'DELETE' });
      at('found').replaceChildren(element('p', {}, `${name || key} was deleted.`));
      listeners.onDeleted();
    } catch (error) {
      at('found').append(element('p', { className: 'bad' }, error.message));
    }
  };
  button.onblur = () => {
    delete button.dataset.sure;
    if (!button.disabled) button.textContent = 'Delete';
  };
  return button;
}

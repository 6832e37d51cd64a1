// One file, beside the others: its preview, its key and links, and its story.
import { askForKey, isKeyWanted } from './key.js';
import { canPreview, preview } from './preview.js';
import { story } from './story.js';
import { fileUrl, get, handOver, hasKey, urlOf } from './transfer.js';
import {
  at,
  button,
  during,
  element,
  facts,
  formatBytes,
  formatMoment,
  formatNumber,
  stateOf,
} from './view.js';
import { canView, view } from './viewer.js';

let hooks = {};
let shown;

/** Hooks: `onDelete(file)`, `onClosed()`. */
export function startDetails(given) {
  hooks = given;
  at('details').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') closeDetails();
  });
}

export const shownKey = () => shown?.key;

export function closeDetails() {
  shown = undefined;
  at('details').hidden = true;
  at('details').replaceChildren();
  hooks.onClosed();
}

/** `id` is a key or a FastDFS id; `file` is what is known already. */
export async function showDetails(id, file) {
  const asked = { key: file?.key ?? id };
  shown = asked;
  const told = element('div', { className: 'told' }, 'Asking where it is');
  const put = (...parts) => {
    at('details').hidden = false;
    at('details').replaceChildren(...parts, told);
    at('details').scrollTop = 0;
  };
  put(...(file ? describe(file) : [head('Details')]));
  try {
    const location = await get('console/file', { id });
    if (shown !== asked) return;
    asked.key = location.file.key || id;
    if (!file) put(...describe(location.file));
    told.replaceChildren(statement(location), element('h3', {}, 'Its story'), story(location));
  } catch (error) {
    if (shown !== asked) return;
    told.replaceChildren(element('p', { className: 'bad', role: 'alert' }, error.message));
    if (isKeyWanted(error)) await askForKey(error);
  }
}

function head(title) {
  return element(
    'div',
    { className: 'details-head' },
    element('h3', { dir: 'auto' }, title),
    button('Close', closeDetails, { ariaLabel: 'Close the details' }),
  );
}

function describe(file) {
  const { key, name, size, type, fileId, affinityGroup, stagedAt, expiresAt, crc32 } = file;
  const url = key ? fileUrl(key) : urlOf(fileId.split('/').map(encodeURIComponent).join('/'));
  const folder = affinityGroup && `#files?${new URLSearchParams({ group: affinityGroup })}`;
  return [
    head(name || key || fileId),
    ...(canPreview(file) ? [shownPart(file, url)] : []),
    element('p', { className: 'actions' }, ...actions(file, url)),
    facts([
      ['Size', `${formatBytes(size)} (${formatNumber(size)} bytes)`],
      ['Type', type],
      ['Folder', folder && element('a', { href: folder, dir: 'auto' }, affinityGroup)],
      ['Uploaded', formatMoment(new Date(stagedAt))],
      ['Expires', expiresAt ? formatMoment(new Date(expiresAt)) : 'never'],
      ['CRC-32', crc32 && element('span', { className: 'id' }, crc32)],
      ['Key', copied(key, 'key')],
      ['Link', copied(url, 'link')],
      ['FastDFS id', copied(fileId, 'FastDFS id')],
    ]),
  ];
}

function shownPart(file, url) {
  const shown = preview({ ...file, url });
  if (file.key && canView(file)) shown.onclick = () => view(file);
  return shown;
}

/** One word for where it is, which the story does not contradict. */
function statement({ file, trunk }) {
  return facts([['State', stateOf(file.state, trunk)]]);
}

/** A link carries no key: with one, the page fetches the file and hands it over. */
function actions(file, url) {
  const { key, name } = file;
  const save = button('Download', () => during(save, () => handOver(url, name || 'file')));
  const links = hasKey()
    ? [save]
    : [
        element('a', { href: url, target: '_blank', rel: 'noreferrer' }, 'Open'),
        element('a', { href: `${url}?download` }, 'Download'),
      ];
  if (key && canView(file)) links.unshift(button('Full screen', () => view(file)));
  const remove = button('Delete', () => hooks.onDelete(file), { className: 'danger small' });
  return key ? [...links, remove] : links;
}

function copied(text, what) {
  if (!text) return undefined;
  const copy = button('Copy', async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = 'Copied';
    } catch {
      // Without a secure origin there is no clipboard; the text can still be selected.
      copy.textContent = 'Select it';
    }
  });
  copy.ariaLabel = `Copy the ${what}`;
  return element('span', { className: 'copied' }, element('span', { className: 'id' }, text), copy);
}

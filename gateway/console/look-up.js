// Looks a file up by its key or FastDFS id: what it is, its story, its preview, its deletion.
import { askForKey, isKeyWanted } from './key.js';
import { canPreview, preview } from './preview.js';
import { story, whatItIs } from './story.js';
import { call, fileUrl, handOver, hasKey, lookUp, urlOf } from './transfer.js';
import { at, button, element, sureButton } from './view.js';

const listeners = { onDeleted: () => {} };

/** `onDeleted` hears of every file that is deleted. */
export function startLookUp(hooks) {
  Object.assign(listeners, hooks);
  at('look').addEventListener('submit', (event) => {
    event.preventDefault();
    const id = at('id').value.trim();
    show(id.replace(/^(?:.*\/)?files\//, '').replace(/^\//, ''));
  });
}

export async function show(id) {
  at('id').value = id;
  const found = at('found');
  try {
    found.replaceChildren(...describe(await lookUp(id)));
  } catch (error) {
    found.replaceChildren(element('p', { className: 'bad' }, error.message));
    if (isKeyWanted(error)) await askForKey(error);
  }
}

function describe(location) {
  const { file } = location;
  const { key, name, fileId } = file;
  const url = key ? fileUrl(key) : urlOf(fileId.split('/').map(encodeURIComponent).join('/'));
  const actions = element('p', { className: 'actions' }, ...fileActions(url, name));
  if (key) actions.append(deleteButton(key, name));
  const shown = [whatItIs(file), actions];
  if (canPreview(file)) shown.push(preview({ ...file, url }));
  return [...shown, element('h3', {}, 'Its story'), story(location)];
}

/** A link carries no key: with one, the page fetches the file and hands it over. */
function fileActions(url, name) {
  if (!hasKey()) {
    return [
      element('a', { href: url, target: '_blank', rel: 'noreferrer' }, 'Open'),
      element('a', { href: `${url}?download` }, 'Download'),
    ];
  }
  return [button('Download', () => handOver(url, name || 'file').catch(fail))];
}

function deleteButton(key, name) {
  return sureButton('Delete', async (shown) => {
    shown.disabled = true;
    try {
      await call(fileUrl(key), { method: 'DELETE' });
      at('found').replaceChildren(element('p', {}, `${name || key} was deleted.`));
      listeners.onDeleted();
    } catch (error) {
      fail(error);
    }
  });
}

function fail({ message }) {
  at('found').append(element('p', { className: 'bad' }, message));
}

// API keys, which are made, limited and revoked here by a key with the scope admin.
import { askForKey, isKeyWanted } from './key.js';
import { showPolicies } from './policies.js';
import { call, get } from './transfer.js';
import {
  ask,
  at,
  button,
  changes,
  command,
  element,
  fillIn,
  formatBytes,
  formatDay,
  formatMoment,
  formatNumber,
  region,
  table,
} from './view.js';

export async function showPermissions() {
  try {
    const { file, keys, hidden } = await get('console/access');
    at('keys').replaceChildren(...(keys ? [...keyList(keys, hidden), ...making(file)] : open()));
  } catch (error) {
    at('keys').replaceChildren(...refusal(error));
    if (isKeyWanted(error)) {
      at('policies').replaceChildren();
      if (await askForKey(error)) await showPermissions();
      return;
    }
  }
  await showPolicies();
}

function refusal(error) {
  if (error.status === 403) {
    const text = 'Keys are shown to a key with the scope admin. This key has none.';
    return [element('p', {}, text), command('stevedore keys add NAME --scopes read,list,admin')];
  }
  return [element('p', { className: 'bad' }, error.message)];
}

function open() {
  return [
    element(
      'p',
      {},
      'This gateway has no API keys: everybody who reaches it may upload and read files, and delete those whose keys they know. To change that, make a key, and start the gateway with the file of keys:',
    ),
    command('stevedore keys add NAME --file stevedore-keys.json'),
    command('stevedore gateway --api-keys stevedore-keys.json'),
  ];
}

function keyList(keys, hidden) {
  if (keys.length === 0) return [element('p', { className: 'empty' }, 'There are no keys.')];
  const columns = [
    { title: 'Name', className: 'wide', cell: ({ name }) => name },
    { title: 'Id', cell: ({ id }) => element('span', { className: 'id' }, id) },
    { title: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
    {
      title: 'Uploaded today',
      number: true,
      cell: ({ bytesPerDay, bytesToday }) =>
        bytesPerDay === undefined
          ? 'not counted'
          : `${formatBytes(bytesToday)} of ${formatBytes(bytesPerDay)}`,
    },
    {
      title: 'Requests',
      number: true,
      cell: ({ requestsPerSecond: rate }) =>
        rate === undefined ? 'no limit' : `${formatNumber(rate)} a second`,
    },
    { title: 'Made', cell: ({ createdAt }) => formatDay(new Date(createdAt)) },
    { title: 'Expires', cell: ({ expiresAt }) => expiry(expiresAt) },
    { title: 'Change', cell: changing },
  ];
  const more = `${formatNumber(hidden)} more keys are in the file.`;
  return [
    region('List of API keys', table('API keys', columns, keys)),
    ...(hidden > 0 ? [element('p', { className: 'hint' }, more)] : []),
  ];
}

function expiry(expiresAt) {
  if (expiresAt === undefined) return 'never';
  const at = new Date(expiresAt);
  const text = formatMoment(at);
  return at <= Date.now() ? element('span', { className: 'bad' }, `${text}, expired`) : text;
}

function making(file) {
  const text = `The keys are in ${file}, which stevedore keys changes as well.`;
  return [
    element(
      'p',
      { className: 'actions' },
      button('New key', () => edit(), { className: '' }),
    ),
    element('p', { className: 'hint' }, text),
  ];
}

function changing(key) {
  return changes(key.name, ['Limit', () => edit(key)], ['Revoke', () => revokeKey(key)]);
}

async function revokeKey({ id, name }) {
  const how = 'Requests with it are refused from then on. It cannot be undone.';
  if (!(await ask(`Revoke “${name}”?`, `Its id is ${id}.`, how, 'Revoke it'))) return;
  await call(`keys/${id}`, { method: 'DELETE' });
  await showPermissions();
}

/** Without a key, a new one. */
function edit(key) {
  const boxes = [...document.getElementsByName('scope')];
  at('made-title').textContent = key ? `Limits of “${key.name}”` : 'New API key';
  at('made-name').value = key?.name ?? '';
  at('made-name').disabled = key !== undefined;
  for (const box of boxes) {
    box.checked = key ? key.scopes.includes(box.value) : ['read', 'write'].includes(box.value);
  }
  // The time that is left, in whole hours: what is sent counts from now.
  const hours = key?.expiresAt
    ? Math.ceil((Date.parse(key.expiresAt) - Date.now()) / 3_600_000)
    : 0;
  at('made-expires').value = hours > 0 ? `${hours}h` : '';
  at('made-rate').value = key?.requestsPerSecond ?? '';
  at('made-bytes').value = key?.bytesPerDay ? `${key.bytesPerDay}B` : '';
  at('made-fields').hidden = false;
  at('made-send').hidden = false;
  at('made-send').textContent = key ? 'Set the limits' : 'Make the key';
  at('made-close').textContent = 'Cancel';
  fillIn('made', async (dialog) => {
    if (!boxes.some(({ checked }) => checked)) throw new Error('Choose what the key may do.');
    const query = new URLSearchParams({
      ...(key ? {} : { name: at('made-name').value }),
      scopes: boxes.filter(({ checked }) => checked).map(({ value }) => value),
      'expires-in': at('made-expires').value.trim(),
      'requests-per-second': at('made-rate').value,
      'bytes-per-day': at('made-bytes').value.trim(),
    });
    const path = key ? `keys/${key.id}` : 'keys';
    const answer = await call(`${path}?${query}`, { method: key ? 'PATCH' : 'POST' });
    if (key) dialog.close();
    else showMade((await answer.json()).key);
    await showPermissions();
  });
}

/** Only its hash is kept: nobody sees it again. */
function showMade(text) {
  at('made-fields').hidden = true;
  at('made-send').hidden = true;
  at('made-close').textContent = 'Close';
  at('made-said').replaceChildren(
    'Copy it now: it is shown this one time.',
    element('code', { className: 'command' }, text),
  );
}

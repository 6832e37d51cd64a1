// API keys and policies, for a key that may see them. Keys are made by a command: their file is
// the operator's, and one file may serve several gateways.
import { askForKey, isKeyWanted } from './key.js';
import { askPermissions, urlOf } from './transfer.js';
import {
  at,
  element,
  formatBytes,
  formatDuration,
  formatMoment,
  formatNumber,
  region,
  table,
} from './view.js';

export async function showPermissions() {
  try {
    const { file, keys, hidden, policies } = await askPermissions();
    at('keys').replaceChildren(...keyList(keys, hidden), ...commands(file));
    at('policies').replaceChildren(policyList(policies));
  } catch (error) {
    at('policies').replaceChildren();
    at('keys').replaceChildren(...refusal(error));
    if (isKeyWanted(error) && (await askForKey(error))) await showPermissions();
  }
}

function refusal(error) {
  if (error.status === 403) {
    const text = 'Keys and policies are shown to a key with the scope admin. This key has none.';
    return [element('p', {}, text), command('stevedore keys add NAME --scopes read,list,admin')];
  }
  if (error.status !== 404) return [element('p', { className: 'bad' }, error.message)];
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
    { title: 'Made', cell: ({ createdAt }) => formatMoment(new Date(createdAt)) },
    { title: 'Expires', cell: ({ expiresAt }) => expiry(expiresAt) },
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

function commands(file) {
  return [
    element('p', { className: 'hint' }, 'To make a key, or to revoke one, run on the server:'),
    command(`stevedore keys add NAME --scopes write,read --file ${file}`),
    command(`stevedore keys revoke ID --file ${file}`),
  ];
}

function command(text) {
  return element('p', {}, element('code', { className: 'command' }, text));
}

function policyList(policies) {
  const entries = Object.entries(policies);
  if (entries.length === 0) return element('p', { className: 'empty' }, 'There are no policies.');
  const columns = [
    { title: 'Uploads to', cell: ([name]) => element('code', {}, pathOf(name)) },
    { title: 'Files', cell: ([, { maxFiles }]) => (maxFiles ? formatNumber(maxFiles) : 'any') },
    { title: 'Largest file', number: true, cell: ([, policy]) => size(policy.maxFileBytes) },
    { title: 'All together', number: true, cell: ([, policy]) => size(policy.maxTotalBytes) },
    { title: 'Types', className: 'wide', cell: ([, { types }]) => types?.join(', ') ?? 'any' },
    { title: 'Content checked', cell: ([, { checkContent }]) => (checkContent ? 'yes' : 'no') },
    { title: 'Group', cell: ([, { group }]) => group ?? '' },
    { title: 'Lifetime', cell: ([, { ttlMs }]) => (ttlMs ? formatDuration(ttlMs) : 'for ever') },
  ];
  return region('List of policies', table('Policies', columns, entries));
}

function pathOf(name) {
  return new URL(urlOf(name === 'default' ? 'files' : `uploads/${name}`)).pathname;
}

function size(bytes) {
  return bytes === undefined ? 'as the gateway' : formatBytes(bytes);
}

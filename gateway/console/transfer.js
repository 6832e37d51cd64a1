// Talks to the gateway: with the key of this tab, if it asks for one.

const STORAGE = 'stevedore-key';

const LOST = 'The connection to the gateway was lost.';

/** An answer that is no success, with what the gateway said about it. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail || `The gateway answered ${status}.`);
    this.status = status;
    this.code = problem?.code;
  }
}

export function hasKey() {
  return sessionStorage.getItem(STORAGE) !== null;
}

export function setKey(key) {
  if (key === undefined) sessionStorage.removeItem(STORAGE);
  else sessionStorage.setItem(STORAGE, key);
}

export function authorization() {
  const key = sessionStorage.getItem(STORAGE);
  return key === null ? {} : { authorization: `Bearer ${key}` };
}

export async function call(path, options = {}) {
  const answer = await fetch(path, {
    cache: 'no-store',
    credentials: 'omit',
    ...options,
    headers: { ...options.headers, ...authorization() },
  }).catch((cause) => {
    // Each browser has words of its own for it, and none for people.
    throw cause instanceof TypeError ? new Error(LOST, { cause }) : cause;
  });
  if (answer.ok) return answer;
  throw new Refused(answer.status, await answer.json().catch(() => undefined));
}

/** The figures. A gateway that takes longer than that does not answer. */
export async function askState(timeoutMs) {
  return (await call('/console/state', { signal: AbortSignal.timeout(timeoutMs) })).json();
}

/** Files that match, a page of them, and where the next page begins. */
export async function find(filters) {
  return (await call(`/files?${new URLSearchParams(filters)}`)).json();
}

export function fileUrl(key) {
  return `/files/${encodeURIComponent(key)}`;
}

/** The bytes of a file, where the browser itself could not show the key. */
export async function fetchFile(url) {
  return URL.createObjectURL(await (await call(url)).blob());
}

/** What the gateway says about a key or a FastDFS id. */
export async function lookUp(id) {
  if (!id.includes('/')) return (await call(`${fileUrl(id)}/info`)).json();
  const url = `/${id.split('/').map(encodeURIComponent).join('/')}`;
  const { headers } = await call(url, { method: 'HEAD' });
  return {
    url,
    fileId: id,
    size: Number(headers.get('content-length')),
    type: headers.get('content-type') ?? '',
    stagedAt: headers.get('last-modified') ?? '',
    state: 'merged',
  };
}

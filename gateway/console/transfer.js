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

function authorization() {
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

/** Sends one file; `onProgress` hears of bytes that have left. */
export function upload(file, group, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', '/files');
    request.responseType = 'json';
    request.setRequestHeader('x-filename', encodeURIComponent(file.name));
    request.setRequestHeader('content-type', file.type || 'application/octet-stream');
    // Headers carry bytes: the group goes as UTF-8, one character for each.
    if (group !== '') request.setRequestHeader('x-affinity-group', utf8(group));
    for (const [name, value] of Object.entries(authorization())) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onload = () => {
      if (request.status === 201) resolve(request.response);
      else reject(new Refused(request.status, request.response));
    };
    request.onerror = () => reject(new Error(LOST));
    request.onabort = () => reject(new DOMException('Cancelled.', 'AbortError'));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}

function utf8(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
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

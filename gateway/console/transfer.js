// Talks to the gateway: with the key of this tab, if it asks for one.
import { element } from './view.js';

const STORAGE = 'stevedore-key';

/** The gateway's own address: a proxy may have put it below a path. */
const GATEWAY = new URL('..', import.meta.url);

const LOST = 'The connection to the gateway was lost.';

/** An answer that is no success, with what the gateway said about it. */
export class Refused extends Error {
  constructor({ status, headers }, problem) {
    super(problem?.detail || `The gateway answered ${status}.`);
    this.status = status;
    this.retryAfterMs = Number(headers.get('retry-after') ?? 0) * 1000;
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

/** The URL of a path of the gateway, without its first slash. */
export function urlOf(path) {
  return new URL(path, GATEWAY).href;
}

/** `path` as for `urlOf`, or a URL. */
export async function call(path, options = {}) {
  const answer = await fetch(urlOf(path), {
    cache: 'no-store',
    credentials: 'omit',
    ...options,
    headers: { ...options.headers, ...authorization() },
  }).catch((cause) => {
    // Each browser has words of its own for it, and none for people.
    throw cause instanceof TypeError ? new Error(LOST, { cause }) : cause;
  });
  if (answer.ok) return answer;
  throw new Refused(answer, await answer.json().catch(() => undefined));
}

/** What the gateway has there, of JSON. One that takes longer than that does not answer. */
export async function get(path, parameters = {}, timeoutMs = undefined) {
  const query = new URLSearchParams(parameters).toString();
  const signal = timeoutMs && AbortSignal.timeout(timeoutMs);
  return (await call(query ? `${path}?${query}` : path, { signal })).json();
}

export function fileUrl(key) {
  return urlOf(`files/${encodeURIComponent(key)}`);
}

/** The bytes of a file, where the browser itself could not show the key. */
export async function fetchFile(url) {
  return URL.createObjectURL(await (await call(url)).blob());
}

/** How long the bytes of a download stay for the browser to take them. */
const HAND_OVER_MS = 30_000;

/** Hands a file over to the browser, which saves it under this name. */
export async function handOver(url, name) {
  const link = element('a', { href: await fetchFile(url), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), HAND_OVER_MS);
}

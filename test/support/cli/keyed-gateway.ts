import { keyFile, newKey } from '../gateway/guarded.js';
import { plainGateway } from '../store.js';
import { temporaryFolder } from '../temporary.js';

/** A gateway with API keys, and what a command needs to use one that may do everything. */
export async function keyedGateway() {
  const directory = temporaryFolder();
  const all = newKey({ scopes: ['read', 'write', 'delete', 'list'] });
  const reads = newKey({ scopes: ['read'] });
  const apiKeys = await keyFile(all, reads);
  const started = await plainGateway({ directory: `${directory}/store`, apiKeys });
  const environment = (key: string) => ({
    STEVEDORE_URL: started.url,
    STEVEDORE_API_KEY: key,
    XDG_STATE_HOME: `${directory}/state`,
  });
  const header = { 'x-api-key': all.text };
  const put = async (name: string, text: string, group = '') => {
    const headers = {
      ...header,
      'x-filename': encodeURIComponent(name),
      'content-type': 'text/plain',
      ...(group ? { 'x-affinity-group': group } : {}),
    };
    const asked = { method: 'POST', headers, body: text };
    const answer = await fetch(`${started.url}/files`, asked);
    return (await answer.json()) as { readonly key: string; readonly stagedAt: string };
  };
  const mayNot = environment(reads.text);
  return { started, directory, put, header, env: environment(all.text), mayNot };
}

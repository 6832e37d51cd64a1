import type { Flushed, FlushOptions } from '../types.js';
import type { GatewayFiles } from './gateway-files.js';
import { askAll, type Others, othersToAsk } from './others.js';

/**
 * Has the other servers store what they have staged, all at once. Rejects with the error of one that
 * could not do it in time.
 */
export async function flushOthers(
  others: Others & { readonly at: (url: string) => GatewayFiles },
  { timeoutMs, signal }: FlushOptions & { readonly timeoutMs: number },
): Promise<Flushed> {
  const toAsk = await othersToAsk(others);
  const ask = async (url: string) => others.at(url).flush({ timeoutMs, signal });
  const { answers, away } = await askAll(toAsk, ask, toAsk.urls.size);
  const failure = answers.find((answer) => answer !== undefined);
  if (failure) throw failure;
  return away ? { away } : {};
}

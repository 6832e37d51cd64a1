import { readFileSync } from 'node:fs';
import { CONFIG_FILE } from '../options.js';
import { UsageError } from './usage.js';

/** Options in ./stevedore.config.json, if there is one: a JSON object by option name. */

export function readConfigFile(path = CONFIG_FILE): Readonly<Record<string, unknown>> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
  const value = parse(path, text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UsageError(`${path} must hold a JSON object of options`);
  }
  return value as Readonly<Record<string, unknown>>;
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${path} is not valid JSON: ${(error as Error).message}`);
  }
}

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../paths.js';

export const GUIDES = join(ROOT, 'docs/guides');

/** The code blocks of a guide, in that language, that begin with the name of their file. */
export function programsOf(guide: string, language = 'js'): [path: string, text: string][] {
  const text = readFileSync(join(GUIDES, guide), 'utf8');
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\\n// (\\S+)\\n(.+?)^\`\`\`$`, 'gms'));
  return [...blocks].map(([, path, program]) => [path!, program!]);
}

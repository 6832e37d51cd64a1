import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../../support/paths.js';

const README = readFileSync(join(ROOT, 'packages/fastdfs/README.md'), 'utf8');

describe('the README', () => {
  it('lists every option', async () => {
    const options = readFileSync(join(ROOT, 'packages/fastdfs/src/options.ts'), 'utf8');
    const [, body] = /export interface FastdfsOptions \{(.*?)\n\}/s.exec(options)!;
    const inCode = [...body!.matchAll(/^ {2}readonly (\w+)/gm)].map(([, name]) => name);
    const section = README.split('## Options')[1]!.split('\n## ')[0]!;
    const documented = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
    expect(documented).toEqual(inCode);
  });

  it('lists every method', () => {
    const source = readFileSync(join(ROOT, 'packages/fastdfs/src/client.ts'), 'utf8');
    const inCode = [...source.matchAll(/^ {2}([a-z]\w+)\(/gm)].map(([, name]) => name!);
    const section = README.split('## Methods')[1]!.split('\n## ')[0]!;
    const missing = inCode.filter((name) => !section.includes(`\`${name}(`));
    expect(missing.filter((name) => name !== 'constructor')).toEqual([]);
  });
});

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { hasCommand, requirement } from './requirements.js';

export const needsNginx = requirement('nginx', () => hasCommand('nginx', '-v'));

/** nginx with this site, which has all its files in the folder, until the test ends. Returns its log. */
export function startNginx(folder: string, site: string): string {
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const temporary = kinds.map((kind) => `${kind}_temp_path ${join(folder, kind)};`);
  // Its workers are another user where this is root's.
  const main = process.getuid?.() === 0 ? 'user root;' : '';
  const http = ['access_log off;', ...temporary, site].join('\n');
  const path = join(folder, 'nginx.conf');
  const log = join(folder, 'nginx.log');
  const files = `pid ${join(folder, 'pid')}; error_log ${log};`;
  writeFileSync(path, `${main} daemon off; ${files} events {} http { ${http} }`);
  const child = spawn('nginx', ['-p', folder, '-e', log, '-c', path], { stdio: 'ignore' });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  return log;
}

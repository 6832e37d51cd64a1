import { execFileSync } from '../../child-process.js';
import type { GatewayProcess } from '../../gateway-process.js';
import { ask } from './asking.js';

/** The processes of a gateway with workers, and its figures. */

export const pidsOf = ({ child }: GatewayProcess): number[] =>
  execFileSync('pgrep', ['-P', String(child.pid)])
    .toString()
    .trim()
    .split('\n')
    .map(Number);

export async function metricsOf({ url }: GatewayProcess): Promise<Map<string, number>> {
  const { body } = await ask(url, '/metrics');
  const lines = body.toString().split('\n');
  return new Map(
    lines
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
  );
}

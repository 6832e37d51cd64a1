import { request as ask } from 'node:http';
import { serving } from './serving.js';

/**
 * A proxy in front of a gateway that serves nothing but what is below a path, which it removes and,
 * unless told otherwise, names in `X-Forwarded-Prefix`. Resolves with its URL, without the path.
 */
export function strippingProxy(
  target: string,
  path: string,
  headers: Readonly<Record<string, string>> = { 'x-forwarded-prefix': path },
): Promise<string> {
  return serving((request, response) => {
    const { url = '', method, headers: asked } = request;
    if (!url.startsWith(`${path}/`)) {
      response.writeHead(404).end('This is not below the path.');
      return;
    }
    const below = target + url.slice(path.length);
    const passed = ask(below, { method, headers: { ...asked, ...headers } }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.on('error', () => response.destroy()).pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.on('error', () => passed.destroy()).pipe(passed);
  });
}

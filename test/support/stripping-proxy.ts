import { request as ask, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * A proxy in front of a gateway that serves nothing but what is below a path, which it removes and,
 * unless told otherwise, names in `X-Forwarded-Prefix`. Resolves with its URL, without the path.
 */
export async function strippingProxy(
  target: string,
  path: string,
  headers: Readonly<Record<string, string>> = { 'x-forwarded-prefix': path },
): Promise<string> {
  const server = createServer((request, response) => {
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * A handler for node's own server.
 *
 * @module @stevedore/middleware/http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Receipt } from '@stevedore/client';
import { methodNotAllowed, ProblemError } from './core/problems.js';
import { checkKey } from './core/receipts.js';
import { type FilesOptions, MountedFiles } from './mounted-files.js';

/**
 * A handler for node's own server, and for frameworks that pass on its request and response: `POST
 * PATH` stores, `GET PATH/KEY` and `PATH/KEY/NAME` send, `GET PATH/KEY/info` describes, `DELETE
 * PATH/KEY` deletes if that is allowed. Resumable uploads (tus) begin at PATH too. It answers
 * everything under its path itself, errors as problem+json.
 */

export type { UploadRules } from './core/upload/policy.js';
export type { FilesOptions };

export type FileAction = 'upload' | 'read' | 'delete';

export interface HandlerOptions extends FilesOptions {
  /** Path of the files. Default: `/files`; use `/` for a server that serves nothing else. */
  readonly path?: string;
  /** Whether files may be deleted through it; default false. */
  readonly allowDelete?: boolean;
  /** Called before anything else; return false for 403. Default: everyone is allowed. */
  readonly authorize?: (
    request: IncomingMessage,
    action: FileAction,
    key: string | undefined,
  ) => boolean | Promise<boolean>;
  /** Called after each upload and before its answer. If it throws, its error is the answer. */
  readonly onStored?: (
    receipts: readonly Receipt[],
    request: IncomingMessage,
  ) => void | Promise<void>;
}

export type NodeHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  /** Handles requests outside the path. Default: 404. */
  next?: () => void,
) => void;

export function httpHandler(options: HandlerOptions): NodeHandler {
  const handler = new Handler(options);
  return (request, response, next) => {
    void handler.handle(request, response, next);
  };
}

class Handler {
  readonly #options: HandlerOptions;
  readonly #files: MountedFiles;
  readonly #path: string;

  constructor(options: HandlerOptions) {
    this.#options = options;
    this.#files = new MountedFiles(options);
    this.#path = (options.path ?? '/files').replace(/\/+$/, '');
  }

  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    next: (() => void) | undefined,
  ): Promise<void> {
    try {
      const route = this.#routeOf(request.url ?? '/');
      if (route) await this.#run(request, response, route);
      else if (next) next();
      else throw nothingHere();
    } catch (error) {
      this.#files.refuse(request, response, error);
    }
  }

  /** The parts of the path below `path`; undefined for another path. */
  #routeOf(url: string): readonly string[] | undefined {
    const [path = ''] = url.split('?', 1);
    if (path !== this.#path && !path.startsWith(`${this.#path}/`)) return undefined;
    const parts = path.slice(this.#path.length + 1).split('/');
    return parts.length === 1 && parts[0] === '' ? [] : parts;
  }

  async #run(
    request: IncomingMessage,
    response: ServerResponse,
    [key, more, ...rest]: readonly string[],
  ): Promise<void> {
    if (rest.length > 0) throw nothingHere();
    const { method } = request;
    const files = this.#files;
    if (more === undefined && files.isResumable(request)) {
      await this.#allow(request, 'upload', key);
      const onStored = (receipt: Receipt) => this.#options.onStored?.([receipt], request);
      const at = this.#baseOf(request);
      const asked = { onStored, key };
      files.send(response, await files.proceed(request, response, at, asked));
      return;
    }
    if (key === undefined) {
      if (method !== 'POST') throw methodNotAllowed(method, 'POST');
      await this.#allow(request, 'upload', undefined);
      const stored = await files.receive(request, response);
      await this.#options.onStored?.(stored.receipts, request);
      files.send(response, files.uploaded(stored, this.#baseOf(request)));
      return;
    }
    checkKey(key);
    if (method === 'GET' || method === 'HEAD') {
      await this.#allow(request, 'read', key);
      if (more !== 'info') await files.sendFile(request, response, key);
      else files.send(response, await files.info(request, key, this.#baseOf(request)));
      return;
    }
    const mayDelete = this.#options.allowDelete && more === undefined;
    if (method !== 'DELETE' || !mayDelete) {
      throw methodNotAllowed(method, mayDelete ? 'GET, HEAD, DELETE' : 'GET, HEAD');
    }
    await this.#allow(request, 'delete', key);
    files.send(response, await files.remove(key));
  }

  /** The path as clients see it: Express strips the prefix at which a router is mounted. */
  #baseOf(request: IncomingMessage): string {
    return `${(request as { baseUrl?: string }).baseUrl ?? ''}${this.#path}`;
  }

  async #allow(
    request: IncomingMessage,
    action: FileAction,
    key: string | undefined,
  ): Promise<void> {
    const { authorize } = this.#options;
    if (authorize && !(await authorize(request, action, key))) {
      throw new ProblemError('forbidden', 'This is not allowed.');
    }
  }
}

function nothingHere(): ProblemError {
  return new ProblemError('route_not_found', 'There is nothing at this path.');
}

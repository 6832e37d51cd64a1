import { type Command, Option } from 'commander';
import { DEFAULT_URL } from './gateway-client.js';

/** `--url`, for every command that talks to a gateway. */
export function addUrlOption(command: Command): Command {
  return command.addOption(
    new Option('-u, --url <url>', 'the gateway').env('STEVEDORE_URL').default(DEFAULT_URL),
  );
}

import { type Command, Option } from 'commander';
import { DEFAULT_URL } from './gateway-client.js';

/** `--url`: the gateway. */
export function addUrlOption(command: Command): Command {
  return command.addOption(
    new Option('-u, --url <url>', 'the gateway').env('STEVEDORE_URL').default(DEFAULT_URL),
  );
}

/** For every command that talks to a gateway. A key on the command line is seen by all users. */
export function addGatewayAccess(command: Command): Command {
  return addUrlOption(command).addHelpText(
    'after',
    `
Environment:
  STEVEDORE_URL      the gateway, where no --url names it
  STEVEDORE_API_KEY  the API key, where the gateway asks for one`,
  );
}

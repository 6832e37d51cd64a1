import type { Command } from '../command.js';
import { CommandCode } from '../constants.js';
import { nothing } from './shared.js';

/** ACTIVE_TEST (111): asks any server whether it is there. Both bodies are empty. */
export const activeTest: Command<undefined, undefined> = {
  name: 'ACTIVE_TEST',
  code: CommandCode.activeTest,
  request: nothing,
  reply: nothing,
};

/** QUIT (82): there is no reply, the server closes. */
export const quit: Command<undefined, undefined> = {
  name: 'QUIT',
  code: CommandCode.quit,
  request: nothing,
  reply: nothing,
};

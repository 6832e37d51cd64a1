import * as protocol from '@stevedore/protocol';

/** A command with its types set aside, for tests that treat all alike. */
export type AnyCommand = protocol.Command<unknown, unknown>;

const COMMANDS = [
  protocol.activeTest,
  protocol.quit,
  protocol.queryStore,
  protocol.queryStoreInGroup,
  protocol.queryFetch,
  protocol.queryUpdate,
  protocol.uploadFile,
  protocol.downloadFile,
  protocol.deleteFile,
  protocol.queryFileInfo,
  protocol.getMyIp,
  protocol.parameterReq,
  protocol.join,
  protocol.beat,
  protocol.reportDiskUsage,
] as unknown as AnyCommand[];

/** The command of a number. */
export function commandOf(code: number): AnyCommand {
  const command = COMMANDS.find((each) => each.code === code);
  if (!command) throw new Error(`no command ${code}`);
  return command;
}

export function isPayloadCommand(
  command: AnyCommand,
): command is protocol.PayloadCommand<unknown, unknown> {
  return 'payloadBytes' in command;
}

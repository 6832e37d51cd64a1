import type { Command } from 'commander';
import { UsageError } from './errors.js';

/** `stevedore completion`: a script that completes commands, their flags and files in a shell. */

const HELP = `
Examples:
  source <(stevedore completion bash)                                   in ~/.bashrc
  source <(stevedore completion zsh)                                    in ~/.zshrc, after compinit
  stevedore completion fish > ~/.config/fish/completions/stevedore.fish`;

/** `all` resolves with every command, its options included. */
export function configure(command: Command, all: () => Promise<readonly Command[]>): void {
  command.addHelpText('after', HELP).action(async (shell: string) => {
    const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
    if (!script) throw new UsageError(`"${shell}" is none of ${Object.keys(SCRIPTS).join(', ')}`);
    process.stdout.write(script(await all()));
  });
}

const SCRIPTS: Readonly<Record<string, (commands: readonly Command[]) => string>> = {
  bash: (commands) => `_stevedore() {
  local words
  case "$COMP_CWORD:\${COMP_WORDS[1]}" in
    1:*) words="${commands.map((each) => each.name()).join(' ')} --help --version" ;;
${commands.map((each) => `    *:${each.name()}) words="${flagsOf(each).join(' ')}" ;;`).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _stevedore stevedore
`,
  zsh: (commands) => `#compdef stevedore
_stevedore() {
  if (( CURRENT == 2 )); then
    local -a commands=(
${commands.map((each) => `      ${quoted(`${each.name()}:${each.summary()}`)}`).join('\n')}
    )
    _describe command commands
    return
  fi
  local -a options
  case $words[2] in
${commands.map((each) => `    ${each.name()}) options=(${flagsOf(each).join(' ')}) ;;`).join('\n')}
  esac
  [[ $PREFIX == -* ]] && compadd -- $options || _files
}
compdef _stevedore stevedore
`,
  fish: (commands) =>
    commands
      .flatMap((each) => [
        `complete -c stevedore -n __fish_use_subcommand -f -a ${each.name()} -d ${quoted(each.summary())}`,
        ...each.options.map(
          ({ long, description }) =>
            `complete -c stevedore -n '__fish_seen_subcommand_from ${each.name()}' -l ${long?.slice(2)} -d ${quoted(description)}`,
        ),
      ])
      .join('\n')
      .concat('\n'),
};

function flagsOf(command: Command): string[] {
  return [...command.options.map(({ long, short }) => long ?? short ?? ''), '--help'];
}

/** For all three shells: none takes an escape within single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", '’')}'`;
}

// `slipway completion`: the script of a shell, which asks `slipway __complete` for candidates.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<shell>',
  summary: 'print the completion script of a shell',
  description: 'print the completion script of bash, zsh or fish. Use it with: source <(slipway completion bash)',
}

const BASH = `_slipway() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null))
}
complete -o default -F _slipway slipway`

const ZSH = `_slipway() {
  local -a found
  found=(\${(f)"$("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
(( \${+functions[compdef]} )) || { autoload -Uz compinit && compinit }
compdef _slipway slipway`

const FISH = `function __slipway_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete -- $words[2..-1] 2>/dev/null </dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c slipway -f -a '(__slipway_complete)'`

export const SCRIPTS: Record<string, string> = { bash: BASH, zsh: ZSH, fish: FISH }

export function run(_: Session, _flags: object, [shell]: [string]): void {
  const script = SCRIPTS[shell]
  if (!script) throw usageError(`${shell} is not one of the shells ${Object.keys(SCRIPTS).join(', ')}.`)
  process.stdout.write(`${script}\n`)
}

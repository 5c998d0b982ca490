// What can stand at a place of a command line, derived from the declared commands.
import type { Command, Option } from 'commander'

/** `kind` is the name of an argument or of an option's value; `given` are the arguments before it. */
export type Place = { candidates: string[] } | { kind: string; given: string[]; command: string }

/** The last word is the one that is typed. */
export function findPlace(program: Command, words: string[]): Place {
  const typed = words.at(-1) ?? ''
  let command = program
  let option: Option | undefined
  const given: string[] = []
  for (const word of words.slice(0, -1)) {
    if (option) {
      option = undefined
      continue
    }
    if (word.startsWith('-')) {
      option = optionsOf(command).find(one => [one.short, one.long].includes(word) && one.required)
      continue
    }
    const next: Command | undefined = visible(command).find(one => one.name() === word)
    if (next) command = next
    else given.push(word)
  }
  const path = pathOf(command)
  if (option) return { kind: option.attributeName(), given, command: path }
  if (typed.startsWith('-')) return { candidates: optionsOf(command).flatMap(({ long }) => long ?? []) }
  if (command.commands.length > 0) return { candidates: visible(command).map(one => one.name()) }
  const last = command.registeredArguments.at(-1)
  const argument = command.registeredArguments[given.length] ?? (last?.variadic ? last : undefined)
  return { kind: argument?.name() ?? '', given, command: path }
}

const visible = (command: Command) => command.createHelp().visibleCommands(command)
const optionsOf = (command: Command): Option[] => [...command.options, ...(command.parent?.options ?? [])]
/** The words of a command after `slipway`. */
export const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}`.trim() : ''

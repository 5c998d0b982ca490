// Options, and the words of a program after `--`, that several commands share.
import type { Command } from 'commander'
import { shellWord } from './failure.ts'

/** For an option that can be repeated. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value]

/** Options as they were given, for a next command. A value in `--env NAME=VALUE` may be secret, so its name stays. */
export function repeatOptions(flags: object, names: string[]): string {
  const words = names.flatMap(name => {
    const member = name.replace(/-[a-z]/g, ([, letter]) => letter!.toUpperCase())
    const given: unknown = (flags as Record<string, unknown>)[member] ?? []
    if (given === true) return [`--${name}`]
    const values = (Array.isArray(given) ? given : [given]).map(String)
    return values.map(value => `--${name} ${shellWord(name === 'env' ? value.split('=')[0]! : value)}`)
  })
  return words.map(word => ` ${word}`).join('')
}

export type FollowFlags = { detach?: boolean; timeout: string }

export const withFollow = (command: Command): Command =>
  command
    .option('--detach', 'do not follow the revision')
    .option('--timeout <seconds>', 'how long to follow the revision', '900')

export type DocumentFlags = {
  file?: string[]
  owner?: string
  prune?: boolean
  takeOver?: boolean
  secretsFile?: string[]
}

export const withDocuments = (command: Command): Command =>
  command
    .option('-f, --file <path>', 'a file or a folder of documents, or - for stdin. Can be repeated', collect)
    .option('--owner <name>', 'the owner of all documents, such as shop/infra')
    .option('--prune', 'delete what has the owner and is in no document')
    .option('--take-over', 'also change what has another owner')
    .option('--secrets-file <file>', 'values of secrets: lines NAME=value or DEPLOYMENT/NAME=value', collect)

/** The words after `--`, which Commander puts at the end of all others. */
export function splitProgram(args: (string | undefined)[], words = process.argv): [(string | undefined)[], string[]] {
  const at = words.indexOf('--')
  const count = at < 0 ? 0 : words.length - at - 1
  const own = args.slice(0, args.length - count)
  return [own, count === 0 ? [] : (args.slice(-count) as string[])]
}
